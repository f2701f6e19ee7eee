"""The size of a batch and its split into tasks. Pure.

Limits work as in Spark's Kafka connector: the records of a batch are shared among partitions in
proportion to their backlog, and no partition with a backlog is left out.
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
    """The limits of one batch; None is unlimited.

    A batch of fewer than `min_records` waits for more, at most `max_delay_ms` after the last batch.
    """

    max_records: int | None = None
    min_records: int | None = None
    max_delay_ms: float = DEFAULT_MAX_DELAY_MS
    max_bytes: int | None = None


class OffsetRange(NamedTuple):
    """The records of a partition with start <= offset < end; there may be gaps."""

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
    """The end offset of the next batch in each partition of `latest`.

    `starts` has every partition of `latest`. `since_last_ms` is the time since the last batch
    started; `record_bytes` is the size of a record on the wire, for `max_bytes`.
    """
    waiting = {tp: max(0, end - starts[tp]) for tp, end in latest.items()}
    if should_wait(sum(waiting.values()), limits, since_last_ms):
        waiting = dict.fromkeys(waiting, 0)
    if limits.max_records is not None:
        waiting = share_records(limits.max_records, waiting)
    if limits.max_bytes is not None:
        waiting = share_bytes(limits.max_bytes, waiting, record_bytes or {})
    return {tp: starts[tp] + count for tp, count in waiting.items()}


def should_wait(waiting_records: int, limits: Limits, since_last_ms: float) -> bool:
    """Whether a batch is too small now and may still wait for more records."""
    return (
        limits.min_records is not None
        and waiting_records < limits.min_records
        and since_last_ms < limits.max_delay_ms
    )


def share_records(limit: int, waiting: Mapping[TopicPartition, int]) -> Offsets:
    """Share about `limit` records in proportion to the backlogs.

    Each partition with a backlog gets at least one, so the sum may exceed the limit by the number
    of partitions.
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
    """Share about `limit` bytes as records, at least one per partition with a backlog.

    A partition whose record size is unknown counts with the largest known one.
    """
    heaviest = max(record_bytes.values(), default=0.0)
    total = sum(count * record_bytes.get(tp, heaviest) for tp, count in waiting.items())
    if total <= limit:
        return dict(waiting)
    return {
        tp: min(count, max(1, int(count * (limit / total)))) if count else 0
        for tp, count in waiting.items()
    }


def split_ranges(
    ranges: Iterable[OffsetRange],
    *,
    min_tasks: int | None = None,
    max_records: int | None = None,
) -> list[OffsetRange]:
    """Split ranges into pieces of at most `max_records`, and into about `min_tasks` pieces.

    Empty ranges are dropped.
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
    """The number of parts, rounded half up as by Java's Math.round."""
    return max(1, math.floor(size / total * wanted + 0.5))


def _cut(piece: OffsetRange, parts: int) -> list[OffsetRange]:
    """Cut a range into parts that differ by at most one record; no more parts than records."""
    parts = min(parts, piece.size)
    bounds = [piece.start + piece.size * number // parts for number in range(parts + 1)]
    return [OffsetRange(piece.partition, start, end) for start, end in pairwise(bounds)]
