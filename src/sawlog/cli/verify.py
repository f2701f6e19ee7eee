"""`sawlog log verify`'s work: every batch of every segment, and the files beside them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from crc32c import crc32c

from sawlog.cli.segments import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    Batch,
    Damage,
    Segment,
    read_entries,
    walk,
)
from sawlog.core.errors import KafkaError
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


def verify(segments: list[Segment], *, open_batches: bool, meter: Meter) -> Findings:
    """`open_batches`: their records are decompressed and read too."""
    findings = Findings()
    ends: dict[Path, int] = {}  # next offset by partition directory
    for segment in segments:
        directory = segment.log.parent
        expected = ends.get(directory, segment.base_offset)
        if segment.base_offset < expected:
            text = f"the segment begins below {expected}, where the one before ended"
            findings.damages.append(Damage(segment.log, 0, segment.base_offset, text))
        sound: dict[int, Batch] = {}
        try:
            ends[directory] = _verify_log(segment, findings, sound, open_batches, meter)
        except FileNotFoundError:
            continue  # a broker that runs meanwhile may delete what is too old
        findings.segments += 1
        findings.damages += _check_offset_index(segment, sound)
        findings.damages += _check_time_index(segment, ends[directory])
    for directory in ends:
        findings.damages += _check_snapshots(directory)
    return findings


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


def _check_offset_index(segment: Segment, sound: dict[int, Batch]) -> Iterator[Damage]:
    """Each entry points at a batch that begins at its offset or below."""
    path = segment.sibling(".index")
    before = (-1, -1)
    for place, entry in enumerate(read_entries(path, OFFSET_ENTRY)):
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
        data = path.read_bytes()
        stated = int.from_bytes(data[2:_SNAPSHOT_CRC_START], "big")
        if len(data) < _SNAPSHOT_CRC_START or crc32c(data[_SNAPSHOT_CRC_START:]) != stated:
            yield Damage(path, 0, None, "a producer snapshot that does not match its CRC")
