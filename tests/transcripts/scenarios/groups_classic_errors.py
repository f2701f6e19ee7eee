"""Classic groups: invalid requests get the right error and do not change the group."""

from typing import Any

from transcripts.scenarios.api_versions import header
from transcripts.scenarios.group_members import (
    ClassicMember,
    assignment,
    describe_classic,
    subscription,
    wait_for_coordinator,
)
from transcripts.steps import Differs
from transcripts.transcript import Transcript

GROUP = "refusals"
TOPIC = "refused-topic"
LARGE = 1 << 20


def run(transcript: Transcript) -> None:
    transcript.create_topic(TOPIC, 2)
    wait_for_coordinator(transcript, GROUP)
    versions(transcript)
    first_joins(transcript)
    instance_ids(transcript)
    anna = ClassicMember(transcript, "anna", GROUP, subscription(TOPIC))
    anna.obtain_member_id()
    anna.join("anna joins")
    bad_syncs(anna)
    anna.sync("anna assigns all partitions to herself", {anna.id: assignment({TOPIC: [0, 1]})})
    unknown_members(transcript, anna)
    bad_joins(transcript, anna)
    bad_heartbeats(anna)
    anna.heartbeat("anna's heartbeat succeeds")
    describe_classic(transcript, "the group is unchanged", GROUP)
    bad_leaves(transcript, anna)
    garbage_payloads(transcript)
    nulls(transcript)


def versions(transcript: Transcript) -> None:
    for version in range(10):
        group = f"refusals-v{version}"
        wait_for_coordinator(transcript, group)
        anna = ClassicMember(
            transcript, f"anna, version {version}", group, subscription(TOPIC), version=version
        )
        if version >= 4:
            anna.join("anna gets a member id")
        anna.join("anna joins")
        sync = min(version, 5)
        anna.sync(
            "anna assigns all partitions to herself",
            {anna.id: assignment({TOPIC: [0, 1]})},
            version=sync,
        )
        anna.heartbeat("a heartbeat", version=min(version, 4))
        if version >= 3:
            anna.leave("anna leaves", version=min(version, 5))
        else:
            fields = {"group_id": group, "member_id": anna.id}
            anna.client.request("anna leaves", "LeaveGroup", version, fields)


def first_joins(transcript: Transcript) -> None:
    ben = ClassicMember(transcript, "ben", GROUP, subscription(TOPIC))
    ben.join("an empty group id", group_id="")
    ben.join("a session timeout of zero", session_timeout_ms=0)
    ben.join("a negative session timeout", session_timeout_ms=-1)
    ben.join("a session timeout below the minimum", session_timeout_ms=9)
    ben.join("a session timeout above the maximum", session_timeout_ms=1_800_001)
    ben.join("no protocols", protocols=[])
    ben.join("no protocol type", protocol_type="")
    ben.join("neither protocols nor protocol type", protocols=[], protocol_type="")
    ben.join("an unknown member id", member_id="nobody")
    ben.join(
        "an unknown member id with an instance id", member_id="nobody", group_instance_id="desk"
    )
    describe_classic(transcript, "no group, or no member in it", GROUP)


def instance_ids(transcript: Transcript) -> None:
    """Brokers accept any instance id; clients check it."""
    for number, name in enumerate(("", ".", "not a name!", "x" * 250)):
        group = f"refusals-desk-{number}"
        wait_for_coordinator(transcript, group)
        dora = ClassicMember(
            transcript, f"dora {number}", group, subscription(TOPIC), instance=name
        )
        dora.join("an unusual instance id")
        dora.heartbeat("a heartbeat with that instance id")


def bad_syncs(anna: ClassicMember) -> None:
    everything = {anna.id: assignment({TOPIC: [0, 1]})}
    anna.sync("an empty group id", everything, group_id="")
    anna.sync("another group", everything, group_id="refusals-none")
    anna.sync("the previous generation", everything, generation_id=0)
    anna.sync("the next generation", everything, generation_id=2)
    anna.sync("no generation", everything, generation_id=-1)
    anna.sync("an unknown member id", everything, member_id="nobody")
    anna.sync("an empty member id", everything, member_id="")
    anna.sync("an instance id of a dynamic member", everything, group_instance_id="desk")
    anna.sync("another protocol type", everything, protocol_type="connect")
    anna.sync("another protocol", everything, protocol_name="roundrobin")
    anna.sync(
        "neither protocol type nor protocol name",
        everything,
        protocol_type=None,
        protocol_name=None,
    )


def unknown_members(transcript: Transcript, anna: ClassicMember) -> None:
    ben = ClassicMember(transcript, "ben, again", GROUP, subscription(TOPIC))
    ben.join("another protocol type", protocol_type="connect")
    ben.join("another protocol", protocols=[{"name": "roundrobin", "metadata": b""}])
    ben.join("no protocols", protocols=[])
    ben.join("no protocol type", protocol_type="")
    ben.join("ben gets a member id")
    ben.join("ben's member id with another protocol type", protocol_type="connect")
    ben.join("ben's member id with an instance id", group_instance_id="desk")
    ben.heartbeat("a heartbeat before joining")
    ben.sync("a sync before joining", generation_id=1)
    anna.heartbeat("anna's heartbeat shows no rebalance")
    ben.leave("ben leaves before joining")
    anna.heartbeat("anna learns of a rebalance")
    anna.join("anna rejoins")
    anna.sync("anna assigns all partitions to herself", {anna.id: assignment({TOPIC: [0, 1]})})


def bad_joins(transcript: Transcript, anna: ClassicMember) -> None:
    anna.join("anna's member id with another protocol type", protocol_type="connect")
    anna.join("anna's member id without protocols", protocols=[])
    anna.join("anna's member id with an instance id", group_instance_id="desk")
    anna.join("anna's member id in another group", group_id="refusals-none")
    anna.join(
        "anna's member id with a session timeout above the maximum", session_timeout_ms=1 << 30
    )


def bad_heartbeats(anna: ClassicMember) -> None:
    anna.heartbeat("an empty group id", group_id="")
    anna.heartbeat("another group", group_id="refusals-none")
    anna.heartbeat("the previous generation", generation_id=anna.generation - 1)
    anna.heartbeat("the next generation", generation_id=anna.generation + 1)
    anna.heartbeat("no members", member_id="nobody")
    anna.heartbeat("an empty member id", member_id="")
    anna.heartbeat("an instance id of a dynamic member", group_instance_id="desk")


def bad_leaves(transcript: Transcript, anna: ClassicMember) -> None:
    def leave(title: str, group: str, *members: dict[str, Any]) -> None:
        transcript.request(title, "LeaveGroup", 5, {"group_id": group, "members": list(members)})

    leave("an empty group id", "", {"member_id": anna.id})
    leave("another group", "refusals-none", {"member_id": anna.id})
    leave("no members", GROUP)
    leave("unknown members", GROUP, {"member_id": "nobody"}, {"member_id": ""})
    leave("an unknown instance id", GROUP, {"member_id": anna.id, "group_instance_id": "desk"})
    old = {"group_id": "refusals-none", "member_id": anna.id}
    transcript.request("another group, old version", "LeaveGroup", 1, old)
    old = {"group_id": GROUP, "member_id": "nobody"}
    transcript.request("an unknown member, old version", "LeaveGroup", 2, old)
    anna.heartbeat("anna's heartbeat succeeds")


def garbage_payloads(transcript: Transcript) -> None:
    group = "refusals-garbage"
    wait_for_coordinator(transcript, group)
    anna = ClassicMember(transcript, "anna, garbage", group, b"\xff\xfe", version=3)
    anna.join("anna joins with garbage as metadata")
    anna.sync("anna assigns garbage to herself", {anna.id: b"\0\1\2"})
    anna.commit("anna can commit", TOPIC, {0: 1})
    describe_classic(transcript, "garbage is returned unchanged", group)
    anna.metadata = b""
    anna.join("anna joins with empty metadata")
    anna.sync("a sync without assignments")
    describe_classic(transcript, "empty payloads are returned unchanged", group)
    offsets = [{"partition_index": 0}]
    fields = {"group_id": group, "topics": [{"name": TOPIC, "partitions": offsets}]}
    transcript.request("OffsetDelete with an unreadable subscription", "OffsetDelete", 0, fields)
    anna.metadata = subscription(TOPIC, "", "not a name!")
    anna.join("anna subscribes to invalid topic names")
    anna.metadata = bytes(LARGE)
    anna.join("metadata of the maximum record size")
    anna.sync("an assignment of the maximum record size", {anna.id: bytes(LARGE)})
    anna.heartbeat("a heartbeat")
    garbage_array_length(transcript)
    ben = ClassicMember(transcript, "ben, twice", "refusals-twice", version=3)
    wait_for_coordinator(transcript, "refusals-twice")
    ben.join("ben joins")
    twice = [{"member_id": ben.id, "assignment": each} for each in (b"one", b"two")]
    fields = ben.sync_fields() | {"assignments": twice}
    ben.client.request("two assignments for one member", "SyncGroup", 5, fields)


def nulls(transcript: Transcript) -> None:
    """Null for non-nullable fields: these frames are not valid requests."""
    null, one, empty = b"\xff\xff", b"\0\1", b"\0\0"
    many = b"\xff\xff\xff\xff"
    transcript.send_frame(
        "null for a group, in a heartbeat", header(12, 0) + null + bytes(4) + empty
    )
    transcript.send_frame(
        "null for a member, in a heartbeat", header(12, 0) + one + b"g" + bytes(4) + null
    )
    transcript.send_frame("null for a leaving member", header(13, 0) + one + b"g" + null)
    joining = header(11, 0) + one + b"g" + bytes(4) + empty + one + b"t"
    transcript.send_frame("null for protocols", joining + many)
    transcript.send_frame("null for metadata", joining + bytes(3) + b"\1" + one + b"p" + many)
    syncing = header(14, 0) + one + b"g" + bytes(4) + one + b"m"
    transcript.send_frame("null for assignments", syncing + many)
    transcript.send_frame(
        "null for topics to commit", header(8, 2) + one + b"g" + bytes(6) + bytes(8) + many
    )
    transcript.send_frame("null for topics to fetch", header(9, 1) + one + b"g" + many)
    transcript.send_frame("null for groups to describe", header(15, 0) + many)
    transcript.send_frame("null for one group to describe", header(15, 0) + bytes(3) + b"\1" + null)
    transcript.send_frame("null for groups to delete", header(42, 0) + many)
    transcript.send_frame("null for a coordinator key", header(10, 0) + null)
    transcript.send_frame("a truncated ConsumerGroupHeartbeat", header(68, 1, tags=True) + b"\2")


def garbage_array_length(transcript: Transcript) -> None:
    group = "refusals-worse"
    wait_for_coordinator(transcript, group)
    carla = ClassicMember(transcript, "carla", group, b"\0\0\x7f\xff\xff\xffgarbage", version=3)
    name = "<script-UUID of carla>"
    answer = {
        "throttle_time_ms": 0,
        "error_code": "NONE",
        "generation_id": 1,
        "protocol_name": "range",
        "leader": name,
        "member_id": name,
        "members": [{"member_id": name, "metadata": "00007fffffff67617262616765"}],
    }
    dies = Differs("Kafka fails on the array length and never answers", {"": answer})
    carla.client.request_unanswered_by_kafka(
        "metadata with an array of two billion topics", "JoinGroup", 3, carla.join_fields(), dies
    )
