"""`sawlog log`: what is in segment files, and whether it is sound. Reads the files themselves."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import click

from sawlog.cli.common_options import json_option
from sawlog.cli.exit_codes import FAILED
from sawlog.cli.output import counted, note, print_json, print_line, progress
from sawlog.cli.record_format import to_json_fields
from sawlog.core.errors import KafkaError
from sawlog.log_inspection.segment_files import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    Batch,
    Damage,
    Segment,
    find_segments,
    read_entries,
    walk,
)
from sawlog.log_inspection.verify import Findings
from sawlog.log_inspection.verify import verify as verify_segments
from sawlog.protocol.compression import Codec
from sawlog.protocol.records import Record, iterate

_MAX_DECOMPRESSED_BYTES = 1024 * 1024 * 1024
_CODECS = {int(codec): codec.name.lower() for codec in Codec}
_path = click.argument("path", metavar="DIR", type=click.Path(exists=True, path_type=Path))


@click.group()
def log() -> None:
    """Look into segment files, and check them. Works without a broker."""


@log.command()
@_path
@click.option("--records", "with_records", is_flag=True, help="The records too, not only batches.")
@click.option("--from", "first_offset", type=int, default=0, metavar="OFFSET", help="Start there.")
@click.option("-n", "--count", type=click.IntRange(1), help="Stop after so many.")
@json_option
def dump(
    path: Path, with_records: bool, first_offset: int, count: int | None, as_json: bool
) -> None:
    """Print the batches in segment files.

    DIR is a data directory, a partition's directory or one file. An .index or .timeindex file is
    printed entry by entry.
    """
    if path.suffix in {".index", ".timeindex"}:
        for entry in islice(_index_entries(path, first_offset), count):
            _print_entry(entry, as_json)
        return
    found = find_segments(path)
    for error in found.unreadable:
        raise error
    if not found.segments:
        raise _no_segments(path)
    for segment, batch in islice(_batches(found.segments, first_offset), count):
        _print_found(segment, batch, with_records, as_json)


@log.command()
@_path
@click.option("--headers-only", is_flag=True, help="Do not open batches: CRCs and offsets only.")
@json_option
def verify(path: Path, headers_only: bool, as_json: bool) -> None:
    """Check segment files and what belongs to them.

    DIR is a data directory, a partition's directory or one file. Exit code 1 where anything is
    damaged or cannot be read. Checkpoints of the data directory and producer snapshots tell how
    far a log must reach.

    A broker that runs meanwhile may show its unfinished last batch as damage.
    """
    found = find_segments(path)
    total = sum(segment.log.stat().st_size for segment in found.segments if segment.log.exists())
    with progress("verifying", total, unit="bytes") as bar:
        findings = verify_segments(found, open_batches=not headers_only, meter=bar)
    if not found.segments and not findings.damages:
        raise _no_segments(path)
    if as_json:
        print_json(_findings(findings))
    else:
        for damage in findings.damages:
            print_line(_damage_line(damage))
        counts = (
            counted(findings.segments, "segment"),
            counted(findings.batches, "sound batch", "sound batches"),
            counted(findings.records, "record"),
            counted(findings.log_bytes, "byte"),
            counted(len(findings.damages), "damage"),
        )
        print_line(", ".join(counts))
    if findings.damages:
        note(f"sawlog: {counted(len(findings.damages), 'damage')} found under {path}")
        click.get_current_context().exit(FAILED)


def _no_segments(path: Path) -> click.UsageError:
    return click.UsageError(
        f"{path} holds no segments; expected a data directory, a partition's directory or a file"
        " like 00000000000000000000.log"
    )


def _batches(
    segments: list[Segment], first_offset: int
) -> Iterator[tuple[Segment, Batch | Damage]]:
    for segment in segments:
        for found in walk(segment):
            if isinstance(found, Damage) or found.header.last_offset >= first_offset:
                yield segment, found


def _print_found(
    segment: Segment, found: Batch | Damage, with_records: bool, as_json: bool
) -> None:
    if isinstance(found, Damage):
        if as_json:
            print_json(_damage(found))
        else:
            print_line(_damage_line(found))
        return
    entry = _batch(segment, found)
    records: list[Record] = []
    if with_records and found.is_sound:
        try:
            records = list(iterate(found.data, max_decompressed_bytes=_MAX_DECOMPRESSED_BYTES))
        except KafkaError as error:
            entry["damage"] = str(error)
    if as_json and with_records:
        entry["records"] = [_record(record) for record in records]
    if as_json:
        records = []
    _print_entry(entry, as_json)
    for record in records:
        fields = (f"{name}={_shown(value)}" for name, value in _record(record).items())
        print_line(f"  {' '.join(fields)}")


def _print_entry(entry: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(entry)
    else:
        print_line(" ".join(f"{name}={value}" for name, value in entry.items()))


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _batch(segment: Segment, batch: Batch) -> dict[str, Any]:
    header = batch.header
    entry: dict[str, Any] = {
        "partition": segment.partition,
        "segment": segment.base_offset,
        "position": batch.position,
        "first_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.count,
        "bytes": header.size,
        "codec": _CODECS.get(header.codec, header.codec),
        "leader_epoch": header.leader_epoch,
        "max_timestamp": header.max_timestamp,
        "time": _time(header.max_timestamp),
        "timestamp_type": ("CreateTime", "LogAppendTime")[header.timestamp_type],
    }
    if header.has_producer:
        entry["producer"] = f"{header.producer_id}/{header.producer_epoch}"
        entry["sequences"] = f"{header.base_sequence}..{header.last_sequence}"
    if header.is_transactional:
        entry["transactional"] = True
    if header.is_control:
        entry["control"] = True
    entry["crc"] = "ok" if batch.is_sound else "wrong"
    return entry


def _record(record: Record) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        **to_json_fields(record.key, record.value, record.headers),
    }


def _index_entries(path: Path, first_offset: int) -> Iterator[dict[str, Any]]:
    base_offset = int(path.stem) if path.stem.isdecimal() else 0
    is_time = path.suffix == ".timeindex"
    for first, second in read_entries(path, TIME_ENTRY if is_time else OFFSET_ENTRY):
        offset = base_offset + (second if is_time else first)
        if offset < first_offset:
            continue
        if is_time:
            yield {"timestamp": first, "time": _time(first), "offset": offset}
        else:
            yield {"offset": offset, "position": second}


def _time(timestamp_ms: int) -> str | None:
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1_000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return moment.isoformat(timespec="milliseconds") if timestamp_ms >= 0 else None


def _findings(findings: Findings) -> dict[str, Any]:
    return {
        "segments": findings.segments,
        "batches": findings.batches,
        "records": findings.records,
        "bytes": findings.log_bytes,
        "damages": [_damage(damage) for damage in findings.damages],
    }


def _damage(damage: Damage) -> dict[str, Any]:
    return {
        "file": str(damage.path),
        "position": damage.position,
        "offset": damage.offset,
        "damage": damage.what,
    }


def _damage_line(damage: Damage) -> str:
    offset = "" if damage.offset is None else f" offset {damage.offset}"
    return f"{damage.path}: position {damage.position}{offset}: {damage.what}"
