"""A batch dealt out to tasks: equal shares of rows, whatever partitions they are in.

A task writes its ranges into the same files, so a batch makes as many files as it has tasks, and a
small batch makes one, however many partitions the topic has.
"""

from collections.abc import Sequence

from sawlog.pipeline.source.batch_limits import OffsetRange

MIN_TASK_ROWS = 20_000  # rows; less than that is read faster than another task starts


def split_into_tasks(ranges: Sequence[OffsetRange], tasks: int) -> list[tuple[OffsetRange, ...]]:
    """The same offsets in at most `tasks` shares that differ by one row at most. A share is a run
    of the ranges as they lie one after the other, cut where it must be.
    """
    whole = [part for part in sorted(ranges) if part.size > 0]
    rows = sum(part.size for part in whole)
    count = min(tasks, -(-rows // MIN_TASK_ROWS))
    bounds = [rows * number // count for number in range(1, count + 1)] if count else []
    shares: list[tuple[OffsetRange, ...]] = []
    share: list[OffsetRange] = []
    dealt = 0
    for part in whole:
        left = part
        while left.size > 0:
            taken = min(left.size, bounds[len(shares)] - dealt)
            share.append(OffsetRange(left.partition, left.start, left.start + taken))
            left = left._replace(start=left.start + taken)
            dealt += taken
            if dealt == bounds[len(shares)]:
                shares.append(tuple(share))
                share = []
    return shares
