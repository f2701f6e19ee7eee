"""How fast a group reads, and when it will have caught up."""

import pytest

from sawlog.client.groups import GroupMember
from sawlog.client.lag import Outlook, Position, pace, total_pace
from sawlog.client.leaders import partition_of


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
        (at(5, 10), at(6, 11), Outlook.NEVER),
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
