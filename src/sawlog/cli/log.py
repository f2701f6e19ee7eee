"""`sawlog log`: dump and verify segment files, without a broker."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import click

from sawlog.cli.exit_codes import FAILED
from sawlog.cli.option_types import json_option
from sawlog.cli.output import counted, note, print_json, print_line, progress
from sawlog.cli.record_format import to_json_fields
from sawlog.core.errors import KafkaError
from sawlog.log_inspection.log_verifier import MAX_DECOMPRESSED_BYTES, Verification, verify_logs
from sawlog.log_inspection.segment_reader import (
    Problem,
    SegmentFile,
    StoredBatch,
    find_segments,
    read_batches,
    read_index_entries,
)
from sawlog.log_inspection.transaction_checks import marker_of, read_transaction_index
from sawlog.protocol.compression import Codec
from sawlog.protocol.records import Record, iterate
from sawlog.storage.log_files import TRANSACTION_INDEX
from sawlog.storage.sparse_index import OFFSET_ENTRY, TIME_ENTRY

_CODECS = {int(codec): codec.name.lower() for codec in Codec}
_path = click.argument("path", metavar="PATH", type=click.Path(exists=True, path_type=Path))


@click.group()
def log() -> None:
    """Dump and verify segment files, without a broker."""


@log.command()
@_path
@click.option("--records", "with_records", is_flag=True, help="Print the records of each batch.")
@click.option(
    "--from", "first_offset", type=int, default=0, metavar="OFFSET", help="Start at this offset."
)
@click.option(
    "-n", "--count", type=click.IntRange(1), help="Stop after this many batches or index entries."
)
@json_option
def dump(
    path: Path, with_records: bool, first_offset: int, count: int | None, as_json: bool
) -> None:
    """Print the batches of segment files, or the entries of an index.

    PATH is a data directory, a partition directory, or a .log, .index, .timeindex or .txnindex
    file.
    """
    if path.suffix == TRANSACTION_INDEX:
        for entry in islice(_aborted_transactions(path, first_offset), count):
            _print_entry(entry, as_json)
        return
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
@click.option("--headers-only", is_flag=True, help="Check CRCs and offsets, but not the records.")
@json_option
def verify(path: Path, headers_only: bool, as_json: bool) -> None:
    """Verify segment files, their indexes and producer snapshots.

    PATH is a data directory, a partition directory or a .log file. Each log must reach its recovery
    point and its producer snapshots. Exit code 1 if a file is corrupt or cannot be read.

    While a broker is running, a batch that it is writing may be reported as truncated.
    """
    found = find_segments(path)
    total = sum(segment.log.stat().st_size for segment in found.segments if segment.log.exists())
    with progress("verifying", total, unit="bytes") as bar:
        result = verify_logs(found, read_records=not headers_only, progress=bar)
    if not found.segments and not result.problems:
        raise _no_segments(path)
    if as_json:
        print_json(_verification(result))
    else:
        for problem in result.problems:
            print_line(_problem_line(problem))
        counts = (
            counted(result.segments, "segment"),
            counted(result.batches, "valid batch", "valid batches"),
            counted(result.records, "record"),
            counted(result.log_bytes, "byte"),
            counted(len(result.problems), "problem"),
        )
        print_line(", ".join(counts))
    if result.problems:
        note(f"sawlog: {counted(len(result.problems), 'problem')} found in {path}")
        click.get_current_context().exit(FAILED)


def _no_segments(path: Path) -> click.UsageError:
    return click.UsageError(
        f"{path} has no segments; expected a data directory, a partition directory or a file like"
        " 00000000000000000000.log"
    )


def _batches(
    segments: list[SegmentFile], first_offset: int
) -> Iterator[tuple[SegmentFile, StoredBatch | Problem]]:
    for segment in segments:
        for found in read_batches(segment):
            if isinstance(found, Problem) or found.header.last_offset >= first_offset:
                yield segment, found


def _print_found(
    segment: SegmentFile, found: StoredBatch | Problem, with_records: bool, as_json: bool
) -> None:
    if isinstance(found, Problem):
        if as_json:
            print_json(_problem(found))
        else:
            print_line(_problem_line(found))
        return
    entry = _batch(segment, found)
    records: list[Record] = []
    if with_records and found.has_valid_crc:
        try:
            records = list(iterate(found.data, max_decompressed_bytes=MAX_DECOMPRESSED_BYTES))
        except KafkaError as error:
            entry["problem"] = str(error)
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


def _batch(segment: SegmentFile, batch: StoredBatch) -> dict[str, Any]:
    header = batch.header
    entry: dict[str, Any] = {
        "partition": segment.partition,
        "segment": segment.base_offset,
        "position": batch.position,
        "base_offset": header.base_offset,
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
        marker = marker_of(batch) if batch.has_valid_crc else None
        if marker is not None:
            entry["marker"] = marker.control_type.name
            entry["coordinator_epoch"] = marker.coordinator_epoch
    entry["crc"] = "ok" if batch.has_valid_crc else "wrong"
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
    for first, second in read_index_entries(path, TIME_ENTRY if is_time else OFFSET_ENTRY):
        offset = base_offset + (second if is_time else first)
        if offset < first_offset:
            continue
        if is_time:
            yield {"timestamp": first, "time": _time(first), "offset": offset}
        else:
            yield {"offset": offset, "position": second}


def _aborted_transactions(path: Path, first_offset: int) -> Iterator[dict[str, Any]]:
    for version, aborted in read_transaction_index(path):
        if aborted.last_offset >= first_offset:
            yield {"version": version, **aborted._asdict()}


def _time(timestamp_ms: int) -> str | None:
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1_000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return moment.isoformat(timespec="milliseconds") if timestamp_ms >= 0 else None


def _verification(result: Verification) -> dict[str, Any]:
    return {
        "segments": result.segments,
        "batches": result.batches,
        "records": result.records,
        "bytes": result.log_bytes,
        "problems": [_problem(problem) for problem in result.problems],
    }


def _problem(problem: Problem) -> dict[str, Any]:
    return {
        "file": str(problem.path),
        "position": problem.position,
        "offset": problem.offset,
        "problem": problem.reason,
    }


def _problem_line(problem: Problem) -> str:
    offset = "" if problem.offset is None else f" offset {problem.offset}"
    return f"{problem.path}: position {problem.position}{offset}: {problem.reason}"
