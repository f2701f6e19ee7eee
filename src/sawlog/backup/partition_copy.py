"""Copies the log of one partition while the broker appends, rolls, deletes and compacts segments.

Bytes below the high watermark never change in place, but segments are deleted by retention and
replaced by the log cleaner. So the segments are listed, then the broker is asked for the offsets,
the segments are copied, and listed again: if a segment was replaced or has vanished, it is copied
again. All segments of a copy are thus of one moment. A mixture would be wrong: a tombstone that the
cleaner removed in one segment could leave the deleted record in the older copy of another.
"""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from sawlog.backup.backup_error import BackupError
from sawlog.backup.batch_chain import BatchChain, BrokenChain, Gap, Progress
from sawlog.backup.file_copy import (
    copy_file,
    sha256_of,
    sync_directory,
    truncate_file,
    write_new_file,
)
from sawlog.backup.manifest import BackupFile
from sawlog.client.net.retries import Backoff
from sawlog.core.ids import TopicId, TopicPartition
from sawlog.storage import log_files

MAX_ATTEMPTS = 30
MAX_BROKEN_ATTEMPTS = 5
"""Attempts that find damage. The cleaner may be between two renames, so that segments overlap."""


class SegmentsChanged(Exception):
    """The segments changed during the copy: try again."""


class WrongDirectory(BackupError):
    """The directory belongs to another topic than the broker's, or ends too early."""


class Bounds(NamedTuple):
    """The offsets of a partition that the broker serves."""

    start_offset: int
    high_watermark: int


class SegmentIdentity(NamedTuple):
    """Tells a segment file from every other, also from one with the same name."""

    inode: int
    size: int
    modified_ns: int
    changed_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> "SegmentIdentity":
        return cls(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


class Listing(NamedTuple):
    """The segments of a partition's directory by base offset, ascending."""

    directory_inode: int
    segments: Mapping[int, SegmentIdentity]

    def needed(self, bounds: Bounds) -> dict[int, SegmentIdentity]:
        """The segments that hold the offsets of `bounds`; an empty one at the end is included."""
        below = [base for base in self.segments if base <= bounds.start_offset]
        if not below:
            raise SegmentsChanged
        return {
            base: identity
            for base, identity in self.segments.items()
            if below[-1] <= base <= bounds.high_watermark
        }


class CopiedPartition(NamedTuple):
    start_offset: int
    end_offset: int
    gaps: list[Gap]
    files: tuple[BackupFile, ...]


def list_segments(directory: Path) -> Listing:
    """List the segments; SegmentsChanged if the cleaner is replacing some or one vanishes."""
    found: dict[int, SegmentIdentity] = {}
    try:
        inode = directory.stat().st_ino
        for name in sorted(os.listdir(directory)):
            if name.endswith(log_files.SWAP):
                raise SegmentsChanged
            parsed = log_files.parse_offset_name(name)
            if parsed is not None and parsed[1] == log_files.LOG:
                found[parsed[0]] = SegmentIdentity.of((directory / name).stat())
    except FileNotFoundError:
        raise SegmentsChanged from None
    return Listing(inode, found)


class PartitionCopy:
    """The copy of one partition. Segments that stay the same are copied once, however many attempts
    are needed. `bounds` asks the broker; `pause` waits between two attempts."""

    def __init__(
        self,
        partition: TopicPartition,
        topic_id: TopicId,
        data: Path,
        target: Path,
        *,
        bounds: Callable[[], Bounds],
        progress: Progress,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._partition = partition
        self._topic_id = topic_id
        self._source = data / str(partition)
        self._target = target / str(partition)
        self._bounds = bounds
        self._progress = progress
        self._pause = pause
        self._copied: dict[int, SegmentIdentity] = {}

    def run(self) -> CopiedPartition:
        """Copy the partition up to its high watermark; everything is on disk when this returns.

        BackupError if its log is damaged or changes during every attempt. KafkaError if the broker
        does not know the partition any more.
        """
        self._target.mkdir(parents=True)
        backoff = Backoff()
        broken = 0
        for _ in range(MAX_ATTEMPTS):
            try:
                return self._attempt()
            except SegmentsChanged:
                pass
            except BrokenChain as error:
                broken += 1
                if broken == MAX_BROKEN_ATTEMPTS:
                    raise self._damage(error) from error
            self._pause(backoff.next_ms() / 1_000)
            self._bounds()  # KafkaError if the topic was deleted
        raise BackupError(
            f"{self._source}: its segments changed during each of {MAX_ATTEMPTS} attempts to copy"
            " them; try again when the broker deletes fewer segments"
        )

    def _attempt(self) -> CopiedPartition:
        before = list_segments(self._source)
        # The bounds are asked after the listing: compaction may have removed a record because of a
        # later one, and that one is below the high watermark by now.
        bounds = self._bounds()
        needed = before.needed(bounds)
        self._copy(needed)
        chain = BatchChain(bounds.high_watermark, self._progress)
        failure: BackupError | None = None
        try:
            sizes = {base: chain.read(self._path(base)) for base in needed}
        except BrokenChain as error:
            failure = error
        else:
            failure = self._check_end(chain)
        self._check_unchanged(before, bounds)
        if failure is not None:
            raise failure
        return self._finish(chain, bounds, sizes)

    def _damage(self, error: BrokenChain) -> BackupError:
        """The error of a damaged log, with the place in the broker's file."""
        return BackupError(
            f"{self._source / error.path.name}: position {error.position}: {error.reason}; see"
            " `sawlog log verify`, or leave the topic out with --exclude"
        )

    def _path(self, base_offset: int) -> Path:
        return self._target / log_files.offset_name(base_offset, log_files.LOG)

    def _copy(self, needed: Mapping[int, SegmentIdentity]) -> None:
        """Make the target hold exactly these segments."""
        kept = {base for base, identity in needed.items() if self._copied.get(base) == identity}
        for path in self._target.iterdir():
            if int(path.stem) not in kept:
                path.unlink()
        self._copied = {base: needed[base] for base in kept}
        for base in needed.keys() - kept:
            self._copy_segment(base, needed[base])
            self._copied[base] = needed[base]

    def _copy_segment(self, base: int, identity: SegmentIdentity) -> None:
        try:
            source = (self._source / self._path(base).name).open("rb")
        except FileNotFoundError:
            raise SegmentsChanged from None
        with source, self._path(base).open("wb") as target:
            status = os.fstat(source.fileno())
            if status.st_ino != identity.inode:
                raise SegmentsChanged
            # The last segment may have grown since the listing; the high watermark counts that.
            if copy_file(source, target, status.st_size) < status.st_size:
                raise SegmentsChanged

    def _check_end(self, chain: BatchChain) -> BackupError | None:
        """Return the error of a log that is not the one that the broker serves."""
        stored_id = self._stored_topic_id()
        if stored_id is not None and stored_id != self._topic_id:
            return WrongDirectory(f"{self._source} belongs to another topic of the same name")
        if chain.next_offset != chain.limit_offset:
            return WrongDirectory(
                f"{self._source} holds offsets up to {chain.next_offset}, but the broker serves"
                f" offsets up to {chain.limit_offset}: either --data is not the data directory of"
                " this broker, or the log is damaged (see `sawlog log verify`)"
            )
        return None

    def _stored_topic_id(self) -> TopicId | None:
        """The topic id of the directory; None if the broker has not written it yet."""
        try:
            data = (self._source / log_files.PARTITION_METADATA).read_bytes()
            return log_files.decode_partition_metadata(data)
        except (FileNotFoundError, log_files.CorruptFile):
            return None

    def _check_unchanged(self, before: Listing, bounds: Bounds) -> None:
        """Raise SegmentsChanged unless the needed segments are still the same files. The last one
        may have grown."""
        after = list_segments(self._source)
        if after.directory_inode != before.directory_inode:
            raise SegmentsChanged
        old, new = before.needed(bounds), after.needed(bounds)
        rolled = {bounds.high_watermark}  # perhaps: a new segment with nothing to copy
        if old.keys() | rolled != new.keys() | rolled:
            raise SegmentsChanged
        for base, identity in old.items():
            now = new.get(base)
            may_grow = base == max(old)
            if now != identity and not (may_grow and now and now.inode == identity.inode):
                raise SegmentsChanged

    def _finish(
        self, chain: BatchChain, bounds: Bounds, sizes: Mapping[int, int]
    ) -> CopiedPartition:
        """Cut the segments at the high watermark and write the small files."""
        for base, size in sizes.items():
            if size < self._path(base).stat().st_size:
                truncate_file(self._path(base), size)
        # The broker's own file may have newer epochs; those of the copied batches are the same up
        # to here.
        chain.epochs.truncate_start(bounds.start_offset)
        write_new_file(
            self._target / log_files.EPOCH_CHECKPOINT,
            log_files.encode_epochs(chain.epochs.entries),
        )
        write_new_file(
            self._target / log_files.PARTITION_METADATA,
            log_files.encode_partition_metadata(self._topic_id),
        )
        sync_directory(self._target)
        names = sorted(os.listdir(self._target))
        files = tuple(
            BackupFile(name, (self._target / name).stat().st_size, sha256_of(self._target / name))
            for name in names
        )
        return CopiedPartition(bounds.start_offset, chain.next_offset, chain.gaps, files)
