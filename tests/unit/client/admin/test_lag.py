"""Rates of a group, and when it will have caught up."""

import pytest

from sawlog.client.admin.groups import GroupMember
from sawlog.client.admin.lag import LagTrend, Position, forecast, total_forecast
from sawlog.client.net.leader_requests import partition_of


def at(committed: int | None, end: int | None, member: str = "") -> Position:
    owner = GroupMember(member, None, "client", "/127.0.0.1", ()) if member else None
    return Position(committed, end, owner)


def test_a_group_that_reads_faster_than_writes_catches_up() -> None:
    found = forecast(at(100, 1_000), at(200, 1_050), 10)
    assert (found.lag, found.consumed_per_s, found.produced_per_s) == (850, 10.0, 5.0)
    assert (found.trend, found.catch_up_s) == (LagTrend.CATCHING_UP, 170.0)


@pytest.mark.parametrize(
    ("before", "after", "trend"),
    [
        (at(5, 10), at(10, 10), LagTrend.CAUGHT_UP),
        (at(12, 10), at(12, 10), LagTrend.CAUGHT_UP),
        (None, at(10, 10), LagTrend.CAUGHT_UP),
        (at(5, 10), at(6, 11), LagTrend.KEEPING_UP),
        (at(5, 10), at(6, 20), LagTrend.NEVER),
        (at(5, 10), at(5, 10), LagTrend.NO_COMMITS),
        (None, at(5, 10), LagTrend.MEASURED_ONCE),
        (at(5, 10), at(0, 10), LagTrend.OFFSET_SET),
        (at(None, 10), at(5, 10), LagTrend.OFFSET_SET),
        (at(None, 10), at(None, 10), LagTrend.NO_OFFSET),
        (at(5, 10), at(5, None), LagTrend.NO_OFFSET),
    ],
)
def test_an_unknown_forecast_has_a_reason(
    before: Position | None, after: Position, trend: LagTrend
) -> None:
    found = forecast(before, after, 5)
    assert found.trend is trend
    assert found.catch_up_s == (0 if trend is LagTrend.CAUGHT_UP else None)


@pytest.mark.parametrize(
    ("committed", "trend"),
    [
        (1_000, LagTrend.KEEPING_UP),  # as fast as writes
        (860, LagTrend.KEEPING_UP),  # a commit came a little late
        (1_140, LagTrend.KEEPING_UP),  # or early
        (600, LagTrend.NEVER),
        (1_400, LagTrend.CATCHING_UP),
    ],
)
def test_a_small_lag_within_the_commit_jitter_is_keeping_up(
    committed: int, trend: LagTrend
) -> None:
    """200 records per second for 5 s; the group is one commit behind."""
    assert forecast(at(0, 1_000), at(committed, 2_000), 5).trend is trend


@pytest.mark.parametrize(
    ("committed", "trend"),
    [
        (1_000, LagTrend.KEEPING_UP),
        (960, LagTrend.KEEPING_UP),
        (900, LagTrend.NEVER),
        (1_010, LagTrend.CATCHING_UP),
    ],
)
def test_a_large_lag_must_shrink_to_be_catching_up(committed: int, trend: LagTrend) -> None:
    found = forecast(at(0, 1_000_000), at(committed, 1_001_000), 5)
    assert found.trend is trend
    assert (found.catch_up_s is not None) == (trend is LagTrend.CATCHING_UP)


def test_the_jitter_is_bounded_by_the_measured_time() -> None:
    """1.5 s of jitter would explain any change within half a second."""
    assert forecast(at(0, 100), at(10, 200), 0.5).trend is LagTrend.NEVER
    assert forecast(at(0, 100), at(80, 200), 0.5).trend is LagTrend.KEEPING_UP


def test_a_group_without_members_is_not_expected_to_commit() -> None:
    before, after = at(5, 10), at(5, 10)
    here = partition_of("t", 0)
    assert forecast(before, after, 5, has_members=False).trend is LagTrend.NO_MEMBERS
    alone = total_forecast({here: before}, {here: after}, 5, has_members=False)
    assert alone.trend is LagTrend.NO_MEMBERS
    outsider = forecast(before, at(8, 10), 5, has_members=False)
    assert outsider.trend is LagTrend.CATCHING_UP


def test_a_group_keeps_up_when_its_worst_member_does() -> None:
    first, second = partition_of("t", 0), partition_of("t", 1)
    before = {first: at(0, 100, "a"), second: at(0, 100, "b")}
    keeping = at(100, 200, "b")
    caught_up, late = at(200, 200, "a"), at(190, 200, "a")
    assert (
        total_forecast(before, {first: caught_up, second: keeping}, 1).trend is LagTrend.KEEPING_UP
    )
    assert total_forecast(before, {first: late, second: keeping}, 1).trend is LagTrend.CATCHING_UP


def test_one_measurement_has_no_rate() -> None:
    found = forecast(at(5, 10), at(6, 10), 0)
    assert (found.consumed_per_s, found.produced_per_s) == (None, None)
    assert found.trend is LagTrend.MEASURED_ONCE


def test_the_group_is_forecast_by_sums_per_member() -> None:
    first, second, third = (partition_of("t", index) for index in range(3))
    before = {first: at(0, 100), second: at(0, 100), third: at(None, 7)}
    after = {first: at(50, 100), second: at(0, 110), third: at(None, 9)}
    found = total_forecast(before, after, 10)
    assert (found.lag, found.consumed_per_s, found.produced_per_s) == (160, 5.0, 1.0)
    assert found.catch_up_s == 40.0


def test_a_group_catches_up_with_its_last_member() -> None:
    first, second = partition_of("t", 0), partition_of("t", 1)
    before = {first: at(0, 100, "a"), second: at(0, 100, "b")}
    after = {first: at(50, 100, "a"), second: at(10, 100, "b")}
    found = total_forecast(before, after, 10)
    assert (found.lag, found.consumed_per_s, found.catch_up_s) == (140, 6.0, 90.0)
    after[first] = at(0, 100, "a")
    assert total_forecast(before, after, 10).trend is LagTrend.NO_COMMITS
    after[second] = at(10, 120, "b")
    assert total_forecast(before, after, 10).trend is LagTrend.NEVER
    after = {first: at(100, 100, "a"), second: at(100, 100, "b")}
    assert total_forecast(before, after, 10).trend is LagTrend.CAUGHT_UP


def test_a_negative_lag_does_not_hide_other_lags() -> None:
    after = {partition_of("t", 0): at(50, 10), partition_of("t", 1): at(0, 10)}
    assert total_forecast({}, after, 0).lag == 10


def test_a_group_without_offsets_has_no_lag() -> None:
    assert total_forecast({}, {}, 0).trend is LagTrend.NO_OFFSET
    assert total_forecast({}, {partition_of("t", 0): at(None, 9)}, 0).lag is None
