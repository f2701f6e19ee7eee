"""Classic groups and bad input: the right error, and the group is unharmed."""

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
    desks(transcript)
    anna = ClassicMember(transcript, "anna", GROUP, subscription(TOPIC))
    anna.obtain_member_id()
    anna.join("anna joins")
    bad_syncs(anna)
    anna.sync("anna takes everything", {anna.id: assignment({TOPIC: [0, 1]})})
    strangers(transcript, anna)
    bad_joins(transcript, anna)
    bad_heartbeats(anna)
    anna.heartbeat("all is well with anna")
    describe_classic(transcript, "the group is unharmed", GROUP)
    bad_leaves(transcript, anna)
    garbage(transcript)
    nulls(transcript)


def versions(transcript: Transcript) -> None:
    for version in range(10):
        group = f"refusals-v{version}"
        wait_for_coordinator(transcript, group)
        anna = ClassicMember(
            transcript, f"anna, version {version}", group, subscription(TOPIC), version=version
        )
        if version >= 4:
            anna.join("anna asks to join")
        anna.join("anna joins")
        sync = min(version, 5)
        anna.sync("anna takes everything", {anna.id: assignment({TOPIC: [0, 1]})}, version=sync)
        anna.heartbeat("a heartbeat", version=min(version, 4))
        if version >= 3:
            anna.leave("anna leaves", version=min(version, 5))
        else:
            fields = {"group_id": group, "member_id": anna.id}
            anna.client.request("anna leaves", "LeaveGroup", version, fields)


def first_joins(transcript: Transcript) -> None:
    ben = ClassicMember(transcript, "ben", GROUP, subscription(TOPIC))
    ben.join("no group", group_id="")
    ben.join("no session at all", session_timeout_ms=0)
    ben.join("a session below zero", session_timeout_ms=-1)
    ben.join("a session too short", session_timeout_ms=9)
    ben.join("a session too long", session_timeout_ms=1_800_001)
    ben.join("no protocols", protocols=[])
    ben.join("no protocol type", protocol_type="")
    ben.join("neither", protocols=[], protocol_type="")
    ben.join("an id that nobody gave", member_id="nobody")
    ben.join("an id that nobody gave, for a desk", member_id="nobody", group_instance_id="desk")
    describe_classic(transcript, "there is no group, or nobody in it", GROUP)


def desks(transcript: Transcript) -> None:
    """Brokers take any name for an instance; clients do not."""
    for number, name in enumerate(("", ".", "not a name!", "x" * 250)):
        group = f"refusals-desk-{number}"
        wait_for_coordinator(transcript, group)
        dora = ClassicMember(
            transcript, f"dora {number}", group, subscription(TOPIC), instance=name
        )
        dora.join("a desk with an odd name")
        dora.heartbeat("a heartbeat from it")


def bad_syncs(anna: ClassicMember) -> None:
    everything = {anna.id: assignment({TOPIC: [0, 1]})}
    anna.sync("no group", everything, group_id="")
    anna.sync("another group", everything, group_id="refusals-none")
    anna.sync("the generation before", everything, generation_id=0)
    anna.sync("the generation to come", everything, generation_id=2)
    anna.sync("no generation", everything, generation_id=-1)
    anna.sync("nobody's id", everything, member_id="nobody")
    anna.sync("no id", everything, member_id="")
    anna.sync("a desk that she has not", everything, group_instance_id="desk")
    anna.sync("another type", everything, protocol_type="connect")
    anna.sync("another protocol", everything, protocol_name="roundrobin")
    anna.sync("no type and no protocol", everything, protocol_type=None, protocol_name=None)


def strangers(transcript: Transcript, anna: ClassicMember) -> None:
    ben = ClassicMember(transcript, "ben, once more", GROUP, subscription(TOPIC))
    ben.join("another type", protocol_type="connect")
    ben.join("another protocol", protocols=[{"name": "roundrobin", "metadata": b""}])
    ben.join("no protocols", protocols=[])
    ben.join("no type", protocol_type="")
    ben.join("ben is given an id")
    ben.join("his id with another type", protocol_type="connect")
    ben.join("his id with a desk", group_instance_id="desk")
    ben.heartbeat("a heartbeat before he joined")
    ben.sync("a sync before he joined", generation_id=1)
    anna.heartbeat("anna notices nothing")
    ben.leave("he leaves before he joined")
    anna.heartbeat("and that is a rebalance, though nobody needs it")
    anna.join("anna comes back")
    anna.sync("anna takes everything", {anna.id: assignment({TOPIC: [0, 1]})})


def bad_joins(transcript: Transcript, anna: ClassicMember) -> None:
    anna.join("her id with another type", protocol_type="connect")
    anna.join("her id without protocols", protocols=[])
    anna.join("her id with a desk", group_instance_id="desk")
    anna.join("her id in another group", group_id="refusals-none")
    anna.join("her id with a session too long", session_timeout_ms=1 << 30)


def bad_heartbeats(anna: ClassicMember) -> None:
    anna.heartbeat("no group", group_id="")
    anna.heartbeat("another group", group_id="refusals-none")
    anna.heartbeat("the generation before", generation_id=anna.generation - 1)
    anna.heartbeat("the generation to come", generation_id=anna.generation + 1)
    anna.heartbeat("nobody", member_id="nobody")
    anna.heartbeat("no id", member_id="")
    anna.heartbeat("a desk that she has not", group_instance_id="desk")


def bad_leaves(transcript: Transcript, anna: ClassicMember) -> None:
    def leave(title: str, group: str, *members: dict[str, Any]) -> None:
        transcript.request(title, "LeaveGroup", 5, {"group_id": group, "members": list(members)})

    leave("no group", "", {"member_id": anna.id})
    leave("another group", "refusals-none", {"member_id": anna.id})
    leave("nobody", GROUP)
    leave("strangers", GROUP, {"member_id": "nobody"}, {"member_id": ""})
    leave("a desk that is not", GROUP, {"member_id": anna.id, "group_instance_id": "desk"})
    old = {"group_id": "refusals-none", "member_id": anna.id}
    transcript.request("another group, as old clients ask", "LeaveGroup", 1, old)
    old = {"group_id": GROUP, "member_id": "nobody"}
    transcript.request("nobody, as old clients ask", "LeaveGroup", 2, old)
    anna.heartbeat("anna is still there")


def garbage(transcript: Transcript) -> None:
    group = "refusals-garbage"
    wait_for_coordinator(transcript, group)
    anna = ClassicMember(transcript, "anna, careless", group, b"\xff\xfe", version=3)
    anna.join("anna joins with garbage for wishes")
    anna.sync("and gives herself garbage", {anna.id: b"\0\1\2"})
    anna.commit("she can commit nonetheless", TOPIC, {0: 1})
    describe_classic(transcript, "garbage is kept as it is", group)
    anna.metadata = b""
    anna.join("anna joins with nothing for wishes")
    anna.sync("and gives nothing to anybody")
    describe_classic(transcript, "nothing is kept as it is", group)
    offsets = [{"partition_index": 0}]
    fields = {"group_id": group, "topics": [{"name": TOPIC, "partitions": offsets}]}
    transcript.request("nobody can tell whether the topic is read", "OffsetDelete", 0, fields)
    anna.metadata = subscription(TOPIC, "", "not a name!")
    anna.join("anna wishes for what cannot be")
    anna.metadata = bytes(LARGE)
    anna.join("wishes as large as a record may be")
    anna.sync("and an assignment as large", {anna.id: bytes(LARGE)})
    anna.heartbeat("a heartbeat")
    worse_garbage(transcript)
    ben = ClassicMember(transcript, "ben, modest", "refusals-twice", version=3)
    wait_for_coordinator(transcript, "refusals-twice")
    ben.join("ben joins")
    twice = [{"member_id": ben.id, "assignment": each} for each in (b"one", b"two")]
    fields = ben.sync_fields() | {"assignments": twice}
    ben.client.request("ben gives himself something twice", "SyncGroup", 5, fields)


def nulls(transcript: Transcript) -> None:
    """Null where it may not be: these frames are no requests."""
    null, one, empty = b"\xff\xff", b"\0\1", b"\0\0"
    many = b"\xff\xff\xff\xff"
    transcript.send_frame(
        "null for a group, in a heartbeat", header(12, 0) + null + bytes(4) + empty
    )
    transcript.send_frame(
        "null for a member, in a heartbeat", header(12, 0) + one + b"g" + bytes(4) + null
    )
    transcript.send_frame("null for a member that leaves", header(13, 0) + one + b"g" + null)
    joining = header(11, 0) + one + b"g" + bytes(4) + empty + one + b"t"
    transcript.send_frame("null for protocols", joining + many)
    transcript.send_frame("null for wishes", joining + bytes(3) + b"\1" + one + b"p" + many)
    syncing = header(14, 0) + one + b"g" + bytes(4) + one + b"m"
    transcript.send_frame("null for assignments", syncing + many)
    transcript.send_frame(
        "null for topics to commit", header(8, 2) + one + b"g" + bytes(6) + bytes(8) + many
    )
    transcript.send_frame("null for topics to fetch", header(9, 1) + one + b"g" + many)
    transcript.send_frame("null for groups to describe", header(15, 0) + many)
    transcript.send_frame("null for one of them", header(15, 0) + bytes(3) + b"\1" + null)
    transcript.send_frame("null for groups to delete", header(42, 0) + many)
    transcript.send_frame("null for a group to find", header(10, 0) + null)
    transcript.send_frame(
        "a heartbeat of the new kind that ends too early", header(68, 1, tags=True) + b"\2"
    )


def worse_garbage(transcript: Transcript) -> None:
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
    dies = Differs("Kafka dies of a count in it and never answers", {"": answer})
    carla.client.request_unanswered_by_kafka(
        "wishes for two billion", "JoinGroup", 3, carla.join_fields(), dies
    )
