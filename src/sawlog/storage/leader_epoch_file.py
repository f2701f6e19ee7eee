"""The leader epochs of a log and their checkpoint file, checked against the batches.

The file is text without a checksum. Its entries are checked before replication relies on them, and
completed or rebuilt from the headers of the batches where they are wrong.
"""

from sawlog.core.event_logger import EventLogger
from sawlog.core.ports import Disk
from sawlog.storage.batch_scan import Damage
from sawlog.storage.leader_epochs import EpochEntry, LeaderEpochs
from sawlog.storage.log_files import EPOCH_CHECKPOINT, CorruptFile, decode_epochs, encode_epochs
from sawlog.storage.segments import Segments

logger = EventLogger(__name__)


class LeaderEpochFile:
    """The leader epochs of one log.

    Invariant: if `durable` is the current leader epoch, the file holds what the cache holds; -1
    means that it has to be written before the next append.
    """

    __slots__ = ("_cache", "_disk", "_is_checked", "_path", "durable")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{EPOCH_CHECKPOINT}"
        self._cache = LeaderEpochs()
        self._is_checked = False
        self.durable = -1

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return self._cache.entries

    @property
    def latest(self) -> int:
        return self._cache.latest

    # Loading

    def load(self) -> None:
        """Read the file; a corrupt one is ignored (Kafka creates it empty)."""
        data = self._disk.read_file(self._path)
        try:
            self._cache = LeaderEpochs(decode_epochs(data))
        except CorruptFile as error:
            if data:
                logger.warning(
                    "leader epochs rebuilt from the log", path=self._path, reason=str(error)
                )

    def clear(self) -> None:
        """The entries disagree with the log: `complete` rebuilds them."""
        self._cache = LeaderEpochs()

    def complete(self, segments: Segments, start_offset: int, end_offset: int) -> None:
        """After recovery: add the entries that are missing before the first one."""
        self._cache = _completed(self._cache, segments, start_offset, end_offset)

    def end_for(
        self, epoch: int, segments: Segments, start_offset: int, end_offset: int
    ) -> EpochEntry:
        """The largest epoch at or below `epoch` and its end offset. The first call checks all
        entries against the batches."""
        if not self._is_checked:
            checked = _checked(self._cache, segments, start_offset, end_offset)
            if checked is not self._cache:
                self._cache = checked
                self.durable = -1
            self._is_checked = True
        return self._cache.end_for(epoch, end_offset)

    def epoch_at(self, offset: int) -> int:
        """The epoch of the record at `offset`; -1 where none is known."""
        return self._cache.epoch_at(offset)

    # Changes

    def assign(self, epoch: int, start_offset: int) -> None:
        """Begin `epoch` at `start_offset`; in the file after the next `make_durable`."""
        self._cache.assign(epoch, start_offset)

    def make_durable(self, epoch: int, start_offset: int) -> None:
        """Before the first append in `epoch`: write it to the file; DiskError where that fails."""
        if epoch != self.durable:
            if epoch >= 0:
                self._cache.assign(epoch, start_offset)
                self._disk.replace(self._path, encode_epochs(self._cache.entries))
            self.durable = epoch

    def truncate_end(self, end_offset: int) -> None:
        """Remove epochs that begin at or after `end_offset`."""
        if self._cache.truncate_end(end_offset):
            self.durable = -1

    def truncate_start(self, start_offset: int) -> None:
        """Remove epochs that end before `start_offset`."""
        if self._cache.truncate_start(start_offset):
            self.durable = -1


def _completed(
    epochs: LeaderEpochs, segments: Segments, start_offset: int, end_offset: int
) -> LeaderEpochs:
    """`epochs` with the entries that are missing before its first one, from the batches: all of
    them if the checkpoint was empty, else those that were hidden by a log start offset which a
    crash has taken back."""
    known = epochs.entries
    limit_offset = known[0].start_offset if known else end_offset
    if limit_offset <= start_offset:
        return epochs
    found = _rebuilt(segments, start_offset, limit_offset)
    for entry in known:
        if entry.epoch > found.latest:
            found.assign(*entry)
    return found


def _checked(
    epochs: LeaderEpochs, segments: Segments, start_offset: int, end_offset: int
) -> LeaderEpochs:
    """`epochs`, or the epochs rebuilt from all batches if an entry disagrees with them."""
    previous = -1
    for epoch, epoch_start in epochs.entries:
        if epoch_start < end_offset and not _agrees(
            segments, start_offset, previous, epoch, epoch_start
        ):
            logger.warning(
                "leader epochs rebuilt from the log",
                path=segments.active.file.path,
                wrong=(epoch, epoch_start),
            )
            led = epochs.entries[-1]
            found = _rebuilt(segments, start_offset, end_offset)
            if led.start_offset >= end_offset:  # assigned, and nothing is written in it yet
                found.assign(*led)
            return found
        previous = epoch
    return epochs


def _rebuilt(segments: Segments, start_offset: int, limit_offset: int) -> LeaderEpochs:
    """The epochs of all batches from `start_offset` up to `limit_offset`."""
    found = LeaderEpochs()
    for header in segments.headers_between(start_offset, limit_offset):
        if header.leader_epoch > found.latest:
            found.assign(header.leader_epoch, max(header.base_offset, start_offset))
    return found


def _agrees(
    segments: Segments, start_offset: int, previous: int, epoch: int, epoch_start: int
) -> bool:
    """Whether the record at `epoch_start` has `epoch`, and the one before it `previous`."""
    found = _epoch_of(segments, epoch_start)
    if found is not None and found != epoch:
        return False
    if epoch_start <= start_offset:
        return True
    before = _epoch_of(segments, epoch_start - 1)
    return before is None or (before == previous if previous >= 0 else before < epoch)


def _epoch_of(segments: Segments, offset: int) -> int | None:
    """The leader epoch of one record; None where damage or compaction took it."""
    segment = segments.holding(offset)
    try:
        header = segment.batch_at(segment.position_of(offset))
    except Damage:
        return None
    return header.leader_epoch if header.base_offset <= offset else None
