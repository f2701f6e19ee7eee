"""The size of a batch, and its split into tasks."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import TopicPartition
from sawlog.pipeline.source.batch_planning import (
    Limits,
    OffsetRange,
    plan_batch,
    share_bytes,
    share_records,
    split_ranges,
)

A, B, C = (partition_of("logs", index) for index in range(3))
WAITING = st.dictionaries(
    st.builds(partition_of, st.sampled_from(["a", "b"]), st.integers(0, 9)),
    st.integers(0, 10_000),
    max_size=12,
)
RANGES = WAITING.map(
    lambda sizes: [OffsetRange(tp, 100, 100 + size) for tp, size in sorted(sizes.items())]
)


def is_fair(taken: dict[TopicPartition, int], waiting: dict[TopicPartition, int]) -> bool:
    return all(min(1, count) <= taken[tp] <= count for tp, count in waiting.items())


def test_without_limits_a_batch_takes_all() -> None:
    assert plan_batch({A: 5, B: 0}, {A: 9, B: 0}, Limits()) == {A: 9, B: 0}


def test_records_are_shared_in_proportion_to_the_backlog() -> None:
    ends = plan_batch({A: 0, B: 0, C: 7}, {A: 300, B: 100, C: 7}, Limits(max_records=40))
    assert ends == {A: 30, B: 10, C: 7}


def test_a_small_partition_is_never_starved() -> None:
    assert plan_batch({A: 0, B: 0}, {A: 10_000, B: 1}, Limits(max_records=10)) == {A: 9, B: 1}


def test_bytes_are_shared_by_record_size() -> None:
    ends = plan_batch(
        {A: 0, B: 0},
        {A: 100, B: 100},
        Limits(max_bytes=5_500),
        record_bytes={A: 100.0, B: 10.0},
    )
    assert ends == {A: 50, B: 50}


def test_a_partition_of_unknown_record_size_counts_as_largest() -> None:
    assert share_bytes(1_000, {A: 10, B: 10}, {A: 100.0}) == {A: 5, B: 5}


@pytest.mark.parametrize(
    ("since_last_ms", "end"),
    [(0.0, 5), (999.0, 5), (1_000.0, 9), (float("inf"), 9)],
)
def test_a_small_batch_waits_but_not_for_ever(since_last_ms: float, end: int) -> None:
    limits = Limits(min_records=10, max_delay_ms=1_000)
    assert plan_batch({A: 5}, {A: 9}, limits, since_last_ms=since_last_ms) == {A: end}


def test_enough_records_do_not_wait() -> None:
    limits = Limits(min_records=4, max_records=6)
    assert plan_batch({A: 5}, {A: 9}, limits, since_last_ms=0) == {A: 9}


def test_a_log_that_shrank_gives_nothing() -> None:
    assert plan_batch({A: 9}, {A: 5}, Limits()) == {A: 9}


@settings(deadline=None)
@given(waiting=WAITING, limit=st.integers(1, 20_000))
def test_a_share_is_near_its_limit_and_never_empty(
    waiting: dict[TopicPartition, int], limit: int
) -> None:
    taken = share_records(limit, waiting)
    total, some = sum(waiting.values()), sum(1 for count in waiting.values() if count)
    assert taken.keys() == waiting.keys()
    assert is_fair(taken, waiting)
    assert sum(taken.values()) <= limit + some
    assert sum(taken.values()) >= min(total, limit - some)


@settings(deadline=None)
@given(
    waiting=WAITING,
    limit=st.integers(1, 1 << 24),
    weights=st.lists(st.floats(0.1, 1e6), min_size=12),
)
def test_bytes_are_near_their_limit_and_never_empty(
    waiting: dict[TopicPartition, int], limit: int, weights: list[float]
) -> None:
    record_bytes = dict(zip(waiting, weights, strict=False))
    taken = share_bytes(limit, waiting, record_bytes)
    assert is_fair(taken, waiting)
    heaviest = sum(record_bytes.values())  # each may be one too many
    assert sum(taken[tp] * record_bytes[tp] for tp in taken) <= limit * 1.001 + heaviest


@settings(deadline=None)
@given(
    ranges=RANGES,
    min_tasks=st.none() | st.integers(1, 40),
    max_records=st.none() | st.integers(1, 12_000),
)
def test_the_pieces_cover_every_record_once(
    ranges: list[OffsetRange], min_tasks: int | None, max_records: int | None
) -> None:
    pieces = split_ranges(ranges, min_tasks=min_tasks, max_records=max_records)
    assert all(0 < piece.size <= (max_records or piece.size) for piece in pieces)
    for whole in ranges:
        mine = [piece for piece in pieces if piece.partition == whole.partition]
        bounds = [whole.start, *(piece.end for piece in mine)]
        assert [piece.start for piece in mine] == bounds[:-1]
        assert bounds[-1] == whole.end


def test_one_task_a_partition_unless_more_are_wanted() -> None:
    ranges = [OffsetRange(A, 0, 90), OffsetRange(B, 0, 10), OffsetRange(C, 4, 4)]
    assert split_ranges(ranges) == ranges[:2]
    assert split_ranges(ranges, min_tasks=2) == ranges[:2]
    sizes = [piece.size for piece in split_ranges(ranges, min_tasks=4)]
    assert sizes == [30, 30, 30, 10]


def test_a_task_reads_no_more_than_it_may() -> None:
    sizes = [piece.size for piece in split_ranges([OffsetRange(A, 5, 105)], max_records=30)]
    assert sizes == [25, 25, 25, 25]
