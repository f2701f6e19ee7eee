"""A stream over topics: where it begins, how far the next batch goes, what a batch reads.

Everything that Spark asks a streaming reader for, without Spark. A position is resolved once and
travels in the offsets that Spark writes down, so that a batch which is done again, the first one
too, reads what it read before. What has been processed is published to the group.
"""

import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicPartition
from sawlog.pipeline.source.batch_limits import Limits, OffsetRange, plan_batch, split
from sawlog.pipeline.source.offset_json import (
    Offsets,
    Position,
    named,
    read_position,
    write_offsets,
)
from sawlog.pipeline.source.source_options import SourceOptions

_NO_LIMITS = Limits()
_logger = logging.getLogger(__name__)


class DataLost(Exception):
    """Records that the stream has not read are gone; it names them."""


class Watched(Protocol):
    """What a stream needs to know of its topics; `Subscription` asks the cluster."""

    def partitions(self, *, missing_ok: bool = False) -> list[TopicPartition]: ...
    def look_again(self) -> None: ...
    def earliest(self, partitions: list[TopicPartition]) -> Offsets: ...
    def latest(self, partitions: list[TopicPartition]) -> Offsets: ...


class Hears(Protocol):
    """Who is told what has been processed; whether that was heard."""

    def publish(self, offsets: Offsets) -> bool: ...


class Stream:
    """`resolve_start` is asked once, and only for a stream that begins here. For one thread."""

    def __init__(
        self,
        topics: Watched,
        options: SourceOptions,
        *,
        resolve_start: Callable[[], Offsets],
        publisher: Hears | None = None,
        monotonic_ms: Callable[[], float] = lambda: time.monotonic() * 1_000,
        sleep_ms: Callable[[float], None] = lambda wait: time.sleep(wait / 1_000),
    ) -> None:
        self._topics = topics
        self._options = options
        self._resolve_start = resolve_start
        self._publisher = publisher
        self._monotonic_ms = monotonic_ms
        self._sleep_ms = sleep_ms
        self._initial: Position | None = None
        self._target: Offsets | None = None
        self._latest: Offsets | None = None
        self._published: Offsets | None = None
        self._last_batch_ms = -math.inf

    def initial(self) -> dict[str, Any]:
        """Where the stream begins. Spark asks more than once, and gets the same answer."""
        if self._initial is None:
            offsets = self._resolve_start()
            self._initial = Position(offsets, offsets)
        return self._initial.to_json()

    def freeze(self) -> None:
        """From now on there is nothing after what there is now (Trigger.AvailableNow)."""
        self._target = self._ends()

    def latest(self, start: Mapping[str, Any], *, unlimited: bool = False) -> dict[str, Any]:
        """How far the batch goes that begins at `start`; `start` itself where there is nothing
        to read, or not enough yet.
        """
        begun = read_position(start)
        self._tell(begun.offsets)
        ends, starts = self._bounds(begun.offsets)
        self._latest = ends
        limits = _NO_LIMITS if unlimited else self._options.limits
        if self._target is not None:  # what does not come before the end would never come
            limits = Limits(max_records=limits.max_records, max_bytes=limits.max_bytes)
        now = self._monotonic_ms()
        planned = plan_batch(starts, ends, limits, since_last_ms=now - self._last_batch_ms)
        if planned == begun.offsets:
            return dict(start)
        if any(planned[partition] > offset for partition, offset in starts.items()):
            self._last_batch_ms = now
        is_first = begun.starts == begun.offsets
        noted = {
            partition: offset
            for partition, offset in starts.items()
            if is_first or begun.offsets.get(partition) != offset
        }
        return Position(planned, noted).to_json()

    def ranges(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[OffsetRange]:
        """What the tasks of a batch read."""
        begun, ended = read_position(start), read_position(end)
        if begun == ended:
            return []
        starts = begun.offsets | ended.starts
        unknown = sorted(ended.offsets.keys() - starts.keys())
        if unknown:  # the offsets were written down by another source
            starts |= self._topics.earliest(unknown)
        whole = [
            OffsetRange(partition, starts[partition], offset)
            for partition, offset in ended.offsets.items()
        ]
        return split(
            whole, min_tasks=self._options.min_tasks, max_records=self._options.max_task_records
        )

    def reported(self) -> dict[str, Any] | None:
        """The ends of the topics when last looked at, for Spark's progress reports."""
        return None if self._latest is None else dict(write_offsets(self._latest))

    def _tell(self, processed: Offsets) -> None:
        if self._publisher is None or not processed or processed == self._published:
            return
        if self._publisher.publish(processed):
            self._published = processed

    def _bounds(self, begun: Offsets) -> tuple[Offsets, Offsets]:
        """Where each partition ends now, and where reading goes on in it."""
        for attempt in range(1, self._options.offset_tries + 1):
            ends = self._ends()
            gone = [partition for partition in begun if partition not in ends]
            shrunk = [p for p, offset in begun.items() if p in ends and ends[p] < offset]
            if not gone and not shrunk:
                break
            if attempt < self._options.offset_tries:
                self._sleep_ms(self._options.offset_retry_ms)
                self._topics.look_again()
        new = [partition for partition in ends if partition not in begun]
        starts = {partition: begun[partition] for partition in ends if partition in begun}
        if gone:
            self._lost(f"{named(gone)} is gone; it was read up to {_shown(begun, gone)}")
        if shrunk:
            self._lost(
                f"{named(shrunk)} ends at {_shown(ends, shrunk)} and was read up to"
                f" {_shown(begun, shrunk)}: it was cut, or deleted and made again"
            )
        starts |= self._topics.earliest([*new, *shrunk])
        return ends, {partition: min(starts[partition], ends[partition]) for partition in ends}

    def _ends(self) -> Offsets:
        if self._target is not None:
            return self._target
        try:
            return self._topics.latest(self._topics.partitions(missing_ok=True))
        except KafkaError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            self._topics.look_again()  # one was deleted since they were looked up
            return self._topics.latest(self._topics.partitions(missing_ok=True))

    def _lost(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLost(
                f"{what}. Records may be lost; to go on with what there is, set 'failOnDataLoss'"
                " to false"
            )
        _logger.warning("%s; going on with what there is", what)


def _shown(offsets: Offsets, partitions: list[TopicPartition]) -> str:
    return ", ".join(str(offsets[partition]) for partition in sorted(partitions)[:10])
