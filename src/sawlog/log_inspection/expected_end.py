"""What other files say about a log, to be held against it: an emptied log has no fault of its own.

The recovery point says how far a log was flushed, a producer snapshot how far it had come, an
index that there was a segment. Read before the log, so that a broker at work is ahead of them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sawlog.log_inspection.segment_files import Damage
from sawlog.storage import log_files

_CLEANED = "cleaner-offset-checkpoint"
_INDEXES = (log_files.INDEX, log_files.TIME_INDEX)


class Promises(NamedTuple):
    """Of one partition's directory."""

    end: int  # the log reached at least this offset
    source: str  # who says so
    takes_gaps: bool  # compaction may have left out offsets between segments
    orphans: tuple[int, ...]  # base offsets of segments with an index and without a log


def read_promises(directory: Path) -> Promises:
    """OSError where the directory cannot be read."""
    names = (log_files.parse_offset_name(path.name) for path in directory.iterdir())
    named = [name for name in names if name is not None]
    logs = {base for base, suffix in named if suffix == log_files.LOG}
    indexed = {base for base, suffix in named if suffix in _INDEXES}
    flushed = _offset_in(directory, log_files.RECOVERY_POINTS)
    snapshot = max((base for base, suffix in named if suffix == log_files.SNAPSHOT), default=0)
    end, source = max((flushed or 0, log_files.RECOVERY_POINTS), (snapshot, "a producer snapshot"))
    takes_gaps = flushed is None or _offset_in(directory, _CLEANED) is not None
    return Promises(end, source, takes_gaps, tuple(sorted(indexed - logs)))


def missing_logs(directory: Path, orphans: tuple[int, ...]) -> Iterator[Damage]:
    """Those that are still missing: a broker may have deleted the rest of a segment meanwhile."""
    for base in orphans:
        log = directory / log_files.offset_name(base, log_files.LOG)
        indexes = (log.with_suffix(suffix) for suffix in _INDEXES)
        if not log.exists() and any(index.exists() for index in indexes):
            yield Damage(log, 0, base, "the log is gone; its index is still there")


def _offset_in(directory: Path, checkpoint: str) -> int | None:
    """What a checkpoint of the data directory says of a partition, where that is believable. One
    that is older than the partition speaks of another of the same name.
    """
    partition = log_files.parse_partition_directory(directory.name)
    path = directory.parent / checkpoint
    try:
        if partition is None or path.stat().st_mtime < _birth_s(directory):
            return None
        return log_files.decode_offsets(path.read_bytes()).get(partition)
    except (FileNotFoundError, log_files.CorruptFile):
        return None


def _birth_s(directory: Path) -> float:
    try:
        return (directory / log_files.PARTITION_METADATA).stat().st_mtime
    except FileNotFoundError:
        return 0.0
