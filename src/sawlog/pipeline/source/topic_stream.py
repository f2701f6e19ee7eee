"""A stream over topics: its start, the end of the next batch, and the ranges of a batch.

Everything that Spark asks a streaming reader for, without Spark. The start is resolved once and
stored in the offsets in Spark's checkpoint, so that a repeated batch reads the same records, the
first batch included. Processed offsets are committed to the consumer group, for monitoring only.
"""

import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicPartition
from sawlog.pipeline.source.batch_planning import Limits, OffsetRange, plan_batch, split_ranges
from sawlog.pipeline.source.offset_json import (
    Offsets,
    StreamOffset,
    describe_partitions,
    read_stream_offset,
    write_offsets,
)
from sawlog.pipeline.source.source_options import SourceOptions

_NO_LIMITS = Limits()
_logger = logging.getLogger(__name__)


class DataLost(Exception):
    """Records that the stream has not read are lost; the message names them."""


class TopicOffsets(Protocol):
    """What a stream needs to know about its topics; implemented by `Subscription`."""

    def partitions(self, *, missing_ok: bool = False) -> list[TopicPartition]: ...
    def invalidate(self) -> None: ...
    def earliest(self, partitions: list[TopicPartition]) -> Offsets: ...
    def latest(self, partitions: list[TopicPartition]) -> Offsets: ...
    def log_ends(self, partitions: list[TopicPartition]) -> Offsets: ...


class OffsetCommits(Protocol):
    """Commits processed offsets to a group; returns False if that failed."""

    def commit(self, offsets: Offsets) -> bool: ...


class Stream:
    """`resolve_start` is called once, and only for a new stream. Not thread-safe."""

    def __init__(
        self,
        topics: TopicOffsets,
        options: SourceOptions,
        *,
        resolve_start: Callable[[], Offsets],
        group_progress: OffsetCommits | None = None,
        monotonic_ms: Callable[[], float] = lambda: time.monotonic() * 1_000,
        sleep_ms: Callable[[float], None] = lambda wait: time.sleep(wait / 1_000),
    ) -> None:
        self._topics = topics
        self._options = options
        self._resolve_start = resolve_start
        self._group_progress = group_progress
        self._monotonic_ms = monotonic_ms
        self._sleep_ms = sleep_ms
        self._initial: StreamOffset | None = None
        self._target: Offsets | None = None
        self._latest: Offsets | None = None
        self._committed: Offsets | None = None
        self._last_batch_ms = -math.inf

    def initial(self) -> dict[str, Any]:
        """The start of the stream; the same at every call."""
        if self._initial is None:
            offsets = self._resolve_start()
            self._initial = StreamOffset(offsets, offsets)
        return self._initial.to_json()

    def fix_end(self) -> None:
        """Fix the end of the stream to the current end offsets (Trigger.AvailableNow)."""
        self._target = self._ends()

    def latest(self, start: Mapping[str, Any], *, unlimited: bool = False) -> dict[str, Any]:
        """The end of the batch that starts at `start`; `start` itself if no batch is due."""
        read_to = read_stream_offset(start)
        self._commit(read_to.offsets)
        ends, starts = self._bounds(read_to.offsets)
        self._latest = ends
        limits = _NO_LIMITS if unlimited else self._options.limits
        if self._target is not None:  # records that did not come before the end never will
            limits = Limits(max_records=limits.max_records, max_bytes=limits.max_bytes)
        now = self._monotonic_ms()
        planned = plan_batch(starts, ends, limits, since_last_ms=now - self._last_batch_ms)
        if planned == read_to.offsets:
            return dict(start)
        if any(planned[partition] > offset for partition, offset in starts.items()):
            self._last_batch_ms = now
        is_first = read_to.starts == read_to.offsets
        noted = {
            partition: offset
            for partition, offset in starts.items()
            if is_first or read_to.offsets.get(partition) != offset
        }
        return StreamOffset(planned, noted).to_json()

    def ranges(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[OffsetRange]:
        """The ranges of a batch."""
        read_to, ended = read_stream_offset(start), read_stream_offset(end)
        if read_to == ended:
            return []
        starts = read_to.offsets | ended.starts
        unknown = sorted(ended.offsets.keys() - starts.keys())
        if unknown:  # the checkpoint is that of another source
            starts |= self._topics.earliest(unknown)
        whole = [
            OffsetRange(partition, starts[partition], offset)
            for partition, offset in ended.offsets.items()
        ]
        return split_ranges(
            whole, min_tasks=self._options.min_tasks, max_records=self._options.max_task_records
        )

    def reported(self) -> dict[str, Any] | None:
        """The last known end offsets of the topics, for Spark's progress reports."""
        return None if self._latest is None else dict(write_offsets(self._latest))

    def _commit(self, processed: Offsets) -> None:
        if self._group_progress is None or not processed or processed == self._committed:
            return
        if self._group_progress.commit(processed):
            self._committed = processed

    def _bounds(self, read_to: Offsets) -> tuple[Offsets, Offsets]:
        """The end of each partition, and where reading continues in it."""
        for attempt in range(1, self._options.offset_tries + 1):
            ends = self._ends()
            gone = [partition for partition in read_to if partition not in ends]
            shrunk = self._shrunk(read_to, ends)
            if not gone and not shrunk:
                break
            if attempt < self._options.offset_tries:
                self._sleep_ms(self._options.offset_retry_ms)
                self._topics.invalidate()
        new = [partition for partition in ends if partition not in read_to]
        starts = {partition: read_to[partition] for partition in ends if partition in read_to}
        if gone:
            self._lost(
                f"{describe_partitions(gone)} is gone; it was read up to {_shown(read_to, gone)}"
            )
        if shrunk:
            self._lost(
                f"{describe_partitions(shrunk)} ends at {_shown(ends, shrunk)} and was read up to"
                f" {_shown(read_to, shrunk)}: it was cut, or deleted and created again"
            )
        starts |= self._topics.earliest([*new, *shrunk])
        held_back = {p: starts[p] for p in read_to if p in ends and p not in shrunk}
        ends = {p: max(end, held_back.get(p, end)) for p, end in ends.items()}
        return ends, {partition: min(starts[partition], ends[partition]) for partition in ends}

    def _shrunk(self, read_to: Offsets, ends: Offsets) -> list[TopicPartition]:
        """Return the partitions whose log ends before the offset that was read.

        An open transaction holds back `ends` only: the stream was read_uncommitted before, or
        starts at an offset after the beginning of the transaction.
        """
        before = [p for p, offset in read_to.items() if p in ends and ends[p] < offset]
        if not before:
            return []
        log_ends = self._topics.log_ends(before)
        return [partition for partition in before if log_ends[partition] < read_to[partition]]

    def _ends(self) -> Offsets:
        if self._target is not None:
            return self._target
        try:
            return self._topics.latest(self._topics.partitions(missing_ok=True))
        except KafkaError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            self._topics.invalidate()  # a topic was deleted since the lookup
            return self._topics.latest(self._topics.partitions(missing_ok=True))

    def _lost(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLost(
                f"{what}. Records may be lost; to continue without them, set 'failOnDataLoss' to"
                " false"
            )
        _logger.warning("%s; continuing with the records that are left", what)


def _shown(offsets: Offsets, partitions: list[TopicPartition]) -> str:
    return ", ".join(str(offsets[partition]) for partition in sorted(partitions)[:10])
