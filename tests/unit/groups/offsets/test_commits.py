"""OffsetCommit: checks of the member, the records, and the response."""

import pytest

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.groups.group import GroupType
from sawlog.groups.group_records import GROUP_RECORDS
from sawlog.groups.offsets.committed_offset import CommittedOffset
from sawlog.protocol.messages.offset_commit_key import OffsetCommitKey
from sawlog.protocol.messages.offset_commit_value import OffsetCommitValue
from support.groups.group_records import classic_group, consumer_group
from support.groups.offsets import START_MS, OffsetsWorld, topic_id

T0 = ("t", 0)
DONE = {T0: 0}


def test_a_commit_without_a_member_creates_a_simple_group() -> None:
    world = OffsetsWorld()
    assert world.commit("g", {T0: 5}) == DONE
    group = world.machine.groups["g"]
    assert (group.type, group.protocol_type, group.state_name) == (GroupType.CLASSIC, "", "Empty")
    assert world.fetch("g", T0) == {T0: (5, "")}
    assert world.rebuilt().groups.keys() == {"g"}


def test_the_record_is_that_of_kafka() -> None:
    world = OffsetsWorld()
    world.commit("g", {("t", 3): 5}, metadata="why", leader_epoch=2)
    [(key, value)] = world.written
    entry = GROUP_RECORDS.decode(key, value)
    assert entry.version == 4
    assert entry.key == OffsetCommitKey("g", "t", 3)
    assert entry.value == OffsetCommitValue(5, 2, "why", START_MS, -1, topic_id("t"))


def test_a_retention_time_of_an_old_client_is_written_in_version_1() -> None:
    world = OffsetsWorld()
    world.commit("g", {T0: 5}, version=4, retention_ms=1_000)
    [(key, value)] = world.written
    entry = GROUP_RECORDS.decode(key, value)
    assert entry.version == 1
    assert world.get("g") == CommittedOffset(5, -1, "", START_MS, START_MS + 1_000)
    assert world.rebuilt().offsets.get("g", "t", 0) == world.get("g")


def test_all_partitions_of_a_request_are_one_batch() -> None:
    world = OffsetsWorld({"t": 1, "u": 1})
    assert world.commit("g", {T0: 1, ("t", 1): 2, ("u", 0): 3}) == {
        T0: 0,
        ("t", 1): 0,
        ("u", 0): 0,
    }
    assert (world.batches, len(world.written)) == (1, 3)
    assert world.fetch("g") == {T0: (1, ""), ("t", 1): (2, ""), ("u", 0): (3, "")}


def test_a_failed_write_changes_nothing() -> None:
    world = OffsetsWorld()
    world.fails = KafkaError(ErrorCode.NOT_COORDINATOR)
    assert world.commit("g", {T0: 5}) is ErrorCode.NOT_COORDINATOR
    assert world.machine.groups == {}
    assert world.machine.offsets.by_group == {}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("x" * 10, 0),
        ("x" * 11, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("ü" * 10, 0),  # the limit counts characters, not bytes
        ("\N{GRINNING FACE}" * 5, 0),  # a surrogate pair counts as two
        ("\N{GRINNING FACE}" * 6, ErrorCode.OFFSET_METADATA_TOO_LARGE),
    ],
)
def test_metadata_has_a_maximum_length(text: str, code: int) -> None:
    world = OffsetsWorld(offset_metadata_max_bytes="10")
    assert world.commit("g", {T0: 5}, metadata=text) == {T0: code}
    assert (world.get("g") is None) == bool(code)


def test_a_commit_with_only_too_long_metadata_writes_nothing() -> None:
    world = OffsetsWorld(offset_metadata_max_bytes="1")
    world.commit("g", {T0: 5}, metadata="xx")
    assert world.written == []
    assert world.machine.groups == {}


def test_null_metadata_is_written_as_empty() -> None:
    world = OffsetsWorld()
    world.commit("g", {T0: 5}, metadata=None)
    assert world.fetch("g", T0) == {T0: (5, "")}


def test_a_group_id_too_long_for_a_record_is_refused() -> None:
    world = OffsetsWorld()
    assert world.commit("g" * 40_000, {T0: 5}) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert world.machine.groups == {}


@pytest.mark.parametrize(
    ("version", "code"),
    [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)],
)
def test_a_member_of_an_unknown_group_cannot_commit(version: int, code: int) -> None:
    world = OffsetsWorld()
    assert world.commit("g", {T0: 5}, member="m", epoch=1, version=version) is code
    assert world.written == []


@pytest.mark.parametrize(
    ("member", "epoch", "instance", "expected"),
    [
        ("m", 3, None, DONE),
        ("m", 2, None, ErrorCode.ILLEGAL_GENERATION),
        ("m", 4, None, ErrorCode.ILLEGAL_GENERATION),
        ("nobody", 3, None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("m", 3, "stranger", ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_classic_group_accepts_commits_of_members_in_their_generation(
    member: str, epoch: int, instance: str | None, expected: object
) -> None:
    world = OffsetsWorld()
    world.write(classic_group("g", {"m": ["t"]}, generation=3))
    answer = world.commit("g", {T0: 5}, member=member, epoch=epoch, instance=instance)
    assert answer == expected


def test_an_empty_classic_group_accepts_any_commit() -> None:
    world = OffsetsWorld()
    world.write(classic_group("g", {}, generation=3))
    assert world.commit("g", {T0: 5}) == DONE
    assert world.machine.groups["g"].protocol_type == "consumer"


def test_a_commit_renews_the_session_of_a_classic_member() -> None:
    world = OffsetsWorld()
    world.write(classic_group("g", {"m": ["t"]}, generation=3, session_ms=10_000))
    world.restart()
    for offset in range(3):
        world.pass_ms(9_999)
        assert world.commit("g", {T0: offset}, member="m", epoch=3) == DONE
    world.pass_ms(10_000)
    assert world.commit("g", {T0: 9}, member="m", epoch=3) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("member", "epoch", "version", "expected"),
    [
        ("m", 5, 9, DONE),
        ("m", 5, 8, ErrorCode.UNSUPPORTED_VERSION),
        ("m", 6, 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("m", 4, 9, DONE),  # the member has owned the partition since then
        ("m", 3, 9, DONE),
        ("m", 2, 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("nobody", 5, 9, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, 9, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_consumer_group_accepts_commits_of_owned_partitions(
    member: str, epoch: int, version: int, expected: object
) -> None:
    world = OffsetsWorld()
    held = {"m": (topic_id("t"), 0, 3)}
    world.write(*consumer_group("g", {"m": ["t"]}, epoch=5, assigned=held))
    assert world.commit("g", {T0: 5}, member=member, epoch=epoch, version=version) == expected


def test_a_commit_in_an_older_epoch_is_all_or_nothing() -> None:
    world = OffsetsWorld()
    held = {"m": (topic_id("t"), 0, 3)}
    world.write(*consumer_group("g", {"m": ["t"]}, epoch=5, assigned=held))
    answer = world.commit("g", {T0: 5, ("t", 1): 5}, member="m", epoch=4)
    assert answer is ErrorCode.STALE_MEMBER_EPOCH
    assert world.get("g") is None
