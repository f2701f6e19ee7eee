"""Limits of groups: maximum size, session timeout and rebalance timeout."""

from transcripts.scenarios.group_members import (
    ClassicMember,
    ConsumerMember,
    assignment,
    describe_classic,
    describe_consumer,
    settle,
    subscription,
    wait_for_coordinator,
    wait_for_state,
)
from transcripts.transcript import Transcript

TOPIC = "limited-topic"
OLD, NEW, LATE, SLOW = "limits-old", "limits-new", "limits-late", "limits-slow"
SETTINGS = {
    "group.initial.rebalance.delay.ms": "500",
    "group.min.session.timeout.ms": "10",
    "group.max.session.timeout.ms": "100000",
    "group.max.size": "2",
    "group.consumer.max.size": "2",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.session.timeout.ms": "1500",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
    "offset.metadata.max.bytes": "10",
}
SHORT_MS = 700
REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID = 27, 25


def run(transcript: Transcript) -> None:
    topic = transcript.create_topic(TOPIC, 4)
    wait_for_coordinator(transcript, OLD, NEW, LATE, SLOW)
    anna, ben = initial_delay(transcript)
    classic_group_is_full(transcript, anna, ben)
    classic_rebalance_timeout(transcript)
    consumer_group_is_full(transcript)
    consumer_rebalance_timeout(transcript, topic)


def initial_delay(transcript: Transcript) -> tuple[ClassicMember, ClassicMember]:
    anna = ClassicMember(transcript, "anna", OLD, subscription(TOPIC))
    ben = ClassicMember(transcript, "ben", OLD, subscription(TOPIC))
    anna.join("anna gets a member id")
    ben.join("ben gets a member id")
    anna.send_join("anna joins and the initial rebalance delay starts")
    wait_for_state(transcript, OLD, "PreparingRebalance", 1)
    ben.send_join("ben joins during the delay")
    anna.receive_join("anna leads")
    ben.receive_join("ben has joined the same generation")
    anna.sync(
        "anna assigns", {anna.id: assignment({TOPIC: [0, 1]}), ben.id: assignment({TOPIC: [2, 3]})}
    )
    ben.sync("ben gets his assignment")
    words = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": "x" * 11}]
    words_of = [{"name": TOPIC, "partitions": words}]
    anna.commit("commit metadata above the limit", TOPIC, {}, topics=words_of)
    return anna, ben


def classic_group_is_full(transcript: Transcript, anna: ClassicMember, ben: ClassicMember) -> None:
    carla = ClassicMember(transcript, "carla", OLD, subscription(TOPIC))
    carla.join("carla exceeds the maximum group size")
    carla.version = 3
    carla.join("carla with version 3")
    carla.instance, carla.version = "desk-c", 9
    carla.join("carla with an instance id")
    carla.join("carla with a member id", member_id="carla")
    carla.instance = None
    carla.join("a session timeout above the maximum", session_timeout_ms=100_001)
    anna.heartbeat("anna's heartbeat shows no rebalance")
    ben.leave("ben leaves")
    carla.join("carla gets a member id")
    carla.send_join("carla joins")
    wait_for_state(transcript, OLD, "PreparingRebalance", 2)
    anna.join("anna rejoins")
    carla.receive_join("carla has joined")
    describe_classic(transcript, "two members again", OLD)


def classic_rebalance_timeout(transcript: Transcript) -> None:
    anna = ClassicMember(
        transcript, "anna, again", LATE, subscription(TOPIC), rebalance_ms=SHORT_MS
    )
    ben = ClassicMember(transcript, "ben, again", LATE, subscription(TOPIC), rebalance_ms=SHORT_MS)
    for each in (anna, ben):
        each.obtain_member_id()
    anna.send_join("anna joins")
    wait_for_state(transcript, LATE, "PreparingRebalance", 1)
    ben.send_join("ben joins")
    anna.receive_join("anna leads")
    ben.receive_join("ben has joined and does not sync")
    anna.sync(
        "anna assigns", {anna.id: assignment({TOPIC: [0, 1]}), ben.id: assignment({TOPIC: [2, 3]})}
    )
    transcript.wait_until(lambda: anna.heartbeat_error() == REBALANCE_IN_PROGRESS)
    ben.heartbeat("ben did not sync in time and was removed")
    anna.join("anna rejoins")
    anna.sync(
        "anna assigns all partitions to herself", {anna.id: assignment({TOPIC: [0, 1, 2, 3]})}
    )
    carla = ClassicMember(
        transcript, "carla, again", LATE, subscription(TOPIC), rebalance_ms=SHORT_MS
    )
    carla.obtain_member_id()
    carla.send_join("carla joins and anna does not rejoin")
    carla.receive_join("carla leads")
    anna.heartbeat("anna was removed")
    describe_classic(transcript, "carla is the only member", LATE)


def consumer_group_is_full(transcript: Transcript) -> None:
    anna = ConsumerMember(transcript, "anna", NEW, [TOPIC])
    ben = ConsumerMember(transcript, "ben", NEW, [TOPIC])
    carla = ConsumerMember(transcript, "carla", NEW, [TOPIC])
    anna.join("anna joins with the consumer protocol")
    ben.join("ben joins with the consumer protocol")
    settle(transcript, 4, anna, ben)
    carla.join("carla exceeds the maximum group size")
    old = ClassicMember(transcript, "dora", NEW, subscription(TOPIC))
    old.join("dora exceeds the maximum group size, classic protocol")
    settle(transcript, 4, anna, ben)
    describe_consumer(transcript, "two members", NEW)
    settle(transcript, 4, anna)
    describe_consumer(transcript, "ben was removed after the session timeout", NEW)
    ben.heartbeat("ben is an unknown member")
    ben.commit("a commit of ben fails", TOPIC, {2: 1})
    anna.leave("anna leaves")


def consumer_rebalance_timeout(transcript: Transcript, topic: bytes) -> None:
    anna = ConsumerMember(transcript, "anna", SLOW, [TOPIC], rebalance_ms=SHORT_MS)
    anna.join("anna joins")
    anna.confirm_assignment("anna confirms all partitions")
    ben = ConsumerMember(transcript, "ben", SLOW, [TOPIC])
    ben.join("ben joins")
    anna.heartbeat("anna has to revoke and does not")
    transcript.wait_until(lambda: anna.heartbeat_unrecorded().error_code == UNKNOWN_MEMBER_ID)
    anna.heartbeat("anna was removed after the rebalance timeout")
    settle(transcript, 4, ben)
    describe_consumer(transcript, "ben has all partitions", SLOW)
