"""Retries dead letters: parses them with the settings of today and moves what fits to the table.

One version of the table adds the rows and counts the retry (a `txn` action); then one version of
the dead letter table removes them and stores the same count. The first is committed only if no
other retry or replay came between. If the process dies after it, the next retry, replay, resume or
start of a landing removes them. Their offsets are in an object that the first version names.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sawlog.client.arrow.offset_range import Chunk
from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import TopicPartition
from sawlog.pipeline.delta.data_files import delete_uncommitted
from sawlog.pipeline.delta.delta_log import Action, ActiveFile, Snapshot
from sawlog.pipeline.delta.errors import SchemaMismatch
from sawlog.pipeline.delta.file_scan import scan_file
from sawlog.pipeline.delta.landed_offsets import application_id, offsets_of
from sawlog.pipeline.delta.rewrite import Rewrite, rewrite
from sawlog.pipeline.delta.table import Table, add_actions, schema_actions, transaction_action
from sawlog.pipeline.landing.configuration.pipeline_config import (
    RECORDS,
    LandedTable,
    PipelineConfig,
    appends_rows,
)
from sawlog.pipeline.landing.driver.dead_letter_counts import counts_after_retry
from sawlog.pipeline.landing.driver.dead_letter_reader import (
    POSITION,
    Positions,
    is_among,
    positions_of,
    read_rows,
    select_positions,
)
from sawlog.pipeline.landing.driver.landed_tables import LandingTable
from sawlog.pipeline.landing.driver.replay_counts import replay_count
from sawlog.pipeline.landing.driver.schema_merge import merge_task_schemas
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure
from sawlog.pipeline.landing.task.landing_task import (
    columns_text,
    current_columns,
    land_ranges,
    landing_parameters,
)
from sawlog.pipeline.landing.task.task_report import TaskReport
from sawlog.pipeline.source.batch_planning import OffsetRange

RETRY = "RETRY"  # the operation in the table's history
_MOVED = "sawlog.retry"  # the property with the name of the object that lists the offsets
_DIRECTORY = f"{RECORDS}/retries"
_RETRIES = partition_of("(retries)", 0)  # not a valid topic name
_ATTEMPTS = 20


class RetryResult(NamedTuple):
    moved: int
    kept: int  # they still do not fit
    ambiguous: int  # two dead letters have one offset, of a topic that was created again


class _Moved(Exception):
    """Another retry, a replay or a new column came between: start again."""


def retry_count(group: str, versions: Mapping[str, int]) -> int:
    return versions.get(application_id(group, _RETRIES), 0)


def retry_dead_letters(
    pipeline: PipelineConfig,
    config: LandedTable,
    table: Table,
    dead: Table,
    where: str | None = None,
) -> RetryResult:
    """Move the selected dead letters that fit by now. Raises LandingFailure."""
    if not appends_rows(config):
        raise LandingFailure(
            FailureKind.INVALID,
            f"later records may have replaced rows of {config.name!r} with the same key, so older"
            " ones cannot be added: replay the table instead",
        )
    for _ in range(_ATTEMPTS):
        finish_retry(config, table, dead)
        dead.refresh()
        all_ = select_positions(dead, None)
        selected = all_ if where is None else select_positions(dead, where)
        chosen, ambiguous = _eligible(config, table, selected, all_)
        count = sum(map(len, chosen.values()))
        if not count:
            return RetryResult(0, 0, ambiguous)
        report = _parse(pipeline, config, table, dead, chosen)
        moved = _positions(table, report)
        rows = sum(map(len, moved.values()))
        if not rows:
            return RetryResult(0, count, ambiguous)
        try:
            _commit(config, table, dead, report, moved)
        except _Moved:
            delete_uncommitted(table.storage, report.files)
            continue
        finish_retry(config, table, dead)
        return RetryResult(rows, count - rows, ambiguous)
    raise LandingFailure(
        FailureKind.CONFLICT,
        f"others wrote to {table.path} {_ATTEMPTS} times before this retry could",
    )


def _eligible(
    config: LandedTable, table: Table, selected: Positions, all_: Positions
) -> tuple[dict[TopicPartition, np.ndarray], int]:
    """The selected positions below the landed offsets that have one of all dead letters, and how
    many selected dead letters share theirs: a position names all that it has.

    Dead letters above the landed offsets belong to a batch that has not landed.
    """
    landed = table.offsets(config.group)
    found: dict[TopicPartition, np.ndarray] = {}
    ambiguous = 0
    for tp, offsets in selected.items():
        below = offsets[offsets < landed.get(tp, 0)]
        positions, counts = np.unique(all_[tp], return_counts=True)
        is_single = np.isin(below, positions[counts == 1])
        ambiguous += int((~is_single).sum())
        if is_single.any():
            found[tp] = below[is_single]
    return found, ambiguous


def _parse(
    pipeline: PipelineConfig, config: LandedTable, table: Table, dead: Table, chosen: Positions
) -> TaskReport:
    """Write the rows of those that fit to files of the table, in this process."""
    parameters = landing_parameters(pipeline, config, {})

    def read(_: Sequence[OffsetRange]) -> Iterator[tuple[TopicPartition, Chunk]]:
        for batch in read_rows(dead, chosen):
            for tp in chosen:
                here = pc.and_(
                    pc.equal(batch.column("topic"), tp.topic),
                    pc.equal(batch.column("partition"), tp.partition),
                )
                records = _as_records(batch.filter(here))
                if records.num_rows:
                    yield tp, Chunk(records, 0, 0)

    def parse(columns: str, *, columns_are_final: bool = False) -> TaskReport:
        report = land_ranges(
            parameters, columns, (), columns_are_final=columns_are_final, read=read
        )
        delete_uncommitted(dead.storage, report.dead_files)  # they are there already
        return report

    report = parse(current_columns(parameters))
    schema, to_reparse = merge_task_schemas(table.schema, [report])
    if to_reparse:
        delete_uncommitted(table.storage, report.files)
        report = parse(columns_text(schema), columns_are_final=True)
    return report


def _as_records(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Dead letters as a fetch returns records."""
    at = batch.column("timestamp").cast(pa.timestamp("ms", tz="UTC"), safe=False)
    names = ("offset", "key", "value", "headers")
    columns = {name: batch.column(name) for name in names} | {"timestamp": at}
    return pa.RecordBatch.from_pydict(columns)


def _positions(table: Table, report: TaskReport) -> Positions:
    """The positions of the rows in the files of a report."""
    schema = pa.schema([table.schema.field(name) for name in POSITION])
    batches = [
        batch
        for file in report.files
        for batch in scan_file(table.storage, file.path, schema, file.partition_values)
    ]
    return positions_of(batches)


def _commit(
    config: LandedTable, table: Table, dead: Table, report: TaskReport, moved: Positions
) -> None:
    """Store the offsets, then commit the rows. Raises _Moved."""
    group, based_on = config.group, table.snapshot.transactions.copy()
    dead_count = retry_count(group, dead.snapshot.transactions)
    name = f"{_DIRECTORY}/{uuid4().hex}.json"
    table.storage.put(name, json.dumps(_to_json(moved)).encode())
    left = select_positions(dead, None)

    def plan(snapshot: Snapshot) -> list[Action]:
        stored = snapshot.transactions
        if retry_count(group, stored) != dead_count or replay_count(group, stored) != replay_count(
            group, based_on
        ):
            raise _Moved
        landed = offsets_of(group, based_on)
        try:
            schema, to_reparse = merge_task_schemas(table.schema, [report])
        except SchemaMismatch:
            raise _Moved from None
        if to_reparse:
            raise _Moved
        versions = {
            application_id(group, _RETRIES): dead_count + 1,
            **counts_after_retry(group, stored, moved, left, landed),
        }
        properties = {**(snapshot.metadata.get("configuration") or {}), _MOVED: name}
        metadata = {**snapshot.metadata, "configuration": properties}
        for action in schema_actions(snapshot, schema):
            metadata = {**action["metaData"], "configuration": properties}
        now = time.time_ns() // 1_000_000
        return [
            {"metaData": metadata},
            *(transaction_action(app, version, now) for app, version in versions.items()),
            *add_actions(snapshot, report.files, schema, now),
        ]

    rows = sum(map(len, moved.values()))
    try:
        table.transact(RETRY, plan, {"topic": str(config.selection), "dead_letters": rows})
    except _Moved:
        table.storage.delete(name)
        raise


def finish_retry(config: LandedTable, table: LandingTable, dead: Table) -> None:
    """Remove the moved dead letters, if a retry has not done so."""
    table.refresh()
    dead.refresh()
    group = config.group
    count = retry_count(group, table.txn_versions)
    if retry_count(group, dead.txn_versions) >= count:
        return
    name = table.properties[_MOVED]
    moved: Positions = {}
    # Without the object the retry is finished: this dead letter table was created later.
    with suppress(FileNotFoundError):
        moved = _from_json(json.loads(table.storage.read(name)))

    def keep(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(pc.invert(is_among(batch, moved)))

    rewrite(
        dead,
        Rewrite(
            "DELETE",
            touches=lambda file: _may_hold(file, moved),
            looks_at=POSITION,
            keep=keep,
            insert=None,
            transactions={application_id(group, _RETRIES): count},
            is_done=lambda snapshot: retry_count(group, snapshot.transactions) >= count,
        ),
    )
    with suppress(OSError):
        table.storage.delete(name)


def _may_hold(file: ActiveFile, moved: Positions) -> bool:
    stats = json.loads(file.stats or "{}")
    low, high = (stats.get(name, {}).get("offset") for name in ("minValues", "maxValues"))
    if low is None or high is None:
        return True
    return any(bool(((offsets >= low) & (offsets <= high)).any()) for offsets in moved.values())


def _to_json(positions: Positions) -> list[list[Any]]:
    """Offsets as differences, which are short."""
    return [
        [tp.topic, tp.partition, np.diff(offsets, prepend=0).tolist()]
        for tp, offsets in positions.items()
    ]


def _from_json(entries: Sequence[Sequence[Any]]) -> Positions:
    return {
        partition_of(topic, index): np.cumsum(np.array(steps, np.int64))
        for topic, index, steps in entries
    }
