"""Classic groups and bad input: the right error, and the group is unharmed."""

from typing import Any

from transcripts.chapters.groups_requests import (
    Classic,
    coordinator_is_ready,
    described,
    share,
    wishes,
)
from transcripts.chapters.versions import header
from transcripts.dialogue import Dialogue, Differs

GROUP = "refusals"
TOPIC = "refused-topic"
LARGE = 1 << 20


def chapter(talk: Dialogue) -> None:
    talk.create(TOPIC, 2)
    coordinator_is_ready(talk, GROUP)
    versions(talk)
    first_joins(talk)
    desks(talk)
    anna = Classic(talk, "anna", GROUP, wishes(TOPIC))
    anna.is_introduced()
    anna.joins("anna joins")
    bad_syncs(anna)
    anna.syncs("anna takes everything", {anna.id: share({TOPIC: [0, 1]})})
    strangers(talk, anna)
    bad_joins(talk, anna)
    bad_heartbeats(anna)
    anna.beats("all is well with anna")
    described(talk, "the group is unharmed", GROUP)
    bad_leaves(talk, anna)
    garbage(talk)
    nulls(talk)


def versions(talk: Dialogue) -> None:
    for version in range(10):
        group = f"refusals-v{version}"
        coordinator_is_ready(talk, group)
        anna = Classic(talk, f"anna, version {version}", group, wishes(TOPIC), version=version)
        if version >= 4:
            anna.joins("anna asks to join")
        anna.joins("anna joins")
        sync = min(version, 5)
        anna.syncs("anna takes everything", {anna.id: share({TOPIC: [0, 1]})}, version=sync)
        anna.beats("a heartbeat", version=min(version, 4))
        if version >= 3:
            anna.leaves("anna leaves", version=min(version, 5))
        else:
            fields = {"group_id": group, "member_id": anna.id}
            anna.voice.ask("anna leaves", "LeaveGroup", version, fields)


def first_joins(talk: Dialogue) -> None:
    ben = Classic(talk, "ben", GROUP, wishes(TOPIC))
    ben.joins("no group", group_id="")
    ben.joins("no session at all", session_timeout_ms=0)
    ben.joins("a session below zero", session_timeout_ms=-1)
    ben.joins("a session too short", session_timeout_ms=9)
    ben.joins("a session too long", session_timeout_ms=1_800_001)
    ben.joins("no protocols", protocols=[])
    ben.joins("no protocol type", protocol_type="")
    ben.joins("neither", protocols=[], protocol_type="")
    ben.joins("an id that nobody gave", member_id="nobody")
    ben.joins("an id that nobody gave, for a desk", member_id="nobody", group_instance_id="desk")
    described(talk, "there is no group, or nobody in it", GROUP)


def desks(talk: Dialogue) -> None:
    """Brokers take any name for an instance; clients do not."""
    for number, name in enumerate(("", ".", "not a name!", "x" * 250)):
        group = f"refusals-desk-{number}"
        coordinator_is_ready(talk, group)
        dora = Classic(talk, f"dora {number}", group, wishes(TOPIC), instance=name)
        dora.joins("a desk with an odd name")
        dora.beats("a heartbeat from it")


def bad_syncs(anna: Classic) -> None:
    everything = {anna.id: share({TOPIC: [0, 1]})}
    anna.syncs("no group", everything, group_id="")
    anna.syncs("another group", everything, group_id="refusals-none")
    anna.syncs("the generation before", everything, generation_id=0)
    anna.syncs("the generation to come", everything, generation_id=2)
    anna.syncs("no generation", everything, generation_id=-1)
    anna.syncs("nobody's id", everything, member_id="nobody")
    anna.syncs("no id", everything, member_id="")
    anna.syncs("a desk that she has not", everything, group_instance_id="desk")
    anna.syncs("another type", everything, protocol_type="connect")
    anna.syncs("another protocol", everything, protocol_name="roundrobin")
    anna.syncs("no type and no protocol", everything, protocol_type=None, protocol_name=None)


def strangers(talk: Dialogue, anna: Classic) -> None:
    ben = Classic(talk, "ben, once more", GROUP, wishes(TOPIC))
    ben.joins("another type", protocol_type="connect")
    ben.joins("another protocol", protocols=[{"name": "roundrobin", "metadata": b""}])
    ben.joins("no protocols", protocols=[])
    ben.joins("no type", protocol_type="")
    ben.joins("ben is given an id")
    ben.joins("his id with another type", protocol_type="connect")
    ben.joins("his id with a desk", group_instance_id="desk")
    ben.beats("a heartbeat before he joined")
    ben.syncs("a sync before he joined", generation_id=1)
    anna.beats("anna notices nothing")
    ben.leaves("he leaves before he joined")
    anna.beats("and that is a rebalance, though nobody needs it")
    anna.joins("anna comes back")
    anna.syncs("anna takes everything", {anna.id: share({TOPIC: [0, 1]})})


def bad_joins(talk: Dialogue, anna: Classic) -> None:
    anna.joins("her id with another type", protocol_type="connect")
    anna.joins("her id without protocols", protocols=[])
    anna.joins("her id with a desk", group_instance_id="desk")
    anna.joins("her id in another group", group_id="refusals-none")
    anna.joins("her id with a session too long", session_timeout_ms=1 << 30)


def bad_heartbeats(anna: Classic) -> None:
    anna.beats("no group", group_id="")
    anna.beats("another group", group_id="refusals-none")
    anna.beats("the generation before", generation_id=anna.generation - 1)
    anna.beats("the generation to come", generation_id=anna.generation + 1)
    anna.beats("nobody", member_id="nobody")
    anna.beats("no id", member_id="")
    anna.beats("a desk that she has not", group_instance_id="desk")


def bad_leaves(talk: Dialogue, anna: Classic) -> None:
    def leave(title: str, group: str, *members: dict[str, Any]) -> None:
        talk.ask(title, "LeaveGroup", 5, {"group_id": group, "members": list(members)})

    leave("no group", "", {"member_id": anna.id})
    leave("another group", "refusals-none", {"member_id": anna.id})
    leave("nobody", GROUP)
    leave("strangers", GROUP, {"member_id": "nobody"}, {"member_id": ""})
    leave("a desk that is not", GROUP, {"member_id": anna.id, "group_instance_id": "desk"})
    old = {"group_id": "refusals-none", "member_id": anna.id}
    talk.ask("another group, as old clients ask", "LeaveGroup", 1, old)
    old = {"group_id": GROUP, "member_id": "nobody"}
    talk.ask("nobody, as old clients ask", "LeaveGroup", 2, old)
    anna.beats("anna is still there")


def garbage(talk: Dialogue) -> None:
    group = "refusals-garbage"
    coordinator_is_ready(talk, group)
    anna = Classic(talk, "anna, careless", group, b"\xff\xfe", version=3)
    anna.joins("anna joins with garbage for wishes")
    anna.syncs("and gives herself garbage", {anna.id: b"\0\1\2"})
    anna.commits("she can commit nonetheless", TOPIC, {0: 1})
    described(talk, "garbage is kept as it is", group)
    anna.metadata = b""
    anna.joins("anna joins with nothing for wishes")
    anna.syncs("and gives nothing to anybody")
    described(talk, "nothing is kept as it is", group)
    offsets = [{"partition_index": 0}]
    fields = {"group_id": group, "topics": [{"name": TOPIC, "partitions": offsets}]}
    talk.ask("nobody can tell whether the topic is read", "OffsetDelete", 0, fields)
    anna.metadata = wishes(TOPIC, "", "not a name!")
    anna.joins("anna wishes for what cannot be")
    anna.metadata = bytes(LARGE)
    anna.joins("wishes as large as a record may be")
    anna.syncs("and an assignment as large", {anna.id: bytes(LARGE)})
    anna.beats("a heartbeat")
    worse_garbage(talk)
    ben = Classic(talk, "ben, modest", "refusals-twice", version=3)
    coordinator_is_ready(talk, "refusals-twice")
    ben.joins("ben joins")
    twice = [{"member_id": ben.id, "assignment": each} for each in (b"one", b"two")]
    fields = ben.syncing() | {"assignments": twice}
    ben.voice.ask("ben gives himself something twice", "SyncGroup", 5, fields)


def nulls(talk: Dialogue) -> None:
    """Null where it may not be: these frames are no requests."""
    null, one, empty = b"\xff\xff", b"\0\1", b"\0\0"
    many = b"\xff\xff\xff\xff"
    talk.frame("null for a group, in a heartbeat", header(12, 0) + null + bytes(4) + empty)
    talk.frame("null for a member, in a heartbeat", header(12, 0) + one + b"g" + bytes(4) + null)
    talk.frame("null for a member that leaves", header(13, 0) + one + b"g" + null)
    joining = header(11, 0) + one + b"g" + bytes(4) + empty + one + b"t"
    talk.frame("null for protocols", joining + many)
    talk.frame("null for wishes", joining + bytes(3) + b"\1" + one + b"p" + many)
    syncing = header(14, 0) + one + b"g" + bytes(4) + one + b"m"
    talk.frame("null for assignments", syncing + many)
    talk.frame("null for topics to commit", header(8, 2) + one + b"g" + bytes(6) + bytes(8) + many)
    talk.frame("null for topics to fetch", header(9, 1) + one + b"g" + many)
    talk.frame("null for groups to describe", header(15, 0) + many)
    talk.frame("null for one of them", header(15, 0) + bytes(3) + b"\1" + null)
    talk.frame("null for groups to delete", header(42, 0) + many)
    talk.frame("null for a group to find", header(10, 0) + null)
    talk.frame("a heartbeat of the new kind that ends too early", header(68, 1, tags=True) + b"\2")


def worse_garbage(talk: Dialogue) -> None:
    group = "refusals-worse"
    coordinator_is_ready(talk, group)
    carla = Classic(talk, "carla", group, b"\0\0\x7f\xff\xff\xffgarbage", version=3)
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
    carla.voice.ask_in_vain("wishes for two billion", "JoinGroup", 3, carla.joining(), dies)
