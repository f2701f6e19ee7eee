"""Writes batches to the active segment of one log, and rolls it where the policy says so."""

from collections.abc import Callable

from sawlog.core.ports import DiskError
from sawlog.storage.log_config import FOREVER, LogConfig
from sawlog.storage.log_state import StoragePorts, create_segment
from sawlog.storage.open_transactions import AbortedTransaction
from sawlog.storage.roll_policy import MAX_RELATIVE_OFFSET, RollPolicy
from sawlog.storage.segment import Segment
from sawlog.storage.segments import Segments
from sawlog.storage.unsynced_files import UnsyncedFiles


class SegmentWriter:
    """The write end of a log's segments.

    Invariants: `_check_after_ms` is at or below the timestamp from which on the roll policy may
    decide to roll; a completed segment's files are listed in `unsynced`.
    """

    __slots__ = (
        "_check_after_ms",
        "_config",
        "_directory",
        "_on_rolled",
        "_policy",
        "_ports",
        "_segments",
        "_unsynced",
        "segment_bytes",
    )

    def __init__(
        self,
        ports: StoragePorts,
        directory: str,
        segments: Segments,
        unsynced: UnsyncedFiles,
        config: LogConfig,
        *,
        on_rolled: Callable[[], None],
    ) -> None:
        """`on_rolled` is called when a new segment is active, before anything is written to it."""
        self._ports = ports
        self._directory = directory
        self._segments = segments
        self._unsynced = unsynced
        self._on_rolled = on_rolled
        self._check_after_ms = FOREVER
        self.reconfigure(config)

    def reconfigure(self, config: LogConfig) -> None:
        """Apply the topic's settings; `prepare` has to follow before the next write."""
        self._config = config
        self._policy = RollPolicy.of(config)
        self.segment_bytes = config.segment_bytes

    def prepare(self) -> None:
        """Load what writes need to know of a segment that was found on disk; Damage or DiskError
        where that fails."""
        segment = self._segments.active
        segment.prepare_append(self._config.index_interval_bytes)
        self._check_after_ms = self._policy.check_after_ms(segment.fill())

    def reset(self) -> None:
        """All segments were replaced by an empty one."""
        self._check_after_ms = FOREVER

    def write(
        self,
        batch: memoryview,
        size: int,
        base_offset: int,
        last_offset: int,
        timestamp: int,
        end_offset: int,
        aborted: AbortedTransaction | None = None,
    ) -> None:
        """Write one batch to the active segment, or to a new one; DiskError, and no batch is
        written. `end_offset` is the log end offset before it, `aborted` the transaction that it
        aborts."""
        segment = self._segments.active
        if (
            segment.file.size + size > self.segment_bytes
            or timestamp > self._check_after_ms
            or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
        ) and self._policy.is_due(
            segment.fill(), size, timestamp, last_offset, self._ports.clock.now_ms()
        ):
            # The new segment begins at the log end offset. The batch of a compacted leader may
            # begin later, and recovery takes a gap between segments for a missing file if the topic
            # is not compacted any more.
            is_within = last_offset - end_offset <= MAX_RELATIVE_OFFSET
            self.roll(end_offset if is_within and segment.file.size else base_offset)
            segment = self._segments.active
        if aborted is not None:
            self._add_aborted(segment, aborted)
        try:
            may_be_due = segment.append(batch, size, last_offset, timestamp)
        except DiskError:
            if aborted is not None:
                self._drop_aborted(segment, aborted)
            raise
        if may_be_due and (
            self._check_after_ms == FOREVER  # the first batch of the segment
            or self._policy.is_index_full(len(segment.index), len(segment.time_index))
        ):
            self._check_after_ms = self._policy.check_after_ms(segment.fill())

    def _add_aborted(self, segment: Segment, aborted: AbortedTransaction) -> None:
        """Add an index entry before its marker is written."""
        index = segment.transaction_index
        if index.add(aborted):
            self._unsynced.note_new_entry()
        self._unsynced.note_changed(index.files())

    def _drop_aborted(self, segment: Segment, aborted: AbortedTransaction) -> None:
        """Drop the index entry of a marker that was not written: the next batch takes its offset.
        A DiskError that is not temporary if that fails, so that no batch follows; recovery drops
        the entry then."""
        try:
            segment.transaction_index.drop_from(aborted.last_offset)
        except DiskError as error:
            raise DiskError(error.path, error.reason) from error

    def roll(self, base_offset: int) -> None:
        """Begin a new active segment at `base_offset`; DiskError, and nothing changed."""
        old = self._segments.active
        assert base_offset > old.base_offset
        segment = create_segment(
            self._ports, self._directory, base_offset, self._config, self._unsynced
        )
        if old.file.size == 0:
            self._unsynced.forget(old.files())
            old.remove(self._ports.disk, self._directory)
            self._segments.replace([old], segment)
        else:
            self._unsynced.add(old.complete())
            self._segments.append(segment)
        self._check_after_ms = FOREVER
        self._on_rolled()
