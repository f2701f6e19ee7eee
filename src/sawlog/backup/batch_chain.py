"""Checks that segment files are a chain of record batches: CRCs, ascending offsets, no overlap."""

from pathlib import Path
from typing import NamedTuple, Protocol

from sawlog.backup.backup_error import BackupError
from sawlog.log_inspection.segment_reader import Problem, SegmentFile, read_batches
from sawlog.storage.leader_epochs import LeaderEpochs


class BrokenChain(BackupError):
    """The batches of a log are damaged or do not follow each other."""

    def __init__(self, path: Path, position: int, reason: str) -> None:
        super().__init__(f"{path}: position {position}: {reason}")
        self.path = path
        self.position = position
        self.reason = reason


class Progress(Protocol):
    def advance(self, amount: int) -> None: ...


class Gap(NamedTuple):
    """Missing offsets, from `first` to `last`."""

    first: int
    last: int


class BatchChain:
    """The batches of one log up to `limit_offset`, read segment by segment.

    Invariant: every batch read so far is whole, matches its CRC and ends at or below `next_offset`,
    which is at most `limit_offset`.
    """

    def __init__(self, limit_offset: int, progress: Progress) -> None:
        self.limit_offset = limit_offset
        self.next_offset = -1  # nothing was read yet
        self.gaps: list[Gap] = []
        self.epochs = LeaderEpochs()
        self._progress = progress

    def read(self, log: Path) -> int:
        """Check the batches of the next segment; return the position after the last one.

        Batches at or above the limit are not looked at: a broker may be writing them. BrokenChain
        at the first bad batch.
        """
        segment = SegmentFile(log)
        self._move_to(segment.base_offset, log, 0)
        position = 0
        if self.next_offset >= self.limit_offset:
            return position
        for found in read_batches(segment):
            if isinstance(found, Problem):
                raise BrokenChain(log, found.position, found.reason)
            header = found.header
            if header.next_offset > self.limit_offset:
                break
            if not found.has_valid_crc:
                raise BrokenChain(log, position, "the batch does not match its CRC")
            self._move_to(header.base_offset, log, position)
            if header.leader_epoch > self.epochs.latest:
                self.epochs.assign(header.leader_epoch, header.base_offset)
            self.next_offset = header.next_offset
            position += header.size
            self._progress.advance(header.size)
            if self.next_offset == self.limit_offset:
                break
        return position

    def _move_to(self, offset: int, log: Path, position: int) -> None:
        if self.next_offset < 0 or offset == self.next_offset:
            self.next_offset = offset
        elif offset < self.next_offset:
            reason = f"offset {offset} follows, but the batches before it end at {self.next_offset}"
            raise BrokenChain(log, position, reason)
        else:
            self.gaps.append(Gap(self.next_offset, offset - 1))
            self.next_offset = offset
