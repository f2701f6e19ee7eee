"""Groups and their limits: how many may be in one, and how long it waits for each of them."""

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
    anna, ben = first_round(transcript)
    too_many(transcript, anna, ben)
    one_is_late(transcript)
    modern_is_full(transcript)
    modern_is_slow(transcript, topic)


def first_round(transcript: Transcript) -> tuple[ClassicMember, ClassicMember]:
    anna = ClassicMember(transcript, "anna", OLD, subscription(TOPIC))
    ben = ClassicMember(transcript, "ben", OLD, subscription(TOPIC))
    anna.join("anna is given an id")
    ben.join("ben is given an id")
    anna.send_join("anna joins, and the group waits a moment for others")
    wait_for_state(transcript, OLD, "PreparingRebalance", 1)
    ben.send_join("ben joins in that moment")
    anna.receive_join("anna leads")
    ben.receive_join("ben is in, in the same generation")
    anna.sync(
        "anna assigns", {anna.id: assignment({TOPIC: [0, 1]}), ben.id: assignment({TOPIC: [2, 3]})}
    )
    ben.sync("ben has his half")
    words = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": "x" * 11}]
    words_of = [{"name": TOPIC, "partitions": words}]
    anna.commit("words that are too long here", TOPIC, {}, topics=words_of)
    return anna, ben


def too_many(transcript: Transcript, anna: ClassicMember, ben: ClassicMember) -> None:
    carla = ClassicMember(transcript, "carla", OLD, subscription(TOPIC))
    carla.join("carla is one too many")
    carla.version = 3
    carla.join("in the old way too")
    carla.instance, carla.version = "desk-c", 9
    carla.join("and with a desk")
    carla.join("and with an id", member_id="carla")
    carla.instance = None
    carla.join("a session longer than is allowed here", session_timeout_ms=100_001)
    anna.heartbeat("anna notices nothing")
    ben.leave("ben leaves")
    carla.join("now carla is given an id")
    carla.send_join("carla joins")
    wait_for_state(transcript, OLD, "PreparingRebalance", 2)
    anna.join("anna comes back")
    carla.receive_join("carla is in")
    describe_classic(transcript, "two again", OLD)


def one_is_late(transcript: Transcript) -> None:
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
    ben.receive_join("ben is in, and is not heard again")
    anna.sync(
        "anna assigns", {anna.id: assignment({TOPIC: [0, 1]}), ben.id: assignment({TOPIC: [2, 3]})}
    )
    transcript.wait_until(lambda: anna.heartbeat_error() == REBALANCE_IN_PROGRESS)
    ben.heartbeat("ben did not ask for his share in time, and is out")
    anna.join("anna comes back")
    anna.sync("anna takes everything", {anna.id: assignment({TOPIC: [0, 1, 2, 3]})})
    carla = ClassicMember(
        transcript, "carla, again", LATE, subscription(TOPIC), rebalance_ms=SHORT_MS
    )
    carla.obtain_member_id()
    carla.send_join("carla joins, and anna does not come back")
    carla.receive_join("carla leads")
    anna.heartbeat("anna is out")
    describe_classic(transcript, "carla is alone", LATE)


def modern_is_full(transcript: Transcript) -> None:
    anna = ConsumerMember(transcript, "anna", NEW, [TOPIC])
    ben = ConsumerMember(transcript, "ben", NEW, [TOPIC])
    carla = ConsumerMember(transcript, "carla", NEW, [TOPIC])
    anna.join("anna joins in the new way")
    ben.join("ben joins in the new way")
    settle(transcript, 4, anna, ben)
    carla.join("carla is one too many")
    old = ClassicMember(transcript, "dora", NEW, subscription(TOPIC))
    old.join("and so is dora, in the old way")
    settle(transcript, 4, anna, ben)
    describe_consumer(transcript, "the two share", NEW)
    settle(transcript, 4, anna)
    describe_consumer(transcript, "ben was silent for too long", NEW)
    ben.heartbeat("ben is not known any more")
    ben.commit("ben cannot commit", TOPIC, {2: 1})
    anna.leave("anna leaves")


def modern_is_slow(transcript: Transcript, topic: bytes) -> None:
    anna = ConsumerMember(transcript, "anna", SLOW, [TOPIC], rebalance_ms=SHORT_MS)
    anna.join("anna joins")
    anna.confirm_assignment("anna has everything")
    ben = ConsumerMember(transcript, "ben", SLOW, [TOPIC])
    ben.join("ben joins")
    anna.heartbeat("anna is told to let go, and does not")
    transcript.wait_until(lambda: anna.heartbeat_unrecorded().error_code == UNKNOWN_MEMBER_ID)
    anna.heartbeat("anna took too long, and is out")
    settle(transcript, 4, ben)
    describe_consumer(transcript, "ben has everything", SLOW)
