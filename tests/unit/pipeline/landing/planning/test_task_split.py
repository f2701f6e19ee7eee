"""The split of a batch into tasks: every offset once, in equal shares."""

from hypothesis import given
from hypothesis import strategies as st

from sawlog.client.net.leader_requests import partition_of
from sawlog.pipeline.landing.planning.task_split import MIN_TASK_ROWS, split_into_tasks
from sawlog.pipeline.source.batch_planning import OffsetRange


def part(index: int, start: int, end: int) -> OffsetRange:
    return OffsetRange(partition_of("t", index), start, end)


def test_a_partition_larger_than_a_share_is_cut() -> None:
    rows = 4 * MIN_TASK_ROWS
    assert split_into_tasks([part(0, 0, rows)], 2) == [
        (part(0, 0, rows // 2),),
        (part(0, rows // 2, rows),),
    ]


def test_a_small_batch_is_one_task_however_many_partitions_it_has() -> None:
    ranges = [part(index, 5, 7) for index in range(6)]
    assert split_into_tasks(ranges, 8) == [tuple(ranges)]


def test_an_empty_batch_makes_no_task() -> None:
    assert split_into_tasks([part(0, 5, 5)], 4) == []
    assert split_into_tasks([], 4) == []


@given(
    sizes=st.lists(st.integers(0, 200_000), max_size=12),
    tasks=st.integers(1, 9),
)
def test_every_offset_is_in_one_of_equal_shares(sizes: list[int], tasks: int) -> None:
    ranges = [part(index, 10, 10 + size) for index, size in enumerate(sizes)]
    shares = split_into_tasks(ranges, tasks)
    assert len(shares) <= tasks
    joined: dict[int, list[tuple[int, int]]] = {}
    for share in shares:
        for (_, index), start, end in share:
            joined.setdefault(index, []).append((start, end))
    for index, size in enumerate(sizes):
        at = 10
        for start, end in joined.get(index, []):
            assert start == at < end
            at = end
        assert at == 10 + size
    counts = [sum(piece.size for piece in share) for share in shares]
    assert not counts or max(counts) - min(counts) <= 1
