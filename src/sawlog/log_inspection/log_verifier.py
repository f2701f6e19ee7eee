"""Verify the files of partitions: batches, indexes, producer snapshots, and the end of each log.

A log that was emptied or cut at a batch looks valid by itself. So its end is compared with the
recovery point and the producer snapshots, and its `.log` files with the indexes. These are read
before the log, because a running broker only moves ahead of them.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from sawlog.core.errors import KafkaError
from sawlog.log_inspection.segment_reader import (
    FoundSegments,
    Problem,
    SegmentFile,
    StoredBatch,
    read_batches,
    read_index_entries,
)
from sawlog.log_inspection.transaction_checks import TransactionChecks
from sawlog.protocol.records import iterate
from sawlog.storage import log_files
from sawlog.storage.producer_state import ProducerStates
from sawlog.storage.sparse_index import OFFSET_ENTRY, TIME_ENTRY

MAX_DECOMPRESSED_BYTES = 1024 * 1024 * 1024
_CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
_INDEXES = (log_files.INDEX, log_files.TIME_INDEX)


@dataclass(slots=True)
class Verification:
    """Counts of what was read, and the problems found."""

    segments: int = 0
    batches: int = 0
    records: int = 0
    log_bytes: int = 0
    problems: list[Problem] = field(default_factory=list)


class Progress(Protocol):
    def advance(self, amount: int) -> None: ...


class ExpectedLog(NamedTuple):
    """What the other files of a partition say about its log."""

    end: int  # the log reached at least this offset
    source: str  # the file that says so
    may_have_gaps: bool  # compaction may have removed offsets between segments
    missing_logs: tuple[int, ...]  # base offsets of segments with an index but no `.log` file


def verify_logs(found: FoundSegments, *, read_records: bool, progress: Progress) -> Verification:
    """Verify segments and their partitions; `read_records` also decompresses and parses records.

    Files that disappear meanwhile are ignored: a running broker deletes old segments and topics.
    """
    result = Verification()
    for error in found.unreadable:
        if not isinstance(error, FileNotFoundError):
            result.problems.append(_unreadable(error, Path(error.filename), None))
    expected = _expected_logs(found.partitions)
    ends: dict[Path, int] = {}  # next offset by partition directory
    transactions: dict[Path, TransactionChecks] = {}
    for segment in found.segments:
        directory = segment.log.parent
        if directory in ends:
            result.problems += _check_gap(segment, ends[directory], expected.get(directory))
        try:
            checks = transactions.setdefault(directory, TransactionChecks())
            ends[directory] = _verify_segment(segment, result, read_records, progress, checks)
        except FileNotFoundError:
            continue
        except OSError as error:
            result.problems.append(_unreadable(error, segment.log, segment.base_offset))
    for directory, log in expected.items():
        if not directory.exists():
            continue
        result.problems += _check_missing_logs(directory, log.missing_logs)
        result.problems += _check_end(directory, ends.get(directory), log)
        result.problems += _check_snapshots(directory)
    return result


def _expected_logs(directories: Iterable[Path]) -> dict[Path, ExpectedLog]:
    found: dict[Path, ExpectedLog] = {}
    for directory in directories:
        with suppress(FileNotFoundError):
            found[directory] = _read_expected_log(directory)
    return found


def _read_expected_log(directory: Path) -> ExpectedLog:
    parsed = (log_files.parse_offset_name(path.name) for path in directory.iterdir())
    names = [name for name in parsed if name is not None]
    logs = {base for base, suffix in names if suffix == log_files.LOG}
    indexed = {base for base, suffix in names if suffix in _INDEXES}
    recovery_point = _checkpointed_offset(directory, log_files.RECOVERY_POINTS)
    snapshot = max((base for base, suffix in names if suffix == log_files.SNAPSHOT), default=0)
    end, source = max(
        (recovery_point or 0, log_files.RECOVERY_POINTS), (snapshot, "a producer snapshot")
    )
    was_cleaned = _checkpointed_offset(directory, _CLEANER_CHECKPOINT) is not None
    may_have_gaps = recovery_point is None or was_cleaned
    return ExpectedLog(end, source, may_have_gaps, tuple(sorted(indexed - logs)))


def _checkpointed_offset(directory: Path, checkpoint: str) -> int | None:
    """Return the offset that a checkpoint file has for a partition.

    A checkpoint older than the partition is about a deleted topic of the same name: None.
    """
    partition = log_files.parse_partition_directory(directory.name)
    path = directory.parent / checkpoint
    try:
        if partition is None or path.stat().st_mtime < _created_s(directory):
            return None
        return log_files.decode_offsets(path.read_bytes()).get(partition)
    except (FileNotFoundError, log_files.CorruptFile):
        return None


def _created_s(directory: Path) -> float:
    try:
        return (directory / log_files.PARTITION_METADATA).stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _unreadable(error: OSError, path: Path, offset: int | None) -> Problem:
    return Problem(path, 0, offset, f"cannot be read: {error.strerror or error}")


def _check_missing_logs(directory: Path, base_offsets: tuple[int, ...]) -> Iterator[Problem]:
    """Yield segments that still have an index but no log: a broker may be deleting them."""
    for base in base_offsets:
        log = directory / log_files.offset_name(base, log_files.LOG)
        indexes = (log.with_suffix(suffix) for suffix in _INDEXES)
        if not log.exists() and any(index.exists() for index in indexes):
            yield Problem(log, 0, base, "the log file is missing, but its index exists")


def _check_gap(segment: SegmentFile, end: int, expected: ExpectedLog | None) -> Iterator[Problem]:
    """Compare a segment's base offset with the end of the previous segment."""
    base = segment.base_offset
    if base < end:
        reason = f"the segment starts below {end}, the end of the previous segment"
        yield Problem(segment.log, 0, base, reason)
    elif base > end and expected is not None and not expected.may_have_gaps:
        reason = f"offsets {end} to {base - 1} are missing between this segment and the previous"
        yield Problem(segment.log, 0, end, reason)


def _check_end(directory: Path, end: int | None, expected: ExpectedLog) -> Iterator[Problem]:
    reached = 0 if end is None else end
    if reached < expected.end:
        reason = f"the log ends at {reached}, but {expected.source} has offset {expected.end}"
        yield Problem(directory, 0, reached, reason)


def _verify_segment(
    segment: SegmentFile,
    result: Verification,
    read_records: bool,
    progress: Progress,
    transactions: TransactionChecks,
) -> int:
    """Verify a log file and its indexes; return the offset after the last valid batch."""
    valid: dict[int, StoredBatch] = {}
    problems_before = len(result.problems)
    end = _verify_batches(segment, result, valid, read_records, progress, transactions)
    result.segments += 1
    entries = read_index_entries(segment.sibling(log_files.INDEX), OFFSET_ENTRY)
    if entries and not valid and len(result.problems) == problems_before:
        count = "1 entry" if len(entries) == 1 else f"{len(entries)} entries"
        reason = f"the log file has no batches, but its index has {count}"
        result.problems.append(Problem(segment.log, 0, segment.base_offset, reason))
        return end
    result.problems += _summarize(_check_offset_index(segment, entries, valid))
    result.problems += _summarize(_check_time_index(segment, end))
    result.problems += _summarize(transactions.end_segment(segment, end))
    return end


def _summarize(problems: Iterator[Problem]) -> list[Problem]:
    """Reduce the problems of an index to the first: an index is rebuilt as a whole."""
    found = list(problems)
    if len(found) < 2:
        return found
    more = len(found) - 1
    others = "1 more invalid entry" if more == 1 else f"{more} more invalid entries"
    return [found[0]._replace(reason=f"{found[0].reason}; {others}")]


def _verify_batches(
    segment: SegmentFile,
    result: Verification,
    valid: dict[int, StoredBatch],
    read_records: bool,
    progress: Progress,
    transactions: TransactionChecks,
) -> int:
    """Check each batch, add valid ones to `valid` by position; return the offset after the last."""
    next_offset = segment.base_offset
    for found in read_batches(segment):
        if isinstance(found, Problem):
            result.problems.append(found)
            continue
        header = found.header
        result.log_bytes += header.size
        progress.advance(header.size)
        reason = _batch_error(found, next_offset, read_records)
        if reason:
            offset = max(header.base_offset, next_offset)
            result.problems.append(Problem(segment.log, found.position, offset, reason))
            continue
        transactions.see(found)
        valid[found.position] = found._replace(data=b"")
        result.batches += 1
        result.records += header.count
        next_offset = header.next_offset
    return next_offset


def _batch_error(batch: StoredBatch, next_offset: int, read_records: bool) -> str | None:
    header = batch.header
    if not batch.has_valid_crc:
        return f"batch of {header.size} bytes does not match its CRC {header.crc:#010x}"
    if header.base_offset < next_offset:
        return f"batch offset {header.base_offset} is below {next_offset}, the previous batch's end"
    if header.last_offset_delta < 0 or header.count < 0:
        return f"batch has {header.count} records and last offset delta {header.last_offset_delta}"
    if not read_records:
        return None
    last = header.base_offset - 1
    try:
        for record in iterate(batch.data, max_decompressed_bytes=MAX_DECOMPRESSED_BYTES):
            if not last < record.offset <= header.last_offset:
                return f"record offset {record.offset} follows {last}"
            last = record.offset
    except KafkaError as error:
        return f"records cannot be read: {error}"
    return None


def _check_offset_index(
    segment: SegmentFile, entries: list[tuple[int, int]], valid: dict[int, StoredBatch]
) -> Iterator[Problem]:
    """Check that entries ascend and that each points to a batch at or below its offset."""
    path = segment.sibling(log_files.INDEX)
    previous = (-1, -1)
    for number, entry in enumerate(entries):
        relative, position = entry
        offset = segment.base_offset + relative
        batch = valid.get(position)
        if relative <= previous[0] or position <= previous[1]:
            yield Problem(path, number * OFFSET_ENTRY.size, offset, "entries do not ascend")
            return
        previous = entry
        if batch is None or batch.header.base_offset > offset:
            reason = f"entry points to position {position}, where no valid batch for it starts"
            yield Problem(path, number * OFFSET_ENTRY.size, offset, reason)


def _check_time_index(segment: SegmentFile, end_offset: int) -> Iterator[Problem]:
    """Check that entries ascend and that their offsets are in the segment."""
    path = segment.sibling(log_files.TIME_INDEX)
    previous = (-1, -1)
    for number, entry in enumerate(read_index_entries(path, TIME_ENTRY)):
        timestamp, relative = entry
        offset = segment.base_offset + relative
        if timestamp < previous[0] or relative < previous[1]:
            yield Problem(path, number * TIME_ENTRY.size, offset, "entries do not ascend")
            return
        previous = entry
        if not segment.base_offset <= offset < max(end_offset, segment.base_offset + 1):
            reason = f"entry has offset {offset}, which is not in the segment"
            yield Problem(path, number * TIME_ENTRY.size, offset, reason)


def _check_snapshots(directory: Path) -> Iterator[Problem]:
    for path in sorted(directory.glob(f"*{log_files.SNAPSHOT}")):
        try:
            ProducerStates().load(path.read_bytes())
        except FileNotFoundError:
            continue
        except OSError as error:
            yield _unreadable(error, path, None)
        except log_files.CorruptFile as error:
            yield Problem(path, 0, None, f"invalid producer snapshot: {error}")
