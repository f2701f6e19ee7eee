"""Offsets that are committed in transactions: pending until the marker."""

import pytest

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.groups.offsets.offset_table import GroupPartition
from support.groups.classic_group import COMMIT_MS, ClassicWorld
from support.groups.group_records import classic_group, consumer_group
from support.groups.offsets import MINUTE_MS, OffsetsWorld

T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT
HOUR_MS = 60 * MINUTE_MS


def test_offsets_are_visible_after_the_commit_marker() -> None:
    world = OffsetsWorld()
    assert world.commit("g", {T0: 5}, producer=1, metadata="why") == {T0: 0}
    assert world.fetch("g", T0) == {T0: (-1, "")}
    world.end_transaction(1, is_commit=True)
    assert world.fetch("g", T0, require_stable=True) == {T0: (5, "why")}
    world.restart()
    assert world.fetch("g", T0, require_stable=True) == {T0: (5, "why")}


def test_offsets_are_dropped_at_the_abort_marker() -> None:
    world = OffsetsWorld()
    world.commit("g", {T0: 4})
    world.commit("g", {T0: 5, T1: 6}, producer=1)
    world.end_transaction(1, is_commit=False)
    assert world.fetch("g", T0, T1, require_stable=True) == {T0: (4, ""), T1: (-1, "")}
    world.restart()
    assert world.fetch("g", T0, T1, require_stable=True) == {T0: (4, ""), T1: (-1, "")}


def test_a_marker_ends_only_the_transaction_of_its_producer() -> None:
    world = OffsetsWorld()
    world.commit("g", {T0: 5}, producer=1)
    world.commit("g", {T1: 6}, producer=2)
    world.end_transaction(1, is_commit=True)
    world.end_transaction(3, is_commit=True)
    assert world.fetch("g", T0, T1, require_stable=True) == {T0: (5, ""), T1: UNSTABLE}


def test_a_pending_partition_is_unstable_for_fetches_that_require_stable_offsets() -> None:
    world = OffsetsWorld()
    world.commit("g", {T0: 4, T1: 4})
    world.commit("g", {T0: 5}, producer=1)
    for _ in range(2):
        assert world.fetch("g", T0, T1) == {T0: (4, ""), T1: (4, "")}
        assert world.fetch("g", T0, T1, require_stable=True) == {T0: UNSTABLE, T1: (4, "")}
        assert world.fetch("g", require_stable=True) == {T0: UNSTABLE, T1: (4, "")}
        assert world.fetch("h", T0, require_stable=True) == {T0: (-1, "")}
        world.restart()


def test_a_plain_commit_after_a_transactional_one_wins_over_it() -> None:
    world = OffsetsWorld()
    world.commit("g", {T0: 5}, producer=1)
    world.commit("g", {T0: 3})
    world.restart()
    assert world.fetch("g", T0, require_stable=True) == {T0: UNSTABLE}
    world.end_transaction(1, is_commit=True)
    assert world.fetch("g", T0, require_stable=True) == {T0: (3, "")}


def test_the_later_of_two_transactional_commits_wins_whichever_ends_first() -> None:
    for first, then in ((1, 2), (2, 1)):
        world = OffsetsWorld()
        world.commit("g", {T0: 5}, producer=1)
        world.commit("g", {T0: 6}, producer=2)
        world.end_transaction(first, is_commit=True)
        world.restart()
        world.end_transaction(then, is_commit=True)
        assert world.fetch("g", T0, require_stable=True) == {T0: (6, "")}


def test_a_transactional_commit_creates_a_simple_group() -> None:
    world = OffsetsWorld()
    world.commit("g", {T0: 5}, producer=1)
    assert world.machine.groups.keys() == {"g"}
    assert world.rebuilt().groups.keys() == {"g"}
    world.end_transaction(1, is_commit=True)
    assert world.rebuilt().groups.keys() == {"g"}


def test_a_failed_write_leaves_nothing_pending() -> None:
    world = OffsetsWorld()
    world.fails = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    world.commit("g", {T0: 5}, producer=1)
    assert not world.machine.offsets.pending
    assert world.machine.groups == {}


def test_too_long_metadata_is_refused_one_by_one() -> None:
    world = OffsetsWorld()
    found = world.commit("g", {T0: 5}, producer=1, metadata="x" * 5_000)
    assert found == {T0: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert world.written == []
    assert not world.machine.offsets.pending


# Members


@pytest.mark.parametrize(
    ("member", "epoch", "instance", "code"),
    [
        ("", -1, None, None),
        ("m", 1, None, None),
        ("m", 0, None, ErrorCode.ILLEGAL_GENERATION),
        ("m", 2, None, ErrorCode.ILLEGAL_GENERATION),
        ("m", -1, None, ErrorCode.ILLEGAL_GENERATION),
        ("other", 1, None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("other", -1, None, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_the_member_is_checked_if_the_producer_names_one(
    member: str, epoch: int, instance: str | None, code: ErrorCode | None
) -> None:
    for group in ([classic_group("g", {"m": ["t"]})], consumer_group("g", {"m": ["t"]})):
        world = OffsetsWorld()
        world.write(*group)
        found = world.commit(
            "g", {T0: 5}, producer=1, member=member, epoch=epoch, instance=instance
        )
        assert found == ({T0: 0} if code is None else code)


def test_a_generation_of_an_unknown_group_is_illegal() -> None:
    world = OffsetsWorld()
    found = world.commit("g", {T0: 5}, producer=1, member="m", epoch=1)
    assert found is ErrorCode.ILLEGAL_GENERATION


def test_a_rebalance_does_not_refuse_transactional_commits() -> None:
    world = ClassicWorld()
    join = world.join(version=3)
    world.pass_ms(COMMIT_MS)
    group = world.group()
    assert group.state_name == "CompletingRebalance"
    member = join.response.member_id
    group.check_commit(member, None, 1, 9, is_transactional=True)
    group.check_commit("", None, -1, 9, is_transactional=True)
    with pytest.raises(KafkaError):
        group.check_commit(member, None, 1, 9)


# Deletions


def test_deleting_a_pending_offset_drops_it() -> None:
    world = OffsetsWorld()
    world.commit("g", {T0: 5, T1: 6}, producer=1)
    assert world.delete_offsets("g", T0) == [0]
    world.restart()
    world.end_transaction(1, is_commit=True)
    assert world.fetch("g") == {T1: (6, "")}


def test_a_deleted_group_loses_its_pending_offsets() -> None:
    world = OffsetsWorld()
    world.commit("g", {T0: 4})
    world.commit("g", {T0: 5, T1: 6}, producer=1)
    world.commit("h", {T0: 7}, producer=1)
    assert world.delete_group("g") == 0
    world.end_transaction(1, is_commit=True)
    assert world.machine.offsets.by_group.keys() == {"h"}
    assert world.rebuilt().offsets.by_group == world.machine.offsets.by_group


def test_pending_offsets_are_deleted_with_their_topic() -> None:
    world = OffsetsWorld({"t": 1, "u": 1})
    world.commit("g", {T0: 5, U0: 6}, producer=1)
    world.change_topics(t=None)
    assert list(world.machine.offsets.pending.keys) == [GroupPartition("g", "u", 0)]
    world.end_transaction(1, is_commit=True)
    assert world.fetch("g") == {U0: (6, "")}


def test_a_pending_offset_keeps_the_committed_one_and_the_group() -> None:
    world = OffsetsWorld(offsets_retention_minutes="60")
    world.commit("g", {T0: 4, T1: 4})
    world.commit("g", {T0: 5}, producer=1)
    world.commit("h", {T0: 5}, producer=1)
    world.pass_ms(3 * HOUR_MS)
    assert world.fetch("g") == {T0: (4, "")}
    assert world.machine.groups.keys() == {"g", "h"}
    world.end_transaction(1, is_commit=False)
    world.pass_ms(HOUR_MS)
    assert world.machine.groups == {}
