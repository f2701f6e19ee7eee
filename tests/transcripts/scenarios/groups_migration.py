"""Conversion of a group between the classic and the consumer protocol during a rolling restart."""

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
from transcripts.script_client import KAFKA_FAILS
from transcripts.steps import Differs
from transcripts.transcript import Transcript

UP, DOWN, STATIC, EMPTY = "rolling-up", "rolling-down", "rolling-static", "rolling-empty"
TOPIC = "rolling-topic"
IDLE = "Kafka assigns nothing until the next change; Sawlog assigns when it converts the group"
TWICE = (
    "Kafka returns an interim generation and requires a rejoin; Sawlog answers after the rebalance"
)


def run(transcript: Transcript) -> None:
    topic = transcript.create_topic(TOPIC, 4)
    wait_for_coordinator(transcript, UP, DOWN, STATIC, EMPTY)
    to_consumer(transcript)
    to_classic(transcript, topic)
    static_member(transcript)
    empty_group(transcript)
    connect_workers(transcript)
    garbage_payloads(transcript)
    before_the_first_assignment(transcript)
    changed_subscription(transcript)


def describe_both(transcript: Transcript, group: str) -> None:
    describe_classic(transcript, "the group with DescribeGroups", group, version=6)
    describe_consumer(transcript, "the group with ConsumerGroupDescribe", group)


def to_consumer(transcript: Transcript) -> None:
    anna = ClassicMember(transcript, "anna", UP, subscription(TOPIC, owned={}))
    anna.obtain_member_id()
    anna.join("anna joins with the classic protocol")
    anna.sync(
        "anna assigns all partitions to herself", {anna.id: assignment({TOPIC: [0, 1, 2, 3]}, 1)}
    )
    anna.commit("anna commits", TOPIC, {0: 1})
    ben = ConsumerMember(transcript, "ben", UP, [TOPIC])
    ben.join("ben joins with the consumer protocol, which converts the group")
    describe_both(transcript, UP)
    anna.heartbeat("anna learns of the rebalance")
    anna.commit("anna commits before she rejoins", TOPIC, {0: 2})
    anna.sync("a sync of anna fails")
    anna.join("anna rejoins without owned partitions")
    anna.sync("anna gets her assignment")
    settle(transcript, 2, ben)
    ben.commit("ben commits", TOPIC, {2: 3})
    anna.heartbeat("anna's heartbeat")
    describe_both(transcript, UP)
    old = anna.sync_fields(generation_id=anna.generation - 1)
    anna.client.request("a sync with the previous generation", "SyncGroup", 5, old)
    anna.sync("a sync with another protocol", protocol_name="roundrobin")
    anna.heartbeat("a heartbeat with the previous generation", generation_id=anna.generation - 1)
    anna.commit("anna commits", TOPIC, {0: 3})
    old_commit = {"generation_id_or_member_epoch": anna.generation - 1}
    anna.commit("a commit with the previous generation", TOPIC, {0: 99}, **old_commit)
    carla = ClassicMember(transcript, "carla", UP, subscription(TOPIC, owned={}))
    carla.join("carla joins with the classic protocol and gets a member id")
    carla.leave("carla leaves")
    anna.leave("anna leaves")
    settle(transcript, 4, ben)
    describe_both(transcript, UP)
    ben.leave("ben leaves")
    describe_both(transcript, UP)


def to_classic(transcript: Transcript, topic: bytes) -> None:
    anna = ConsumerMember(transcript, "anna", DOWN, [TOPIC])
    anna.join("anna joins with the consumer protocol")
    anna.confirm_assignment("anna confirms all partitions")
    ben = ClassicMember(transcript, "ben", DOWN, subscription(TOPIC, owned={}))
    ben.join("ben joins with the classic protocol and gets a member id")
    ben.join("ben joins; no partition is free yet")
    ben.sync("ben gets an empty assignment")
    anna.heartbeat("anna gets a reduced assignment")
    anna.confirm_assignment("anna confirms the reduced assignment")
    ben.heartbeat("ben learns of the rebalance")
    ben.join("ben rejoins")
    ben.sync("ben gets his assignment")
    ben.commit("ben commits", TOPIC, {2: 3})
    describe_both(transcript, DOWN)
    anna.leave("anna leaves, which converts the group back")
    describe_both(transcript, DOWN)
    ben.heartbeat("ben learns of the rebalance")
    ben.join("ben rejoins and leads")
    ben.sync(
        "ben assigns all partitions to himself", {ben.id: assignment({TOPIC: [0, 1, 2, 3]}, 1)}
    )
    describe_both(transcript, DOWN)
    transcript.request(
        "the committed offsets remain", "OffsetFetch", 7, {"group_id": DOWN, "topics": None}
    )


def static_member(transcript: Transcript) -> None:
    anna = ClassicMember(transcript, "anna", STATIC, subscription(TOPIC), instance="desk-a")
    anna.join("anna joins with the classic protocol and an instance id")
    anna.sync(
        "anna assigns all partitions to herself", {anna.id: assignment({TOPIC: [0, 1, 2, 3]})}
    )
    again = ConsumerMember(transcript, "anna, restarted", STATIC, [TOPIC], instance="desk-a")
    again.join("anna restarts with the consumer protocol, which converts the group")
    anna.heartbeat("the previous member is fenced")
    describe_both(transcript, STATIC)
    again.confirm_assignment("anna confirms all partitions")
    again.leave("anna leaves temporarily", -2)
    back = ClassicMember(
        transcript, "anna, classic again", STATIC, subscription(TOPIC), instance="desk-a"
    )
    back.join("anna restarts with the classic protocol, which converts the group back")
    back.sync("anna gets her previous assignment")
    describe_both(transcript, STATIC)
    again.heartbeat("the consumer member is unknown")


def empty_group(transcript: Transcript) -> None:
    anna = ClassicMember(transcript, "anna", EMPTY, subscription(TOPIC))
    anna.obtain_member_id()
    anna.join("anna joins with the classic protocol")
    anna.sync(
        "anna assigns all partitions to herself", {anna.id: assignment({TOPIC: [0, 1, 2, 3]})}
    )
    anna.commit("anna commits", TOPIC, {0: 7})
    anna.leave("anna leaves")
    describe_both(transcript, EMPTY)
    ben = ConsumerMember(transcript, "ben", EMPTY, [TOPIC])
    ben.join("ben joins with the consumer protocol")
    describe_both(transcript, EMPTY)
    ben.leave("ben leaves")
    carla = ClassicMember(transcript, "carla", EMPTY, subscription(TOPIC))
    carla.join("carla joins with the classic protocol and gets a member id")
    carla.join("carla joins")
    describe_both(transcript, EMPTY)
    transcript.request(
        "the committed offsets remain", "OffsetFetch", 7, {"group_id": EMPTY, "topics": None}
    )


def connect_workers(transcript: Transcript) -> None:
    group = "rolling-connect"
    wait_for_coordinator(transcript, group)
    anna = ClassicMember(transcript, "anna", group, b"a worker's wishes")
    anna.join("a Connect worker gets a member id", protocol_type="connect")
    anna.join("the Connect worker joins", protocol_type="connect")
    everything = {anna.id: b"all the work"}
    anna.sync("the Connect worker assigns to itself", everything, protocol_type="connect")
    describe_both(transcript, group)
    ben = ConsumerMember(transcript, "ben", group, [TOPIC])
    ben.join("ben cannot join a group of Connect workers")
    anna.heartbeat("the worker's heartbeat succeeds")
    group = "rolling-other"
    wait_for_coordinator(transcript, group)
    carla = ConsumerMember(transcript, "carla", group, [TOPIC])
    carla.join("carla joins with the consumer protocol")
    dora = ClassicMember(transcript, "dora", group, b"a worker's wishes")
    dora.join("a Connect worker cannot join a consumer group", protocol_type="connect")
    dora.join("a classic member without protocols cannot join", protocols=[])
    dora.join(
        "a Connect worker with a member id cannot join", protocol_type="connect", member_id="dora"
    )
    dora.version = 3
    dora.join("garbage as metadata", protocols=[{"name": "range", "metadata": b"x"}])


def garbage_payloads(transcript: Transcript) -> None:
    group = "rolling-garbage"
    wait_for_coordinator(transcript, group)
    anna = ClassicMember(transcript, "anna", group, b"x", version=3)
    anna.join("anna joins with garbage as metadata")
    anna.sync("anna assigns garbage to herself", {anna.id: b"more garbage"})
    ben = ConsumerMember(transcript, "ben", group, [TOPIC])
    unread = Differs(KAFKA_FAILS, {"error_code": "GROUP_ID_NOT_FOUND"})
    ben.client.request(
        "ben cannot join: the metadata is unreadable",
        "ConsumerGroupHeartbeat",
        1,
        ben.join_fields(),
        differs=unread,
    )
    anna.heartbeat("anna's heartbeat succeeds")
    describe_both(transcript, group)
    wait_for_state(transcript, group, "Stable", 1)
    group = "rolling-user-data"
    wait_for_coordinator(transcript, group)
    carla = ClassicMember(transcript, "carla", group, subscription(TOPIC), version=3)
    carla.join("carla joins")
    with_data = assignment({TOPIC: [0, 1]})[:-4] + (3).to_bytes(4, "big") + b"own"
    carla.sync("carla assigns with user data to herself", {carla.id: with_data})
    ben = ConsumerMember(transcript, "ben", group, [TOPIC])
    ben.join("ben cannot join: the user data would be lost")
    describe_both(transcript, group)


def before_the_first_assignment(transcript: Transcript) -> None:
    group = "rolling-early"
    wait_for_coordinator(transcript, group)
    anna = ClassicMember(transcript, "anna, early", group, subscription(TOPIC), instance="desk-a")
    anna.join("anna joins with the classic protocol and an instance id, and does not sync")
    again = ConsumerMember(transcript, "anna, early, restarted", group, [TOPIC], instance="desk-a")
    everything = {
        "topic_partitions": [{"topic_id": f"<id of {TOPIC}>", "partitions": [0, 1, 2, 3]}]
    }
    at_once = Differs(IDLE, {"member_epoch": 2, "assignment": everything})
    fields = again.join_fields()
    answer = again.client.request(
        "anna restarts with the consumer protocol",
        "ConsumerGroupHeartbeat",
        1,
        fields,
        differs=at_once,
    )
    fields = again.heartbeat_fields(member_epoch=answer.member_epoch)
    later = Differs(IDLE, {"member_epoch": 2})
    again.client.request("a heartbeat later", "ConsumerGroupHeartbeat", 1, fields, differs=later)


def changed_subscription(transcript: Transcript) -> None:
    group = "rolling-back"
    wait_for_coordinator(transcript, group)
    anna = ConsumerMember(transcript, "anna, consumer", group, [TOPIC], instance="desk-a")
    anna.join("anna joins with the consumer protocol")
    anna.confirm_assignment("anna confirms all partitions")
    anna.leave("anna leaves temporarily", -2)
    back = ClassicMember(
        transcript, "anna, classic", group, subscription(TOPIC, "rolling-2"), instance="desk-a"
    )
    name = f"<UUID of {back.name}>"
    herself = {
        "member_id": name,
        "group_instance_id": "desk-a",
        "metadata": {"version": 0, "topics": sorted([TOPIC, "rolling-2"])},
    }
    leads = {"generation_id": 3, "leader": name, "members": [herself]}
    back.client.request(
        "anna restarts with the classic protocol and another subscription",
        "JoinGroup",
        9,
        back.join_fields(),
        differs=Differs(TWICE, leads),
    )
