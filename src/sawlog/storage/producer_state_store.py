"""The producer state of one log, and the snapshot files that it is restored from.

A snapshot at offset S holds the state after all batches below S. Snapshots at the base offset of a
segment stay as long as the segment; the one of the last checkpoint is replaced by the next. No
snapshot is indispensable: without one the batches are replayed.
"""

from bisect import bisect_right, insort
from collections.abc import Callable, Collection, Iterable

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.core.ports import Clock, Disk, DiskError, DiskFull, TooManyOpenFiles
from sawlog.protocol.control_records import EndTransactionMarker, read_marker
from sawlog.protocol.record_batch import CONTROL, TRANSACTIONAL, BatchHeader
from sawlog.storage.append_origin import AppendOrigin
from sawlog.storage.batch_scan import Damage
from sawlog.storage.log_config import FOREVER
from sawlog.storage.log_files import SNAPSHOT, CorruptFile, offset_name
from sawlog.storage.open_transactions import AbortedTransaction, OpenTransactions
from sawlog.storage.producer_state import BatchRange, ProducerStates
from sawlog.storage.segment import Segment
from sawlog.storage.segments import Segments
from sawlog.storage.transaction_verification import VerificationGuard, Verifications

REPLAYED_BYTES = 1 << 20
"""A checkpoint moves the snapshot along if more than this was appended without producers."""

REMOVED_AT_ONCE = 32
"""How many superseded snapshots a checkpoint removes: retention may leave thousands, and to unlink
them all would stall the event loop. The others are left to the next checkpoints."""

MAX_REFUSED = 1_000
"""How many producers with a refused batch are kept; the oldest are forgotten."""

logger = EventLogger(__name__)


class ProducerStateStore:
    """The state of a log's producers at its end offset.

    Invariants: `snapshot_offsets` is ascending and lists the files on disk; the state is that of
    all batches of the log, unless `is_deferred`: then `load_deferred` loads it before it is used.
    """

    __slots__ = (
        "_clock",
        "_deferred_to",
        "_directory",
        "_disk",
        "_is_closed",
        "_on_failure",
        "_refused",
        "_states",
        "_truncations",
        "_verifications",
        "snapshot_offsets",
        "transactions",
    )

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        directory: str,
        snapshot_offsets: Iterable[int] = (),
        *,
        on_failure: Callable[[DiskError], None],
    ) -> None:
        """`on_failure` is called when a snapshot cannot be written for another reason than lack of
        disk space or descriptors."""
        self._disk = disk
        self._clock = clock
        self._directory = directory
        self._on_failure = on_failure
        self._states = ProducerStates()
        self.transactions = OpenTransactions()
        self._verifications = Verifications()
        self._refused: dict[int, tuple[int, int]] = {}
        """By producer id: epoch and first sequence number of a batch that was not written."""
        self._deferred_to: int | None = None
        self._truncations = 0
        self._is_closed = False
        self.snapshot_offsets = sorted(snapshot_offsets)

    # The state

    @property
    def states(self) -> ProducerStates:
        return self._states

    @property
    def is_deferred(self) -> bool:
        """Whether the state is not loaded yet."""
        return self._deferred_to is not None

    def check(self, header: BatchHeader, origin: AppendOrigin) -> BatchRange | None:
        """Check a batch before its append: the earlier range if it is a duplicate; KafkaError if
        it is out of order or its producer epoch is fenced."""
        if origin is not AppendOrigin.CLIENT:
            return None
        if self._refused:
            return self._check_after_refusals(header)
        return self._states.check(header)

    def check_transactional(
        self,
        header: BatchHeader,
        origin: AppendOrigin,
        guard: VerificationGuard | None,
        *,
        verifies: bool,
    ) -> BatchRange | None:
        """As `check`, for a transactional batch that is no marker. INVALID_TXN_STATE if it begins a
        transaction without the guard of its verification. A coordinator's batches have no sequence
        numbers."""
        if origin is AppendOrigin.CLIENT:
            duplicate = self._states.duplicate(header)
            if duplicate is not None:
                return duplicate
        producer_id, epoch = header.producer_id, header.producer_epoch
        self._states.check_epoch(producer_id, epoch)
        if (
            verifies
            and not self._states.has_transaction(producer_id, epoch)
            and not self._verifications.matches(producer_id, guard)
        ):
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"the batch of producer {producer_id} is not part of an ongoing transaction",
            )
        if origin is not AppendOrigin.CLIENT:
            return None
        verification = self._verifications.get(producer_id)
        if verification is not None and producer_id not in self._refused:
            state = self._states.states.get(producer_id)
            verification.check_sequence(header, is_new_producer=state is None or not state.batches)
        return self.check(header, origin)

    def checked_marker(
        self, batch: memoryview, header: BatchHeader, origin: AppendOrigin, version: int
    ) -> EndTransactionMarker:
        """The marker in a control batch, after the checks of transaction version `version`:
        INVALID_RECORD if it is none or not a coordinator's, INVALID_PRODUCER_EPOCH,
        TRANSACTION_COORDINATOR_FENCED."""
        if origin is not AppendOrigin.COORDINATOR:
            raise KafkaError(ErrorCode.INVALID_RECORD, "only coordinators write control records")
        marker = read_marker(batch)
        self._states.check_marker(header, marker, version)
        return marker

    def begin_verification(
        self, producer_id: int, sequence: int, epoch: int, *, supports_epoch_bump: bool
    ) -> VerificationGuard | None:
        """Begin or go on to verify a transaction; None if it is open in this log already.
        INVALID_PRODUCER_EPOCH if the producer is fenced."""
        self._states.check_epoch(producer_id, epoch)
        if self._states.has_transaction(producer_id, epoch):
            return None
        return self._verifications.begin(
            producer_id,
            sequence,
            epoch,
            supports_epoch_bump=supports_epoch_bump,
            now_ms=self._clock.now_ms(),
        )

    def refuse(self, header: BatchHeader) -> None:
        """A checked batch could not be written. Until the producer repeats it, its next batches are
        refused in the same way: with OUT_OF_ORDER_SEQUENCE_NUMBER for them, librdkafka begins a new
        producer epoch, and batches in doubt of other partitions are in their logs twice."""
        if header.producer_id < 0:
            return
        self._refused[header.producer_id] = (header.producer_epoch, header.base_sequence)
        if len(self._refused) > MAX_REFUSED:
            del self._refused[next(iter(self._refused))]

    def _check_after_refusals(self, header: BatchHeader) -> BatchRange | None:
        epoch, sequence = self._refused.get(header.producer_id, (-1, -1))
        is_later = epoch == header.producer_epoch and sequence != header.base_sequence
        try:
            duplicate = self._states.check(header)
        except KafkaError as error:
            if not is_later or error.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                raise
            duplicate = None
        if is_later and duplicate is None:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"the batch with sequence {sequence} of producer {header.producer_id} was refused;"
                " it comes first",
            )
        return duplicate

    def take(
        self,
        header: BatchHeader,
        base_offset: int,
        timestamp: int,
        marker: EndTransactionMarker | None = None,
    ) -> None:
        """Record a batch that is in the log: appended, replicated, or read during recovery.
        `marker` is that of a control batch; None if the cleaner has removed its record."""
        producer_id = header[9]
        if producer_id < 0:
            return
        if self._refused:
            self._refused.pop(producer_id, None)
        now_ms = self._clock.now_ms()
        attributes = header[5]
        if not attributes & (TRANSACTIONAL | CONTROL):
            self._states.update(header, base_offset, timestamp, now_ms)
            return
        self._verifications.discard(producer_id)
        if not attributes & CONTROL:
            self._states.update(header, base_offset, timestamp, now_ms)
            if self._states.begin_transaction(producer_id, base_offset):
                self.transactions.begin(base_offset, producer_id)
        elif marker is not None:
            first_offset = self._states.end_transaction(header, marker, now_ms)
            if first_offset is not None:
                self.transactions.complete(first_offset, base_offset)

    def aborted_by(
        self, header: BatchHeader, marker: EndTransactionMarker, offset: int
    ) -> AbortedTransaction | None:
        """The transaction that a marker at `offset`, which is not recorded yet, aborts."""
        state = self._states.states.get(header.producer_id)
        if not marker.is_abort or state is None or state.current_txn_first_offset < 0:
            return None
        first_offset = state.current_txn_first_offset
        next_open = self.transactions.next_after(first_offset)
        return AbortedTransaction(
            header.producer_id,
            first_offset,
            offset,
            offset + 1 if next_open is None else next_open,
        )

    def repair_index(self, segments: Segments, segment: Segment, end_offset: int) -> None:
        """Make the transaction index of a segment again if it is damaged. `end_offset` is that of
        the log."""
        error = segment.transaction_index.check_once(segment.base_offset)
        if error:
            logger.warning(
                "transaction index rebuilt from the log", path=segment.file.path, reason=error
            )
            upper_offset = min(segments.next_base_offset(segment, end_offset), end_offset)
            segment.transaction_index.replace(
                self.aborted_between(segments, segment.base_offset, upper_offset)
            )

    def rebuild_indexes(self, segments: Segments, end_offset: int) -> None:
        """Make the transaction index of every segment from the batches, durably: after a restore
        there is none."""
        entries: dict[Segment, list[AbortedTransaction]] = {}
        for aborted in self.aborted_between(segments, segments.base_offset, end_offset):
            entries.setdefault(segments.holding(aborted.last_offset), []).append(aborted)
        for segment, found in entries.items():
            segment.transaction_index.replace(found)
            for file in segment.transaction_index.files():
                file.sync()
        if entries:
            self._disk.sync_directory(self._directory)

    def aborted_between(
        self, segments: Segments, offset: int, end_offset: int
    ) -> list[AbortedTransaction]:
        """The transactions whose abort markers are in a range of offsets, by the batches of the log
        up to there. `offset` is the base offset of a segment."""
        replayed = ProducerStateStore(
            self._disk,
            self._clock,
            self._directory,
            self.snapshot_offsets,
            on_failure=self._on_failure,
        )
        replayed.restore(segments, offset, FOREVER)
        found: list[AbortedTransaction] = []
        for segment, position, header in segments.batches_between(offset, end_offset):
            aborted = replayed.replay(segment, position, header)
            if aborted is not None:
                found.append(aborted)
        return found

    def replay(
        self, segment: Segment, position: int, header: BatchHeader
    ) -> AbortedTransaction | None:
        """Record a batch that is read from the log; returns the transaction that it aborts."""
        marker = segment.marker_at(position, header)
        aborted = marker and self.aborted_by(header, marker, header.base_offset)
        self.take(header, header.base_offset, header.max_timestamp, marker)
        return aborted

    def defer(self, end_offset: int) -> None:
        """The log ends at `end_offset` after a clean stop: load the state when it is needed."""
        self._deferred_to = end_offset

    def load_deferred(self, segments: Segments, expiration_ms: int) -> None:
        if self._deferred_to is not None:
            self.restore(segments, self._deferred_to, expiration_ms)

    def restore(self, segments: Segments, end_offset: int, expiration_ms: int) -> None:
        """Load the state at `end_offset`: the newest snapshot at or below it, then the batches.

        A snapshot from before the first segment is useless: the batches after it are gone.
        """
        self._deferred_to = end_offset  # if this fails, the state is still to be loaded
        self._states = ProducerStates()
        self._refused.clear()
        self._verifications.clear()
        for below in self._below(segments.base_offset):
            self._remove(below)
        loaded = self._load_snapshot(end_offset)
        offset = segments.base_offset if loaded is None else loaded
        self.transactions.load(self._states.open_transactions())
        for segment, position, header in segments.batches_between(offset, end_offset):
            self.replay(segment, position, header)
        self._deferred_to = None
        self._states.expire(self._clock.now_ms(), expiration_ms)

    def truncate(self, segments: Segments, end_offset: int, expiration_ms: int) -> None:
        """The log was truncated to `end_offset`: remove later snapshots, restore the state."""
        self._truncations += 1
        self.remove_above(end_offset)
        self.restore(segments, end_offset, expiration_ms)

    def expire(self, expiration_ms: int) -> None:
        """Remove producers that wrote nothing for `expiration_ms`, and old verifications."""
        if not self.is_deferred:
            self._states.expire(self._clock.now_ms(), expiration_ms)
            self._verifications.expire(self._clock.now_ms(), expiration_ms)

    def close(self) -> None:
        """A snapshot that is being written does not count any more."""
        self._is_closed = True

    # Snapshots

    @property
    def needs_snapshot(self) -> bool:
        """Whether producers wrote since the last snapshot."""
        return not self.is_deferred and self._states.is_changed

    @property
    def latest_snapshot(self) -> int:
        """The offset of the newest snapshot; -1 where there is none."""
        return self.snapshot_offsets[-1] if self.snapshot_offsets else -1

    def is_snapshot_due(self, segments: Segments, end_offset: int) -> bool:
        """Whether a checkpoint at the log end offset has to write a snapshot."""
        if self.needs_snapshot:
            return True
        latest = self.latest_snapshot
        is_movable = latest >= 0 and latest not in segments.base_offsets
        return not is_movable and _is_far_back(segments, latest, end_offset, end_offset)

    def encode(self) -> bytes:
        """The content of a snapshot of the present state, which counts as saved from now on."""
        data = self._states.encode()
        self._states.mark_saved()
        return data

    def discard_encoded(self) -> None:
        """The result of `encode` was not written."""
        self._states.mark_changed()

    def write_later(
        self, offset: int, data: bytes, done: Callable[[bool], None] = lambda _: None
    ) -> None:
        """Write a snapshot; `done` gets whether it is on disk and still valid. A snapshot that was
        overtaken by a truncation is removed again."""
        truncations = self._truncations

        def written(error: DiskError | None) -> None:
            if self._is_closed:
                done(False)
            elif error is not None:
                self.discard_encoded()
                if not isinstance(error, DiskFull | TooManyOpenFiles):
                    self._on_failure(error)
                done(False)
            else:
                self._list(offset)
                is_valid = truncations == self._truncations
                if not is_valid:
                    self.remove_above(offset - 1)
                done(is_valid)

        self._disk.replace_later([(self._path(offset), data)], written)

    def write_now(self, offset: int, segments: Segments) -> None:
        """Write a snapshot at the log end offset before this returns; DiskError where it fails."""
        self._disk.replace(self._path(offset), self._states.encode())
        self._list(offset)
        self._states.mark_saved()
        self.remove_superseded(offset, segments, offset)

    def confirm(self, offset: int) -> bool:
        """During recovery: whether the snapshot at `offset` agrees with the batches."""
        if offset not in self.snapshot_offsets:
            return False
        try:
            kept = ProducerStates()
            kept.load(self._disk.read_file(self._path(offset)))
        except (FileNotFoundError, CorruptFile):
            return False
        return kept.equals_except_timestamps(self._states)

    def remove_superseded(self, point: int, segments: Segments, end_offset: int) -> None:
        """After a checkpoint at `point`: remove the snapshot of the checkpoint before, or move it
        here if no producer wrote since."""
        try:
            index = bisect_right(self.snapshot_offsets, point)
            newest = self.snapshot_offsets[index - 1] if index else -1
            kept = set(segments.base_offsets)
            older = self.snapshot_offsets[: max(0, index - 1)]
            superseded = [offset for offset in older if offset not in kept]
            for offset in superseded[:REMOVED_AT_ONCE]:
                self._remove(offset)
            if (
                0 <= newest < point
                and not self.needs_snapshot
                and newest not in segments.base_offsets
                and _is_far_back(segments, newest, point, end_offset)
            ):
                self._move(newest, point)
        except DiskError as error:
            logger.warning("old snapshots not removed", path=self._directory, reason=str(error))

    def remove_above(self, offset: int, kept: Collection[int] = ()) -> None:
        """Remove later snapshots, durably: one that came back after a crash could describe batches
        that were truncated."""
        above = self.snapshot_offsets[bisect_right(self.snapshot_offsets, offset) :]
        stale = [one for one in above if one not in kept]
        for one in stale:
            self._remove(one)
        if stale:
            self._disk.sync_directory(self._directory)

    def remove_below(self, offset: int) -> None:
        """Remove the snapshots below `offset`, the start of the log, off the loop: there may be
        one for each segment that retention has removed, and none is written there again."""
        if below := self._below(offset):
            del self.snapshot_offsets[: len(below)]
            self._disk.remove_later([self._path(one) for one in below], self._removed)

    def _below(self, offset: int) -> list[int]:
        return self.snapshot_offsets[: bisect_right(self.snapshot_offsets, offset - 1)]

    def _removed(self, error: DiskError | None) -> None:
        if error is not None:
            logger.warning("old snapshots not removed", path=self._directory, reason=str(error))

    def _load_snapshot(self, limit_offset: int) -> int | None:
        """Load the newest snapshot at or below `limit_offset` and return its offset; a corrupt one
        is removed. None, and an empty state, if there is none."""
        while above := bisect_right(self.snapshot_offsets, limit_offset):
            offset = self.snapshot_offsets[above - 1]
            try:
                self._states.load(self._disk.read_file(self._path(offset)))
                return offset
            except (CorruptFile, FileNotFoundError) as error:
                logger.warning("snapshot not used", path=self._path(offset), reason=str(error))
                self._remove(offset)
        self._states.clear()
        return None

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{offset_name(offset, SNAPSHOT)}"

    def _list(self, offset: int) -> None:
        if offset not in self.snapshot_offsets:
            insort(self.snapshot_offsets, offset)

    def _remove(self, offset: int) -> None:
        self._disk.remove(self._path(offset))
        self.snapshot_offsets.remove(offset)

    def _move(self, old: int, new: int) -> None:
        """The same state at a later offset: no producer wrote between the two."""
        self._disk.rename(self._path(old), self._path(new))
        self.snapshot_offsets.remove(old)
        self._list(new)


def _is_far_back(segments: Segments, offset: int, point: int, end_offset: int) -> bool:
    """Whether many bytes would have to be replayed from `offset` up to `point`."""
    try:
        first = max(offset, segments.base_offset)
        return segments.bytes_between(first, point, end_offset) > REPLAYED_BYTES
    except (Damage, DiskError):
        return True
