"""How much a batch takes, and how it is cut into tasks: numbers in, numbers out.

Limits act as in Spark's Kafka connector: a batch's records are shared among partitions in
proportion to what waits in each, and none that has something is left out.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from sawlog.core.ids import TopicPartition
from sawlog.pipeline.source.offset_json import Offsets

DEFAULT_MAX_DELAY_MS = 15 * 60 * 1_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one batch; None: as much as there is. With fewer than `min_records` a batch waits for
    more, `max_delay_ms` since the last one at most.
    """

    max_records: int | None = None
    min_records: int | None = None
    max_delay_ms: float = DEFAULT_MAX_DELAY_MS
    max_bytes: int | None = None


class OffsetRange(NamedTuple):
    """All records of a partition with start <= offset < end; some offsets may have none."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def plan_batch(
    starts: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
    limits: Limits,
    *,
    since_last_ms: float = math.inf,
    record_bytes: Mapping[TopicPartition, float] | None = None,
) -> Offsets:
    """Where the next batch ends in each partition of `latest`: at its start where it takes none.

    `starts` has every partition of `latest`. `since_last_ms` is the time since the last batch
    began, `record_bytes` what a record takes on the wire, which `max_bytes` needs.
    """
    waiting = {tp: max(0, end - starts[tp]) for tp, end in latest.items()}
    if is_to_wait(sum(waiting.values()), limits, since_last_ms):
        waiting = dict.fromkeys(waiting, 0)
    if limits.max_records is not None:
        waiting = share(limits.max_records, waiting)
    if limits.max_bytes is not None:
        waiting = share_bytes(limits.max_bytes, waiting, record_bytes or {})
    return {tp: starts[tp] + count for tp, count in waiting.items()}


def is_to_wait(waiting_records: int, limits: Limits, since_last_ms: float) -> bool:
    """Whether a batch would be too small now, and there is time for it to grow."""
    return (
        limits.min_records is not None
        and waiting_records < limits.min_records
        and since_last_ms < limits.max_delay_ms
    )


def share(limit: int, waiting: Mapping[TopicPartition, int]) -> Offsets:
    """So many of each, about `limit` in all. One at least of each that has any: the sum may be
    larger by as many as there are partitions.
    """
    total = sum(waiting.values())
    if total <= limit:
        return dict(waiting)
    return {
        tp: min(count, max(1, limit * count // total)) if count else 0
        for tp, count in waiting.items()
    }


def share_bytes(
    limit: int,
    waiting: Mapping[TopicPartition, int],
    record_bytes: Mapping[TopicPartition, float],
) -> Offsets:
    """As many of each as come to about `limit` bytes in all, at least one of each that has any.
    A partition whose records were not weighed counts as the heaviest that was.
    """
    heaviest = max(record_bytes.values(), default=0.0)
    total = sum(count * record_bytes.get(tp, heaviest) for tp, count in waiting.items())
    if total <= limit:
        return dict(waiting)
    return {
        tp: min(count, max(1, int(count * (limit / total)))) if count else 0
        for tp, count in waiting.items()
    }


def split(
    ranges: Iterable[OffsetRange],
    *,
    min_tasks: int | None = None,
    max_records: int | None = None,
) -> list[OffsetRange]:
    """The same records in pieces of at most `max_records`, and about `min_tasks` pieces where there
    were fewer; empty ranges vanish.
    """
    pieces = [piece for piece in ranges if piece.size > 0]
    if max_records is not None:
        pieces = [part for piece in pieces for part in _cut(piece, -(-piece.size // max_records))]
    if min_tasks is None or len(pieces) >= min_tasks:
        return pieces
    total = sum(piece.size for piece in pieces)
    small = [piece for piece in pieces if _parts(piece.size, total, min_tasks) == 1]
    small_total = sum(piece.size for piece in small)
    left = max(1, min_tasks - len(small))
    kept = set(small)
    return [
        part
        for piece in pieces
        for part in _cut(
            piece, 1 if piece in kept else _parts(piece.size, total - small_total, left)
        )
    ]


def _parts(size: int, total: int, wanted: int) -> int:
    """Half a part more counts as one, as Java's Math.round has it."""
    return max(1, math.floor(size / total * wanted + 0.5))


def _cut(piece: OffsetRange, parts: int) -> list[OffsetRange]:
    """Into parts that differ by one record at most; never more than there are records."""
    parts = min(parts, piece.size)
    bounds = [piece.start + piece.size * number // parts for number in range(parts + 1)]
    return [OffsetRange(piece.partition, start, end) for start, end in pairwise(bounds)]
