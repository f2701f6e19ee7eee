"""Reads dead letters: those that fulfil a condition in SQL, their counts by reason, their values.

DataFusion, which is part of deltalake, evaluates the condition. Rows are read file by file, so
memory does not depend on their number, except for the offsets of those that are selected.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import TopicPartition
from sawlog.pipeline.delta.file_scan import scan_file
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure

Positions = Mapping[TopicPartition, np.ndarray]
"""Ascending offsets by partition; an offset occurs as often as there are rows."""

POSITION = ("topic", "partition", "offset")
_GROUPED = ("topic", "partition", "offset_list")
_OF_ONE_VALUE = re.compile(r", (?:found .*|at byte \d+)$", re.DOTALL)


@dataclass(slots=True)
class ReasonCount:
    """The dead letters with one reason."""

    rows: int = 0
    first: datetime | None = None
    last: datetime | None = None


def select_positions(dead: Table, where: str | None) -> Positions:
    """The positions of the dead letters that fulfil the condition, in all versions of a topic.

    Raises LandingFailure if the condition is invalid.
    """
    if where is None:
        columns = pa.schema([dead.schema.field(name) for name in POSITION])
        batches = [
            batch
            for file in dead.files()
            for batch in scan_file(dead.storage, file.path, columns, file.partition_values)
        ]
        return positions_of(batches)
    from deltalake import DeltaTable, QueryBuilder  # slow to import
    from deltalake.exceptions import DeltaError

    options = dead.storage.delta_options()
    table = DeltaTable(
        str(dead.path),
        version=dead.version,
        storage_options=None if options is None else dict(options),
    )
    query = f'SELECT topic, partition, "offset" FROM dead WHERE ({where})'
    try:
        found = pa.table(QueryBuilder().register("dead", table).execute(query).read_all())
    except DeltaError as error:
        text = str(error).splitlines()[0]
        raise LandingFailure(FailureKind.INVALID, f"--where: {text}") from None
    return positions_of(found.to_batches())


def positions_of(batches: list[pa.RecordBatch]) -> Positions:
    found: dict[TopicPartition, list[np.ndarray]] = {}
    for batch in batches:
        table = pa.Table.from_batches([batch])
        groups = table.group_by(["topic", "partition"]).aggregate([("offset", "list")])
        for group in groups.to_batches():
            for topic, index, offsets in zip(*map(group.column, _GROUPED), strict=True):
                tp = partition_of(topic.as_py(), index.as_py())
                found.setdefault(tp, []).append(offsets.values.to_numpy())
    return {tp: np.sort(np.concatenate(parts)) for tp, parts in sorted(found.items())}


def is_among(batch: pa.RecordBatch, positions: Positions) -> pa.Array:
    """For each row, whether it is at one of the positions."""
    found = pa.repeat(pa.scalar(False), batch.num_rows)
    for (topic, index), offsets in positions.items():
        here = pc.and_(
            pc.equal(batch.column("topic"), topic), pc.equal(batch.column("partition"), index)
        )
        within = pc.is_in(batch.column("offset"), value_set=pa.array(offsets, pa.int64()))
        found = pc.or_(found, pc.and_(here, within))
    return pc.fill_null(found, False)


def read_rows(dead: Table, positions: Positions) -> Iterator[pa.RecordBatch]:
    """The dead letters at these positions."""
    for file in dead.files():
        for batch in scan_file(dead.storage, file.path, dead.schema, file.partition_values):
            chosen = batch.filter(is_among(batch, positions))
            if chosen.num_rows:
                yield chosen


def count_reasons(dead: Table, where: str | None) -> dict[str, ReasonCount]:
    """The dead letters by reason, the most frequent first, without what one value has."""
    found: dict[str, ReasonCount] = {}
    for batch in read_rows(dead, select_positions(dead, where)):
        errors, times = (batch.column(name).to_pylist() for name in ("error", "timestamp"))
        for error, at in zip(errors, times, strict=True):
            count = found.setdefault(_OF_ONE_VALUE.sub("", error or "?"), ReasonCount())
            count.rows += 1
            if at is not None:
                count.first = at if count.first is None else min(count.first, at)
                count.last = at if count.last is None else max(count.last, at)
    return dict(sorted(found.items(), key=lambda entry: (-entry[1].rows, entry[0])))
