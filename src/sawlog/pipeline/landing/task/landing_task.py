"""A landing task: read ranges, parse the values, write data files, and report them.

Memory is bounded by the fetch size and the write buffers, not by the ranges. Nothing counts before
the driver commits it, so a task may die, or run twice, at any time.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from sawlog.client.arrow.offset_range import Chunk, OffsetsLost, read_range
from sawlog.client.net.cluster import Cluster
from sawlog.core.ids import NO_TOPIC_ID, TopicId, TopicPartition
from sawlog.pipeline.delta.delta_types import from_json, stored_schema, to_json
from sawlog.pipeline.delta.errors import SchemaMismatch
from sawlog.pipeline.delta.parquet_writer import FileWriter
from sawlog.pipeline.delta.partitioning import is_lost, parse
from sawlog.pipeline.delta.schema_evolution import evolved_schema
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.delta.table_path import NO_OPTIONS, StorageOptions, TablePath, table_path
from sawlog.pipeline.delta.table_storage import open_storage
from sawlog.pipeline.formats import parser, parser_input
from sawlog.pipeline.formats.landed_rows import (
    USUAL,
    RecordColumns,
    assemble,
    dead_rows,
)
from sawlog.pipeline.formats.parsed import Format, Parsed, reject_rows
from sawlog.pipeline.formats.schema_inference import merge
from sawlog.pipeline.formats.tombstones import land_tombstones
from sawlog.pipeline.landing.configuration.declared_columns import (
    declared_schema,
    format_of,
    generated_columns,
    initial_schema,
    parser_schema,
)
from sawlog.pipeline.landing.configuration.pipeline_config import (
    CommitBounds,
    LandedTable,
    PipelineConfig,
    Upsert,
)
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure
from sawlog.pipeline.landing.task.keyed_records import ChunkChanges, KeyedRecords
from sawlog.pipeline.landing.task.task_report import TaskReport
from sawlog.pipeline.landing.topic_check import data_loss
from sawlog.pipeline.registry.registry_url import RegistryUrl
from sawlog.pipeline.source.batch_planning import OffsetRange
from sawlog.pipeline.source.executor_check import ExecutorDiffers, check_here, versions_here

_RAW_COLUMNS = ("offset", "timestamp", "key", "value")
_ALL_COLUMNS = (*_RAW_COLUMNS, "headers")  # a dead letter has the whole record

ReadChunks = Callable[[Sequence[OffsetRange]], Iterator[tuple[TopicPartition, Chunk]]]
"""Reads the records of ranges, chunk by chunk."""


@dataclass(frozen=True)
class LandingParameters:
    """The parameters that all tasks of a table share; small, sent with each task.

    The paths carry the options of the lake, and the format those of a registry, credentials among
    them, in a pickle but not in JSON.
    """

    brokers: str
    topics: Mapping[str, bytes]  # with their ids
    group: str
    path: TablePath
    dead_path: TablePath
    format: Format
    columns: str | None  # declared columns of values as JSON; None: inferred
    partition_by: tuple[str, ...]
    read_committed: bool
    bounds: CommitBounds
    record_columns: RecordColumns = USUAL
    versions: Mapping[str, str] = field(default_factory=dict)
    upsert: Upsert | None = None

    def to_json(self) -> str:
        return json.dumps(
            {
                **asdict(self),
                "topics": {name: topic_id.hex() for name, topic_id in self.topics.items()},
            }
        )


def landing_parameters(
    pipeline: PipelineConfig, config: LandedTable, topics: Mapping[str, bytes]
) -> LandingParameters:
    columns = declared_schema(config)
    return LandingParameters(
        brokers=pipeline.brokers,
        topics=topics,
        group=config.group,
        path=table_path(config.path),
        dead_path=table_path(config.dead_path),
        format=format_of(config),
        columns=None if columns is None else columns_text(initial_schema(config)),
        partition_by=config.partition_by,
        read_committed=config.read_committed,
        bounds=config.commit,
        record_columns=config.columns,
        versions=versions_here(),
        upsert=config.upsert,
    )


def read_parameters(
    text: str, options: StorageOptions = NO_OPTIONS, registry_options: StorageOptions = NO_OPTIONS
) -> LandingParameters:
    """Decode the JSON; `options` are those of the lake."""
    fields: dict[str, Any] = json.loads(text)
    urls = {
        name: RegistryUrl(url, registry_options)
        for name in ("registry", "key_registry")
        if (url := fields["format"][name]) is not None
    }
    format_ = Format(**{**fields["format"], **urls})
    upsert = fields["upsert"]
    return LandingParameters(
        **{
            **fields,
            "topics": {name: bytes.fromhex(text) for name, text in fields["topics"].items()},
            "path": TablePath(fields["path"], options),
            "dead_path": TablePath(fields["dead_path"], options),
            "format": format_,
            "partition_by": tuple(fields["partition_by"]),
            "bounds": CommitBounds(**fields["bounds"]),
            "record_columns": RecordColumns(**fields["record_columns"]),
            "upsert": upsert and Upsert(**{**upsert, "key": tuple(upsert["key"])}),
        }
    )


def columns_text(schema: pa.Schema) -> str:
    return to_json(stored_schema(schema))


def current_columns(parameters: LandingParameters) -> str:
    """The columns that bind the parser: those of the file, or those of the table by now."""
    return (
        columns_text(Table.open(parameters.path).schema)
        if parameters.columns is None
        else parameters.columns
    )


def land_ranges(
    parameters: LandingParameters,
    columns: str,
    ranges: Sequence[OffsetRange],
    *,
    columns_are_final: bool = False,
    read: ReadChunks | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> TaskReport:
    """Run one task; `columns` are those of the table as JSON.

    With `columns_are_final` they include the new columns of these ranges; none is inferred. `read`
    returns the records, by default those that the brokers have; then `progress` is called with the
    number of offsets that are read and written.
    """
    try:
        check_here(parameters.versions)
    except ExecutorDiffers as error:
        raise LandingFailure(FailureKind.INVALID, str(error)) from error
    landing = _Landing(parameters, from_json(columns), read, progress)
    report = landing.attempt(ranges, columns_are_final=columns_are_final)
    if report is None:  # types of new fields conflicted; now all are known
        report = landing.attempt(ranges, columns_are_final=True)
    assert report is not None, f"{parameters.path}: types that were merged do not fit"
    return report


def merge_inferred(known: pa.Schema, found: Sequence[pa.Schema]) -> pa.Schema:
    """A schema with which all rows can be parsed.

    Known columns keep their type; of names that differ only in case the first is kept.
    """
    return stored_schema(merge(known, *found).schema)


class _Part(NamedTuple):
    partition: TopicPartition
    records: pa.RecordBatch
    parsed: Parsed
    fetched_bytes: int  # of the whole chunk, counted with its first part
    changes: ChunkChanges | None = None  # of the whole chunk, with its first part


class _Changes(NamedTuple):
    records: int  # that become rows or deletes
    rows: pa.RecordBatch
    deletes: Sequence[pa.RecordBatch]
    dead: Sequence[pa.RecordBatch]


class _Landing:
    def __init__(
        self,
        parameters: LandingParameters,
        table: pa.Schema,
        read: ReadChunks | None,
        progress: Callable[[int], None],
    ) -> None:
        self._parameters = parameters
        self._table = table
        self._read = read or self._fetch
        self._partition_by = [parse(text) for text in parameters.partition_by]
        self._progress = progress
        self._own = parameters.record_columns
        self._generated = generated_columns(parameters.partition_by) | self._own.reserved
        self._infer = parameters.columns is None
        is_raw = parameters.format.kind == "raw" and parameters.upsert is None
        self._reads = _RAW_COLUMNS if is_raw and self._own == USUAL else _ALL_COLUMNS
        self._widen: set[str] = set()  # kept for the second attempt
        self._keyed: KeyedRecords | None = None

    def attempt(
        self, ranges: Sequence[OffsetRange], *, columns_are_final: bool
    ) -> TaskReport | None:
        """Land the ranges; None if types of new fields conflict.

        After a conflict nothing more is written, but all types are collected for the next attempt.
        """
        parameters = self._parameters
        seen = self._table
        clashes: list[pa.Schema] = []
        records = bad_rows = fetched_bytes = 0
        storage = open_storage(parameters.path)
        with (
            FileWriter(storage, self._partition_by) as writer,
            FileWriter(storage) as delete_writer,
            FileWriter(open_storage(parameters.dead_path)) as dead_writer,
        ):
            for part in self._parsed(ranges, columns_are_final):
                fetched_bytes += part.fetched_bytes
                if not columns_are_final:
                    self._widen |= set(part.parsed.widen)
                changes = self._changes(part)
                schema = stored_schema(changes.rows.schema)
                try:
                    seen = evolved_schema(seen, schema)
                except SchemaMismatch:
                    clashes.append(schema)
                if clashes:
                    for unfinished in (writer, delete_writer, dead_writer):
                        unfinished.abort()
                    clashes = [merge_inferred(self._table, [seen, *clashes, schema])]
                    continue
                records += changes.records
                writer.write(changes.rows)
                for deletes in changes.deletes:
                    delete_writer.write(deletes)
                for dead in changes.dead:
                    bad_rows += dead.num_rows
                    dead_writer.write(dead)
            if clashes:
                self._table = clashes[0]
                return None
            return TaskReport(
                tuple(ranges), records, bad_rows, fetched_bytes,
                tuple(writer.close()), tuple(dead_writer.close()), tuple(delete_writer.close()),
                tuple(sorted(self._widen)),
            )  # fmt: skip

    def _changes(self, part: _Part) -> _Changes:
        """What the records of a part become."""
        partition, records = part.partition, part.records
        parsed = self._with_partition_values(part.parsed)
        if self._keyed is not None:
            parsed = self._keyed.with_keys(records, parsed)
        dead = [dead_rows(*partition, records, parsed)] if parsed.bad else []
        rows = assemble(*partition, records, parsed, self._own)
        count = rows.num_rows
        if self._keyed is None:
            return _Changes(count, rows, (), dead)
        rows, deletes = self._keyed.changes(rows)
        if part.changes is None:
            return _Changes(count, rows, (deletes,), dead)
        count += part.changes.deletes.num_rows
        gone = (deletes, part.changes.deletes, part.changes.old_keys)
        return _Changes(count, rows, gone, [*dead, part.changes.dead])

    def _with_partition_values(self, parsed: Parsed) -> Parsed:
        """Make rows bad of which the table would lose a value, to partitions that are null."""
        for entry in self._partition_by:
            place = parsed.rows.schema.get_field_index(entry.column)
            if entry.unit is None and place >= 0:
                is_bad = is_lost(parsed.rows.column(place))
                told = f"field {entry.column}: a table partitioned by it would have null in place"
                parsed = reject_rows(parsed, is_bad, f"{told} of this value")
        return parsed

    def _parsed(self, ranges: Sequence[OffsetRange], columns_are_final: bool) -> Iterator[_Part]:
        known = parser_schema(self._table, self._generated)
        upsert = self._parameters.upsert
        if upsert is not None:
            self._keyed = KeyedRecords(upsert, known, self._parameters.format, infer=self._infer)
        parse_values = parser(
            self._parameters.format,
            known,
            infer=self._infer,
            columns_are_final=columns_are_final,
            generated=self._generated,
        )
        for partition, chunk in self._read(ranges):
            left, values, changes = chunk.batch, None, None
            if self._keyed is not None:
                changes = self._keyed.split(partition, chunk.batch)
                left, values = changes.records, changes.values
            elif self._own.key == "string":
                from sawlog.pipeline.formats.keys_and_headers import split_by_key  # slow to import

                left, refused, without_key = split_by_key(left)
                if refused.num_rows:
                    yield _Part(partition, refused, without_key, 0)
            if values is None:
                values = parser_input(self._parameters.format, left)
            fetched_bytes = chunk.fetched_bytes
            for parsed in parse_values(values):
                records = left.slice(0, parsed.values)
                landed = land_tombstones(records.column("value"), parsed)
                yield _Part(partition, records, landed, fetched_bytes, changes)
                left, fetched_bytes, changes = left.slice(parsed.values), 0, None

    def _fetch(self, ranges: Sequence[OffsetRange]) -> Iterator[tuple[TopicPartition, Chunk]]:
        parameters = self._parameters
        self._progress(0)
        before = 0  # offsets of earlier ranges
        with Cluster(parameters.brokers, client_id=parameters.group) as cluster:
            for partition, start, end in ranges:
                topic_id = parameters.topics[partition.topic]
                chunks = read_range(
                    cluster,
                    partition,
                    start,
                    end,
                    columns=self._reads,
                    read_committed=parameters.read_committed,
                    topic_id=None if topic_id == NO_TOPIC_ID else TopicId(topic_id),
                )
                try:
                    for chunk in chunks:
                        if chunk.batch.num_rows:
                            yield partition, chunk
                        self._progress(before + chunk.next_offset - start)
                except OffsetsLost as error:
                    raise data_loss(error) from error
                before += end - start
