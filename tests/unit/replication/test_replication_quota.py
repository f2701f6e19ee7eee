"""The quota of throttled replication: rates over windows, in simulated time."""

import pytest

from sawlog.replication.replication_quota import ReplicationQuota
from sawlog.simulation.schedule import Schedule


def quota_of(bytes_per_s: int, *, window_count: int = 2) -> tuple[Schedule, ReplicationQuota]:
    schedule = Schedule(1)
    quota = ReplicationQuota(schedule, window_ms=1_000, window_count=window_count)
    quota.set_rate(bytes_per_s)
    return schedule, quota


def test_a_quota_that_is_not_set_is_never_exceeded() -> None:
    quota = ReplicationQuota(Schedule(1))
    quota.record(1 << 40)
    assert quota.wait_ms() == 0


def test_bytes_up_to_the_rate_do_not_exceed_the_first_window() -> None:
    _, quota = quota_of(100)
    quota.record(100)
    assert quota.wait_ms() == 0
    quota.record(1)
    assert quota.wait_ms() == 1_010


@pytest.mark.parametrize(("size", "wait_ms"), [(150, 1_500), (200, 2_000), (300, 2_000)])
def test_the_wait_ends_when_the_rate_is_reached_or_the_window_is_forgotten(
    size: int, wait_ms: int
) -> None:
    schedule, quota = quota_of(100)
    quota.record(size)
    assert quota.wait_ms() == wait_ms
    schedule.run_for(wait_ms - 1)
    assert quota.wait_ms() == 1
    schedule.run_for(1)
    assert quota.wait_ms() == 0


def test_the_wait_looks_beyond_windows_that_are_forgotten_meanwhile() -> None:
    schedule, quota = quota_of(100, window_count=3)
    quota.record(500)
    schedule.run_for(1_000)
    quota.record(250)
    assert quota.wait_ms() == 2_500, "the first window is forgotten after 2 s; 250 bytes take 2.5 s"


def test_a_rate_of_zero_waits_until_all_windows_are_forgotten() -> None:
    schedule, quota = quota_of(0)
    quota.record(1)
    schedule.run_for(1_500)
    quota.record(1)
    assert quota.wait_ms() == 2_000


def test_a_new_rate_counts_at_once() -> None:
    _, quota = quota_of(100)
    quota.record(1_000)
    assert quota.wait_ms() > 0
    quota.set_rate(1_000)
    assert quota.wait_ms() == 0


@pytest.mark.parametrize("size", [100, 1_000, 3_333])
def test_records_that_move_whenever_the_quota_allows_move_at_its_rate(size: int) -> None:
    schedule, quota = quota_of(1_000, window_count=11)
    while schedule.monotonic_ms() < 100_000:
        wait_ms = quota.wait_ms()
        if wait_ms:
            schedule.run_for(wait_ms)
        else:
            quota.record(size)
            schedule.run_for(1)
    assert 90_000 <= quota.total_bytes <= 115_000


def test_throttled_partitions_are_some_or_all_of_a_topic() -> None:
    _, quota = quota_of(1)
    assert not quota.is_used
    quota.throttle("some", frozenset({1}))
    quota.throttle("all", None)
    found = [(t, i) for t in ("some", "all", "other") for i in (0, 1) if quota.throttles(t, i)]
    assert found == [("some", 1), ("all", 0), ("all", 1)]
    quota.throttle("some", frozenset())
    quota.throttle("all", frozenset({0}))
    assert not quota.throttles("some", 1)
    assert not quota.throttles("all", 1)
