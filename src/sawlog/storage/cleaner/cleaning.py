"""One cleaning of one log: the offset map, then each group of segments, cleaned and swapped in."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from sawlog.core.errors import KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.core.ports import Clock, Disk, DiskError, Timer
from sawlog.storage.cleaner.batch_filter import CleanerStats, total
from sawlog.storage.cleaner.cleanable_log import CleanableLog, group_segments
from sawlog.storage.cleaner.cleaner_worker import CleanerFailure, CleanerWorker
from sawlog.storage.cleaner.segment_cleaner import (
    CleanRequest,
    CleanResult,
    MapRequest,
    MapResult,
)
from sawlog.storage.log_files import CLEANED
from sawlog.storage.open_transactions import AbortedTransaction
from sawlog.storage.segment import Segment
from sawlog.storage.segment_swap import SegmentSwap

logger = EventLogger(__name__)


@dataclass(slots=True)
class CleaningOutcome:
    """How a cleaning ended. Without a failure the log is clean below `cleaned_up_to`."""

    cleaned_up_to: int
    failure: CleanerFailure | None = None
    stats: CleanerStats = field(default_factory=CleanerStats)
    map_bytes: int = 0
    keys: int = 0
    is_map_full: bool = False


OnCleaningDone = Callable[["Cleaning", CleaningOutcome], None]


class Cleaning:
    """The states: mapping, then for each group cleaning and swapping, then done.

    The log may be read and appended to meanwhile. Before its closed segments change otherwise (by
    truncation, deletion, retention) `abort` must be called. A group that was swapped in stays: it
    holds the same records without those that later ones replace.
    """

    def __init__(
        self,
        cleanable: CleanableLog,
        worker: CleanerWorker,
        *,
        disk: Disk,
        clock: Clock,
        timer: Timer,
        map_bytes: int,
        chunk_bytes: int,
        on_done: OnCleaningDone,
        on_disk_error: Callable[[DiskError], None],
    ) -> None:
        """`on_disk_error` is called instead of `on_done` if a swap fails half way: the directory
        must go offline, and the next start finishes the swap."""
        self.log = cleanable.log
        self.began_ms = clock.monotonic_ms()
        self._cleanable = cleanable
        self._worker = worker
        self._disk = disk
        self._timer = timer
        self._now_ms = clock.now_ms()
        self._map_bytes = map_bytes
        self._chunk_bytes = chunk_bytes
        self._on_done = on_done
        self._on_disk_error = on_disk_error
        self._groups: list[list[Segment]] = []
        self._swap: SegmentSwap | None = None
        self._is_over = False
        self._outcome = CleaningOutcome(cleanable.first_dirty_offset)

    def begin(self) -> None:
        cleanable = self._cleanable
        dirty = [s for s in self._closed(cleanable.end_offset) if self._is_dirty(s)]
        try:
            aborted = self._aborted(dirty, cleanable.end_offset)
        except KafkaError as error:
            self._timer.after(0, partial(self._mapped, CleanerFailure(str(error))))
            return
        request = MapRequest(
            self.log.directory,
            tuple(segment.base_offset for segment in dirty),
            cleanable.first_dirty_offset,
            cleanable.end_offset,
            self._map_bytes,
            self._chunk_bytes,
            aborted,
        )
        self._worker.build_map(request, self._mapped)

    def _aborted(self, segments: list[Segment], end_offset: int) -> tuple[AbortedTransaction, ...]:
        """The aborted transactions with records in these neighbours, which end at `end_offset`."""
        if not segments:
            return ()
        return tuple(self.log.aborted_transactions(segments[0].base_offset, end_offset))

    def abort(self) -> None:
        """End the cleaning at once, because the log's segments are about to change. `on_done` is
        not called. DiskError if a swap that is under way cannot be ended."""
        if self._is_over:
            return
        self._is_over = True
        self._worker.stop()
        if self._swap is not None:
            self._swap.settle()
        elif self._groups:
            self._remove_cleaned(self._groups[0])

    def abandon(self) -> None:
        """End the cleaning without touching a file, because the data directory is offline; the
        next start finishes or undoes a swap."""
        self._is_over = True
        self._worker.stop()
        if self._swap is not None:
            self._swap.abandon()

    def _closed(self, end_offset: int) -> list[Segment]:
        segments = self.log.segments
        return [s for s in segments if s is not segments.active and s.base_offset < end_offset]

    def _is_dirty(self, segment: Segment) -> bool:
        first_dirty = self._cleanable.first_dirty_offset
        return segment.base_offset >= self.log.segments.holding(first_dirty).base_offset

    def _mapped(self, result: MapResult | CleanerFailure) -> None:
        if self._is_over:
            return
        if isinstance(result, CleanerFailure):
            self._finish(result)
            return
        outcome = self._outcome
        outcome.cleaned_up_to = result.end_offset
        outcome.map_bytes, outcome.keys = result.bytes_read, result.keys
        outcome.is_map_full = result.is_full
        outcome.stats.keyless_records = result.keyless_records
        config = self.log.config
        self._groups = group_segments(
            self._closed(result.end_offset),
            config.segment_bytes,
            config.segment_index_bytes,
            self._cleanable.end_offset,
        )
        self._clean_next()

    def _clean_next(self) -> None:
        if not self._groups:
            self._finish(None)
            return
        try:
            request = self._clean_request(self._groups[0])
        except (DiskError, KafkaError) as error:
            self._finish(CleanerFailure(str(error)))
            return
        self._worker.clean(request, self._cleaned)

    def _clean_request(self, group: list[Segment]) -> CleanRequest:
        config = self.log.config
        first = group[0].base_offset
        next_segment = self._after(group[-1]).base_offset
        # Batches beyond the cleaned part may be truncated; the last one before them counts then.
        states = self.log.producer_states
        last_offsets = states.last_offsets(self._cleanable.end_offset)
        return CleanRequest(
            self.log.directory,
            tuple(segment.base_offset for segment in group),
            next_segment,
            self._cleanable.end_offset,
            self._now_ms,
            config.delete_retention_ms,
            {
                producer_id: offset
                for producer_id, offset in last_offsets.items()
                if first <= offset < next_segment
            },
            config.index_interval_bytes,
            self._chunk_bytes,
            {
                producer_id: state.epoch
                for producer_id, state in states.states.items()
                if producer_id not in last_offsets
            },
            self._aborted(group, next_segment),
        )

    def _after(self, segment: Segment) -> Segment:
        segments = self.log.segments
        return segments[segments.number_of(segment.base_offset) + 1]

    def _cleaned(self, result: CleanResult | CleanerFailure) -> None:
        if self._is_over:
            return
        group = self._groups[0]
        if isinstance(result, CleanerFailure):
            self._remove_cleaned(group)
            self._finish(result)
            return
        self._outcome.stats = total(self._outcome.stats, result.stats)
        if len(group) == 1 and not result.stats.changed_batches:
            self._remove_cleaned(group)
            self._groups.pop(0)
            self._clean_next()
            return
        try:
            new = self._open_cleaned(group)
            self._swap = SegmentSwap(
                self._disk,
                self._timer,
                self.log.directory,
                group,
                new,
                on_replaced=lambda: self.log.replace_segments(group, new),
                on_done=self._swapped,
            )
            self._swap.begin()
        except DiskError as error:
            self._swap = None
            self._remove_cleaned(group)
            self._finish(CleanerFailure(str(error)))

    def _swapped(self, error: DiskError | None) -> None:
        self._swap = None
        if error is not None:
            self._is_over = True
            self._worker.stop()
            self._on_disk_error(error)
            return
        self._groups.pop(0)
        self._clean_next()

    def _open_cleaned(self, group: list[Segment]) -> Segment:
        return Segment(
            self._disk,
            self.log.directory,
            group[0].base_offset,
            created_ms=max(segment.created_ms for segment in group),
            index_interval_bytes=self.log.config.index_interval_bytes,
            is_new=False,
            suffix=CLEANED,
        )

    def _remove_cleaned(self, group: list[Segment]) -> None:
        """Remove the files of a result that is not used."""
        try:
            for name in group[0].names():
                self._disk.remove(f"{self.log.directory}/{name}{CLEANED}")
        except DiskError as error:
            logger.warning("cleaned files not removed", log=str(self.log.tp), reason=str(error))

    def _finish(self, failure: CleanerFailure | None) -> None:
        self._is_over = True
        self._outcome.failure = failure
        self._on_done(self, self._outcome)
