"""`sawlog log verify`'s work: every batch of every segment, and the files beside them."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from sawlog.core.errors import KafkaError
from sawlog.log_inspection.expected_end import Promises, missing_logs, read_promises
from sawlog.log_inspection.segment_files import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    Batch,
    Damage,
    Found,
    Segment,
    read_entries,
    walk,
)
from sawlog.protocol.checksum import crc32c
from sawlog.protocol.records import iterate

_MAX_DECOMPRESSED_BYTES = 1024 * 1024 * 1024
_SNAPSHOT_CRC_START = 6  # after a version of two bytes and the CRC of four


@dataclass(slots=True)
class Findings:
    segments: int = 0
    batches: int = 0
    records: int = 0
    log_bytes: int = 0
    damages: list[Damage] = field(default_factory=list)


class Meter(Protocol):
    def advance(self, amount: int) -> None: ...


def verify(found: Found, *, open_batches: bool, meter: Meter) -> Findings:
    """`open_batches`: their records are decompressed and read too. What vanishes meanwhile is
    passed over: a broker that runs deletes what is too old, and topics.
    """
    findings = Findings()
    for error in found.unreadable:
        if not isinstance(error, FileNotFoundError):
            findings.damages.append(_unreadable(error, Path(error.filename), None))
    promises = _promises(found.partitions)
    ends: dict[Path, int] = {}  # next offset by partition directory
    for segment in found.segments:
        directory = segment.log.parent
        if directory in ends:
            promise = promises.get(directory)
            findings.damages += _check_joint(segment, ends[directory], promise)
        try:
            ends[directory] = _verify_segment(segment, findings, open_batches, meter)
        except FileNotFoundError:
            continue
        except OSError as error:
            findings.damages.append(_unreadable(error, segment.log, segment.base_offset))
    for directory, promise in promises.items():
        if not directory.exists():
            continue
        findings.damages += missing_logs(directory, promise.orphans)
        findings.damages += _check_end(directory, ends.get(directory), promise)
        findings.damages += _check_snapshots(directory)
    return findings


def _promises(directories: Iterable[Path]) -> dict[Path, Promises]:
    found: dict[Path, Promises] = {}
    for directory in directories:
        with suppress(FileNotFoundError):
            found[directory] = read_promises(directory)
    return found


def _unreadable(error: OSError, path: Path, offset: int | None) -> Damage:
    return Damage(path, 0, offset, f"cannot be read: {error.strerror or error}")


def _check_joint(segment: Segment, end: int, promise: Promises | None) -> Iterator[Damage]:
    """Between a segment and the one before, which ended at `end`."""
    base = segment.base_offset
    if base < end:
        text = f"the segment begins below {end}, where the one before ended"
        yield Damage(segment.log, 0, base, text)
    elif base > end and promise is not None and not promise.takes_gaps:
        text = f"the segment before ended at {end}: the offsets from there to {base} are missing"
        yield Damage(segment.log, 0, end, text)


def _check_end(directory: Path, end: int | None, promise: Promises) -> Iterator[Damage]:
    reached = 0 if end is None else end
    if reached < promise.end:
        text = f"the log ends at {reached}, but {promise.source} says that it reached {promise.end}"
        yield Damage(directory, 0, reached, text)


def _verify_segment(segment: Segment, findings: Findings, open_batches: bool, meter: Meter) -> int:
    """The log and the indexes beside it; the offset after the last sound batch."""
    sound: dict[int, Batch] = {}
    damages_before = len(findings.damages)
    end = _verify_log(segment, findings, sound, open_batches, meter)
    findings.segments += 1
    entries = read_entries(segment.sibling(".index"), OFFSET_ENTRY)
    if entries and not sound and len(findings.damages) == damages_before:
        indexed = "1 entry" if len(entries) == 1 else f"{len(entries)} entries"
        text = f"the log holds no batch, but its index has {indexed}"
        findings.damages.append(Damage(segment.log, 0, segment.base_offset, text))
        return end
    findings.damages += _first_of(_check_offset_index(segment, entries, sound))
    findings.damages += _first_of(_check_time_index(segment, end))
    return end


def _first_of(damages: Iterator[Damage]) -> list[Damage]:
    """One for a whole index, which is made again as a whole."""
    found = list(damages)
    if len(found) < 2:
        return found
    more = len(found) - 1
    others = "1 entry more is wrong" if more == 1 else f"{more} entries more are wrong"
    return [found[0]._replace(what=f"{found[0].what}; {others}")]


def _verify_log(
    segment: Segment,
    findings: Findings,
    sound: dict[int, Batch],
    open_batches: bool,
    meter: Meter,
) -> int:
    """Judges the batches; keeps the places of those that are sound; the offset after the last."""
    next_offset = segment.base_offset
    for found in walk(segment):
        if isinstance(found, Damage):
            findings.damages.append(found)
            continue
        header = found.header
        findings.log_bytes += header.size
        meter.advance(header.size)
        wrong = _fault(found, next_offset, open_batches)
        if wrong:
            offset = header.base_offset if header.base_offset >= next_offset else next_offset
            findings.damages.append(Damage(segment.log, found.position, offset, wrong))
            continue
        sound[found.position] = found._replace(data=b"")
        findings.batches += 1
        findings.records += header.count
        next_offset = header.next_offset
    return next_offset


def _fault(batch: Batch, next_offset: int, open_batches: bool) -> str | None:
    header = batch.header
    if not batch.is_sound:
        return f"a batch of {header.size} bytes that does not match its CRC {header.crc:#010x}"
    if header.base_offset < next_offset:
        return f"a batch at the offset {header.base_offset}, after one that ended at {next_offset}"
    if header.last_offset_delta < 0 or header.count < 0:
        return f"{header.count} records up to the offset delta {header.last_offset_delta}"
    if not open_batches:
        return None
    last = header.base_offset - 1
    try:
        for record in iterate(batch.data, max_decompressed_bytes=_MAX_DECOMPRESSED_BYTES):
            if not last < record.offset <= header.last_offset:
                return f"a record at the offset {record.offset} after {last}"
            last = record.offset
    except KafkaError as error:
        return f"records that cannot be read: {error}"
    return None


def _check_offset_index(
    segment: Segment, entries: list[tuple[int, int]], sound: dict[int, Batch]
) -> Iterator[Damage]:
    """Each entry points at a batch that begins at its offset or below."""
    path = segment.sibling(".index")
    before = (-1, -1)
    for place, entry in enumerate(entries):
        relative, position = entry
        offset = segment.base_offset + relative
        batch = sound.get(position)
        if relative <= before[0] or position <= before[1]:
            yield Damage(path, place * OFFSET_ENTRY.size, offset, "entries that do not rise")
            return
        before = entry
        if batch is None or batch.header.base_offset > offset:
            text = f"an entry for position {position}, where no sound batch of it begins"
            yield Damage(path, place * OFFSET_ENTRY.size, offset, text)


def _check_time_index(segment: Segment, end_offset: int) -> Iterator[Damage]:
    path = segment.sibling(".timeindex")
    before = (-1, -1)
    for place, entry in enumerate(read_entries(path, TIME_ENTRY)):
        timestamp, relative = entry
        offset = segment.base_offset + relative
        if timestamp < before[0] or relative < before[1]:
            yield Damage(path, place * TIME_ENTRY.size, offset, "entries that do not rise")
            return
        before = entry
        if not segment.base_offset <= offset < max(end_offset, segment.base_offset + 1):
            text = f"an entry for the offset {offset}, which the segment does not hold"
            yield Damage(path, place * TIME_ENTRY.size, offset, text)


def _check_snapshots(directory: Path) -> Iterator[Damage]:
    for path in sorted(directory.glob("*.snapshot")):
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            continue
        except OSError as error:
            yield _unreadable(error, path, None)
            continue
        stated = int.from_bytes(data[2:_SNAPSHOT_CRC_START], "big")
        if len(data) < _SNAPSHOT_CRC_START or crc32c(data[_SNAPSHOT_CRC_START:]) != stated:
            yield Damage(path, 0, None, "a producer snapshot that does not match its CRC")
