"""Splits a batch into tasks with equal numbers of rows, across partitions.

A task writes all its ranges to the same files. So a batch makes as many files as tasks, and a small
batch makes one, however many partitions the topic has.
"""

from collections.abc import Sequence

from sawlog.pipeline.source.batch_planning import OffsetRange

MIN_TASK_ROWS = 20_000  # fewer rows are read faster than another task starts


def split_into_tasks(ranges: Sequence[OffsetRange], tasks: int) -> list[tuple[OffsetRange, ...]]:
    """Split the ranges into at most `tasks` shares whose sizes differ by at most one row.

    A share is a run of consecutive ranges, which are cut where necessary.
    """
    whole = [part for part in sorted(ranges) if part.size > 0]
    rows = sum(part.size for part in whole)
    count = min(tasks, -(-rows // MIN_TASK_ROWS))
    bounds = [rows * number // count for number in range(1, count + 1)] if count else []
    shares: list[tuple[OffsetRange, ...]] = []
    share: list[OffsetRange] = []
    assigned = 0
    for part in whole:
        left = part
        while left.size > 0:
            taken = min(left.size, bounds[len(shares)] - assigned)
            share.append(OffsetRange(left.partition, left.start, left.start + taken))
            left = left._replace(start=left.start + taken)
            assigned += taken
            if assigned == bounds[len(shares)]:
                shares.append(tuple(share))
                share = []
    return shares
