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

Positions = Mapping[TopicPartition, np.ndarray]
"""Ascending offsets by partition; an offset occurs as often as there are rows."""

POSITION = ("topic", "partition", "offset")
_GROUPED = ("topic", "partition", "offset_list")
_OF_ONE_VALUE = re.compile(r", (?:found .*|at byte \d+)$", re.DOTALL)
_SELECT = 'SELECT topic, partition, "offset" FROM dead WHERE ('
_PARSER_ERROR = re.compile(
    r'ParserError\("Expected: (.+?), found: (.+) at Line: (\d+), Column: (\d+)"\)'
)
_PREFIXES = re.compile(r"^(?:(?:Schema|SQL|Arrow|Parser|Cast) error: |Error during planning: )+")
_SQL_TYPES = {
    "Utf8View": "string", "Utf8": "string", "LargeUtf8": "string", "Boolean": "boolean",
    "BinaryView": "binary", "Binary": "binary", "Int32": "int", "Int64": "bigint",
    "Float64": "double",
}  # fmt: skip
_ARROW_TYPE = re.compile(rf"\b(?:{'|'.join(_SQL_TYPES)})\b")


class InvalidCondition(ValueError):
    """A condition on dead letters that is not SQL, or does not fit their columns."""


@dataclass(slots=True)
class ReasonCount:
    """The dead letters with one reason."""

    rows: int = 0
    first: datetime | None = None
    last: datetime | None = None


def select_positions(dead: Table, where: str | None) -> Positions:
    """The positions of the dead letters that fulfil the condition, in all versions of a topic.

    Raises InvalidCondition.
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
    query = f"{_SELECT}{where}\n)"  # a line of its own: a comment in the condition ends before it
    try:
        found = pa.table(QueryBuilder().register("dead", table).execute(query).read_all())
    except DeltaError as error:
        raise InvalidCondition(condition_error(where, str(error))) from None
    return positions_of(found.to_batches())


def condition_error(where: str, error: str) -> str:
    """The reason in an error of DataFusion, with Spark's types and positions in the condition."""
    reason = error.rpartition("caused by\n")[2]
    parser_error = _PARSER_ERROR.search(reason)
    if parser_error is not None:
        expected, found, line, column = parser_error.groups()
        if int(line) > len(where.split("\n")):
            return f"syntax error at its end: expected {expected}"
        at = int(column) - (len(_SELECT) if line == "1" else 0)
        return f"syntax error at line {line}, column {at}: expected {expected}, found {found}"
    if "non-boolean predicate" in reason:
        return "it is not a condition: its value is not boolean"
    reason = _PREFIXES.sub("", " ".join(reason.split())).replace("dead.", "")
    reason = _ARROW_TYPE.sub(lambda found: _SQL_TYPES[found[0]], reason)
    return reason[:1].lower() + reason[1:].rstrip(".")


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
