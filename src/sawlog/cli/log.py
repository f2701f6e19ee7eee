"""`sawlog log`: what is in segment files, and whether it is sound. Reads the files themselves."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from sawlog.cli.failures import FAILED
from sawlog.cli.options import json_option
from sawlog.cli.output import note, print_json, progress, reader_may_leave
from sawlog.cli.record_lines import to_json_fields
from sawlog.cli.segments import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    Batch,
    Damage,
    Segment,
    find_segments,
    read_entries,
    walk,
)
from sawlog.cli.verify import Findings
from sawlog.cli.verify import verify as verify_segments
from sawlog.core.errors import KafkaError
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
@click.option("-n", "--count", type=click.IntRange(1), help="Stop after so many batches.")
@json_option
def dump(
    path: Path, with_records: bool, first_offset: int, count: int | None, as_json: bool
) -> None:
    """Print the batches of a data directory, a partition's directory or one file.

    An .index or .timeindex file is printed entry by entry.
    """
    with reader_may_leave():
        if path.suffix in {".index", ".timeindex"}:
            _dump_index(path, as_json)
            return
        left = count
        for segment in _segments(path):
            for found in walk(segment):
                if isinstance(found, Batch) and found.header.last_offset < first_offset:
                    continue
                if left == 0:
                    return
                _print_found(segment, found, with_records, as_json)
                left = None if left is None else left - 1


@log.command()
@_path
@click.option("--headers-only", is_flag=True, help="Do not open batches: CRCs and offsets only.")
@json_option
def verify(path: Path, headers_only: bool, as_json: bool) -> None:
    """Check segments, indexes and snapshots; exit code 1 where anything is damaged.

    A broker that runs meanwhile may show its unfinished last batch as damage.
    """
    segments = _segments(path)
    total = sum(segment.log.stat().st_size for segment in segments if segment.log.exists())
    with progress("verifying", total, unit="bytes") as bar:
        findings = verify_segments(segments, open_batches=not headers_only, meter=bar)
    if as_json:
        print_json(_findings(findings))
    else:
        for damage in findings.damages:
            click.echo(_damage_line(damage))
        click.echo(
            f"{findings.segments} segments, {findings.batches} sound batches,"
            f" {findings.records} records, {findings.log_bytes} bytes,"
            f" {len(findings.damages)} damages"
        )
    if findings.damages:
        note(f"sawlog: {len(findings.damages)} damages found under {path}")
        click.get_current_context().exit(FAILED)


def _segments(path: Path) -> list[Segment]:
    segments = find_segments(path)
    if not segments:
        raise click.UsageError(
            f"{path} holds no segments; expected a data directory, a partition's directory or a"
            " file like 00000000000000000000.log"
        )
    return segments


def _print_found(
    segment: Segment, found: Batch | Damage, with_records: bool, as_json: bool
) -> None:
    if isinstance(found, Damage):
        if as_json:
            print_json(_damage(found))
        else:
            click.echo(_damage_line(found))
        return
    entry = _batch(segment, found)
    records: list[Record] = []
    if with_records and found.is_sound:
        try:
            records = list(iterate(found.data, max_decompressed_bytes=_MAX_DECOMPRESSED_BYTES))
        except KafkaError as error:
            entry["damage"] = str(error)
    if as_json:
        if with_records:
            entry["records"] = [_record(record) for record in records]
        print_json(entry)
        return
    click.echo(" ".join(f"{name}={value}" for name, value in entry.items()))
    for record in records:
        fields = " ".join(f"{name}={value!r}" for name, value in _record(record).items())
        click.echo(f"  {fields}")


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


def _dump_index(path: Path, as_json: bool) -> None:
    base_offset = int(path.stem) if path.stem.isdecimal() else 0
    is_time = path.suffix == ".timeindex"
    for first, second in read_entries(path, TIME_ENTRY if is_time else OFFSET_ENTRY):
        entry = (
            {"timestamp": first, "time": _time(first), "offset": base_offset + second}
            if is_time
            else {"offset": base_offset + first, "position": second}
        )
        if as_json:
            print_json(entry)
        else:
            click.echo(" ".join(f"{name}={value}" for name, value in entry.items()))


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
