"""The producer snapshots of one log: which there are, when a new one is due, and who removes them.

A snapshot at offset S tells the state after all batches below S. Those at the base offset of a
segment stay as long as the segment; the one of the last checkpoint moves on with the next. None
is ever needed: what a snapshot would have told is replayed from the batches.
"""

from bisect import bisect_right, insort
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from sawlog.core.errors import KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.core.ports import Disk, DiskError, DiskFull, TooManyOpenFiles
from sawlog.storage import lookup
from sawlog.storage.log_files import SNAPSHOT, CorruptFile, offset_name
from sawlog.storage.producers import ProducerStates

if TYPE_CHECKING:
    from sawlog.storage.log import Log

REPLAYED_BYTES = 1 << 20
"""How much may be appended without producers before a checkpoint brings the snapshot along."""

events = EventLogger(__name__)


class Snapshots:
    """The files by offset; what is listed here is on disk, or was when it was listed."""

    __slots__ = ("_directory", "_disk", "offsets")

    def __init__(self, disk: Disk, directory: str, offsets: Iterable[int] = ()) -> None:
        self._disk = disk
        self._directory = directory
        self.offsets = sorted(offsets)

    def path(self, offset: int) -> str:
        return f"{self._directory}/{offset_name(offset, SNAPSHOT)}"

    def latest(self) -> int:
        """The offset of the newest one; -1 where there is none."""
        return self.offsets[-1] if self.offsets else -1

    def load(self, states: ProducerStates, limit_offset: int) -> int | None:
        """Loads the newest snapshot at or below `limit_offset`; returns its offset. One that
        cannot be believed is removed; where none is left the states are empty: None."""
        while above := bisect_right(self.offsets, limit_offset):
            offset = self.offsets[above - 1]
            try:
                states.load(self._disk.read_file(self.path(offset)))
                return offset
            except (CorruptFile, FileNotFoundError) as error:
                events.warning("snapshot not used", path=self.path(offset), reason=str(error))
                self.remove(offset)
        states.clear()
        return None

    def added(self, offset: int) -> None:
        if offset not in self.offsets:
            insort(self.offsets, offset)

    def remove(self, offset: int) -> None:
        self._disk.remove(self.path(offset))
        self.offsets.remove(offset)

    def remove_above(self, offset: int, kept: Collection[int] = ()) -> None:
        """Durably: a snapshot that came back after a crash could tell of batches long cut off."""
        above = self.offsets[bisect_right(self.offsets, offset) :]
        stale = [one for one in above if one not in kept]
        for one in stale:
            self.remove(one)
        if stale:
            self._disk.sync_directory(self._directory)

    def remove_below(self, offset: int) -> None:
        for below in self.offsets[: bisect_right(self.offsets, offset - 1)]:
            self.remove(below)

    def move(self, old: int, new: int) -> None:
        """The same state at a later offset: nothing happened between the two."""
        self._disk.rename(self.path(old), self.path(new))
        self.offsets.remove(old)
        self.added(new)


def is_due(log: "Log") -> bool:
    """Whether a checkpoint at the log's end has to write a snapshot."""
    if log.needs_snapshot:
        return True
    latest = log.snapshots.latest()
    return (latest < 0 or latest in log.bases) and _is_far_back(log, latest, log.end_offset)


def write_later(log: "Log", offset: int, data: bytes, done: Callable[[bool], None]) -> None:
    """Puts a snapshot on disk; one that a truncation overtook is taken away again."""
    generation = log.generation

    def written(error: DiskError | None) -> None:
        if log.is_closed:
            done(False)
        elif error is not None:
            log.producers.changed = True
            if not isinstance(error, DiskFull | TooManyOpenFiles):
                log.home.fail(error)
            done(False)
        elif generation != log.generation:
            log.snapshots.added(offset)
            log.snapshots.remove_above(offset - 1)
            done(False)
        else:
            log.snapshots.added(offset)
            done(True)

    log.home.disk.replace_later([(log.snapshots.path(offset), data)], written)


def confirm(log: "Log", offset: int) -> bool:
    """While a log is recovered: whether the snapshot at `offset` says what the batches say."""
    if offset not in log.snapshots.offsets:
        return False
    try:
        kept = ProducerStates()
        kept.load(log.home.disk.read_file(log.snapshots.path(offset)))
    except (FileNotFoundError, CorruptFile):
        return False
    return kept.is_same_but_for_times(log.producers)


def write_now(log: "Log") -> None:
    log.home.disk.replace(log.snapshots.path(log.end_offset), log.producers.encode())
    log.snapshots.added(log.end_offset)
    log.producers.changed = False
    tidy(log, log.end_offset)


def tidy(log: "Log", point: int) -> None:
    """After a checkpoint at `point`: the one before it is not needed any more, or moves here if no
    producer wrote since."""
    try:
        kept = log.snapshots
        index = bisect_right(kept.offsets, point)
        newest = kept.offsets[index - 1] if index else -1
        for offset in kept.offsets[: max(0, index - 1)]:
            if offset not in log.bases:
                kept.remove(offset)
        if (
            newest >= 0
            and newest < point
            and not log.needs_snapshot
            and newest not in log.bases
            and _is_far_back(log, newest, point)
        ):
            kept.move(newest, point)
    except DiskError as error:
        events.warning("old snapshots left behind", log=str(log.tp), reason=str(error))


def _is_far_back(log: "Log", offset: int, point: int) -> bool:
    try:
        return lookup.bytes_between(log, offset, point) > REPLAYED_BYTES
    except KafkaError:
        return True
