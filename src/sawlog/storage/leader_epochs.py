"""Which leader epoch began at which offset (KIP-101, KIP-279).

The cache of one log, in memory; `leader-epoch-checkpoint` holds the same on disk. The log writes an
entry before it appends the first batch of the epoch (KAFKA-16541). A cache that is rebuilt from the
batches is equal, except for a last epoch without a batch.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple


class EpochEntry(NamedTuple):
    """A leader epoch and the offset of its first record."""

    epoch: int
    start_offset: int


NO_END = EpochEntry(-1, -1)
"""The result of `end_for` for an unknown epoch."""


class LeaderEpochs:
    """Entries with epochs and start offsets both strictly increasing.

    With the entries (0, 0) (2, 10) (5, 40) and the log end offset 50: epoch 0 ends at 10, epoch 2
    at 40, epoch 5 at 50. No batch has epoch 3, so `end_for(3)` is that of epoch 2, (2, 40);
    `end_for(6)` is `NO_END`.
    """

    __slots__ = ("_entries", "latest")

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._entries: list[EpochEntry] = []
        self.latest = -1
        for entry in entries:
            self.assign(*entry)

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return tuple(self._entries)

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Add the start of an epoch; returns False if it is known already.

        Entries that contradict the new one (a higher epoch, or a start at or after its own) are
        removed: no batch of theirs is in the log.
        """
        entries = self._entries
        if entries and entries[-1].epoch == epoch and entries[-1].start_offset <= start_offset:
            return False
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochEntry(epoch, start_offset))
        self.latest = epoch
        return True

    def end_for(self, epoch: int, end_offset: int) -> EpochEntry:
        """The largest epoch at or below `epoch`, and its end offset; `end_offset` is the log's."""
        entries = self._entries
        if epoch < 0 or not entries or epoch > self.latest:
            return NO_END
        if epoch == self.latest:
            return EpochEntry(epoch, end_offset)
        above = bisect_right(entries, epoch, key=lambda entry: entry.epoch)
        found = entries[above - 1].epoch if above else epoch
        return EpochEntry(found, entries[above].start_offset)

    def epoch_at(self, offset: int) -> int:
        """The epoch of the record at `offset`; -1 where none is known."""
        above = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[above - 1].epoch if above else -1

    def truncate_end(self, end_offset: int) -> bool:
        """Remove epochs that begin at or after `end_offset`; returns whether there were any."""
        entries = self._entries
        before = len(entries)
        while entries and entries[-1].start_offset >= end_offset:
            entries.pop()
        self.latest = entries[-1].epoch if entries else -1
        return len(entries) != before

    def truncate_start(self, start_offset: int) -> bool:
        """Remove epochs that end before `start_offset`; the epoch that holds it begins there then.
        Returns whether an entry changed."""
        entries = self._entries
        above = bisect_right(entries, start_offset, key=lambda entry: entry.start_offset)
        if above == 0 or (entries[above - 1].start_offset == start_offset and above == 1):
            return False
        entries[:above] = [EpochEntry(entries[above - 1].epoch, start_offset)]
        return True
