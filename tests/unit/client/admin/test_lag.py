"""How fast a group reads, and when it will have caught up."""

import pytest

from sawlog.client.admin.groups import GroupMember
from sawlog.client.admin.lag import Outlook, Position, pace, total_pace
from sawlog.client.net.leader_requests import partition_of


def at(committed: int | None, end: int | None, member: str = "") -> Position:
    owner = GroupMember(member, None, "client", "/127.0.0.1", ()) if member else None
    return Position(committed, end, owner)


def test_a_group_that_reads_faster_than_is_written_gets_there() -> None:
    found = pace(at(100, 1_000), at(200, 1_050), 10)
    assert (found.lag, found.consumed_per_s, found.produced_per_s) == (850, 10.0, 5.0)
    assert (found.outlook, found.catch_up_s) == (Outlook.CATCHING_UP, 170.0)


@pytest.mark.parametrize(
    ("before", "after", "outlook"),
    [
        (at(5, 10), at(10, 10), Outlook.CAUGHT_UP),
        (at(12, 10), at(12, 10), Outlook.CAUGHT_UP),
        (None, at(10, 10), Outlook.CAUGHT_UP),
        (at(5, 10), at(6, 11), Outlook.KEEPING_UP),
        (at(5, 10), at(6, 20), Outlook.NEVER),
        (at(5, 10), at(5, 10), Outlook.NO_COMMITS),
        (None, at(5, 10), Outlook.MEASURED_ONCE),
        (at(5, 10), at(0, 10), Outlook.OFFSET_SET),
        (at(None, 10), at(5, 10), Outlook.OFFSET_SET),
        (at(None, 10), at(None, 10), Outlook.NO_OFFSET),
        (at(5, 10), at(5, None), Outlook.NO_OFFSET),
    ],
)
def test_what_cannot_be_foretold_says_why(
    before: Position | None, after: Position, outlook: Outlook
) -> None:
    found = pace(before, after, 5)
    assert found.outlook is outlook
    assert found.catch_up_s == (0 if outlook is Outlook.CAUGHT_UP else None)


@pytest.mark.parametrize(
    ("committed", "outlook"),
    [
        (1_000, Outlook.KEEPING_UP),  # as much as is written
        (860, Outlook.KEEPING_UP),  # a commit came a little later
        (1_140, Outlook.KEEPING_UP),  # or sooner
        (600, Outlook.NEVER),
        (1_400, Outlook.CATCHING_UP),
    ],
)
def test_a_small_lag_that_commits_move_is_kept_up_with(committed: int, outlook: Outlook) -> None:
    """200 records a second for 5 s; the group is one commit behind."""
    assert pace(at(0, 1_000), at(committed, 2_000), 5).outlook is outlook


@pytest.mark.parametrize(
    ("committed", "outlook"),
    [
        (1_000, Outlook.KEEPING_UP),
        (960, Outlook.KEEPING_UP),
        (900, Outlook.NEVER),
        (1_010, Outlook.CATCHING_UP),
    ],
)
def test_a_great_lag_must_shrink_to_be_caught_up(committed: int, outlook: Outlook) -> None:
    found = pace(at(0, 1_000_000), at(committed, 1_001_000), 5)
    assert found.outlook is outlook
    assert (found.catch_up_s is not None) == (outlook is Outlook.CATCHING_UP)


def test_a_short_look_excuses_no_more_than_a_share_of_it() -> None:
    """1.5 s of jitter would excuse anything that is seen in half a second."""
    assert pace(at(0, 100), at(10, 200), 0.5).outlook is Outlook.NEVER
    assert pace(at(0, 100), at(80, 200), 0.5).outlook is Outlook.KEEPING_UP


def test_where_nobody_reads_nobody_is_expected_to_commit() -> None:
    before, after = at(5, 10), at(5, 10)
    here = partition_of("t", 0)
    assert pace(before, after, 5, has_members=False).outlook is Outlook.NO_MEMBERS
    alone = total_pace({here: before}, {here: after}, 5, has_members=False)
    assert alone.outlook is Outlook.NO_MEMBERS
    outsider = pace(before, at(8, 10), 5, has_members=False)
    assert outsider.outlook is Outlook.CATCHING_UP


def test_a_group_keeps_up_when_its_worst_member_does() -> None:
    first, second = partition_of("t", 0), partition_of("t", 1)
    before = {first: at(0, 100, "a"), second: at(0, 100, "b")}
    keeping = at(100, 200, "b")
    caught_up, late = at(200, 200, "a"), at(190, 200, "a")
    assert total_pace(before, {first: caught_up, second: keeping}, 1).outlook is Outlook.KEEPING_UP
    assert total_pace(before, {first: late, second: keeping}, 1).outlook is Outlook.CATCHING_UP


def test_one_measurement_tells_no_rate() -> None:
    found = pace(at(5, 10), at(6, 10), 0)
    assert (found.consumed_per_s, found.produced_per_s) == (None, None)
    assert found.outlook is Outlook.MEASURED_ONCE


def test_partitions_are_read_one_after_the_other_so_sums_tell_of_the_group() -> None:
    first, second, third = (partition_of("t", index) for index in range(3))
    before = {first: at(0, 100), second: at(0, 100), third: at(None, 7)}
    after = {first: at(50, 100), second: at(0, 110), third: at(None, 9)}
    found = total_pace(before, after, 10)
    assert (found.lag, found.consumed_per_s, found.produced_per_s) == (160, 5.0, 1.0)
    assert found.catch_up_s == 40.0


def test_a_group_is_there_when_its_last_member_is() -> None:
    first, second = partition_of("t", 0), partition_of("t", 1)
    before = {first: at(0, 100, "a"), second: at(0, 100, "b")}
    after = {first: at(50, 100, "a"), second: at(10, 100, "b")}
    found = total_pace(before, after, 10)
    assert (found.lag, found.consumed_per_s, found.catch_up_s) == (140, 6.0, 90.0)
    after[first] = at(0, 100, "a")
    assert total_pace(before, after, 10).outlook is Outlook.NO_COMMITS
    after[second] = at(10, 120, "b")
    assert total_pace(before, after, 10).outlook is Outlook.NEVER
    after = {first: at(100, 100, "a"), second: at(100, 100, "b")}
    assert total_pace(before, after, 10).outlook is Outlook.CAUGHT_UP


def test_an_offset_beyond_the_end_hides_no_lag_of_others() -> None:
    after = {partition_of("t", 0): at(50, 10), partition_of("t", 1): at(0, 10)}
    assert total_pace({}, after, 0).lag == 10


def test_a_group_without_offsets_has_no_lag_to_tell() -> None:
    assert total_pace({}, {}, 0).outlook is Outlook.NO_OFFSET
    assert total_pace({}, {partition_of("t", 0): at(None, 9)}, 0).lag is None
