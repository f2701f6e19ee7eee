"""Merges the changes of a batch into a keyed table: the last change of each key counts.

Tasks write new rows, and the keys of deleted rows, into files. A merge writes every file of the
table again that loses rows; a file of new rows that are all the last of their keys is added as it
is. So rows stay in files by age, and a batch that changes recent rows rewrites recent files. A task
holds the keys of the batch, a part of one file and a writer's buffers, whatever the table's size.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sawlog.pipeline.delta.data_files import DataFile
from sawlog.pipeline.delta.delta_log import ActiveFile
from sawlog.pipeline.delta.errors import KeyConflict
from sawlog.pipeline.delta.file_scan import scan_file
from sawlog.pipeline.delta.keys import comparable_keys, is_among, key_ranges, may_hold_keys
from sawlog.pipeline.delta.parquet_writer import FileWriter
from sawlog.pipeline.delta.partitioning import PartitionBy
from sawlog.pipeline.delta.table import ReplacedFiles, Table
from sawlog.pipeline.delta.table_storage import TableStorage
from sawlog.pipeline.formats.spark_types import type_name

KEY = "sawlog.key"  # table property of keyed tables: the columns of the key, as JSON
KEYED_TARGET_BYTES = 32 * 1024 * 1024  # smaller than other files: a change rewrites a whole file
PLACE = ("topic", "partition", "offset")  # the columns that order the changes of a key
_MIN_TASK_BYTES = 4 * 1024 * 1024
_KEY_BATCH_ROWS = 256 * 1024
_PLACE = _PARTITION, _OFFSET = ("\0partition", "\0offset")  # the same, topics numbered

Flags = npt.NDArray[np.bool_]


class Changes(NamedTuple):
    """The files of a batch; those of deletes have the columns of the keys and of `PLACE`."""

    rows: Sequence[DataFile]
    deletes: Sequence[DataFile]


class MergeTask(NamedTuple):
    """Files of the table that may lose rows, and files of new rows that may have older ones."""

    files: tuple[ActiveFile, ...]
    rows: tuple[DataFile, ...]


class MergedFiles(NamedTuple):
    """The files of the next version: those to add, and those that they replace.

    `written` are the added files that the merge wrote; the others are files of the batch.
    """

    added: Sequence[DataFile]
    replaced: ReplacedFiles
    written: Sequence[DataFile]


RunTasks = Callable[[Callable[[MergeTask], str], Sequence[MergeTask]], Sequence[str]]
"""Runs the function on every task, in processes that need not be this one."""


def merge_changes(
    table: Table,
    schema: pa.Schema,
    changes: Changes,
    keys: Sequence[str],
    run: RunTasks,
    cores: int,
) -> MergedFiles:
    """Merge the changes into the version of the handle, without a commit.

    `schema` has the columns of the table and of the new rows; if it lacks the key, there is no row
    that the batch could delete. Raises KeyConflict.
    """
    check_key_columns(schema, keys)
    has_rows = all(name in schema.names for name in keys)
    tasks = plan_tasks(table.files(), changes, cores) if has_rows else []
    merge = _Merge(table.storage, table.partition_by, schema, tuple(keys), changes)
    results = [_result_of(text) for text in run(merge, tasks)] if tasks else []
    by_path = {file.path: file for file in changes.rows}
    written = [file for result in results for file in result.written]
    unchanged = [by_path[path] for result in results for path in result.unchanged]
    replaced = [table.snapshot.files[path] for result in results for path in result.replaced]
    return MergedFiles(
        [*written, *unchanged], ReplacedFiles(table.version, replaced), written
    )  # fmt: skip


def target_bytes(table: Table, wanted: int) -> int:
    """The size of files to write, at most `wanted`."""
    return min(wanted, KEYED_TARGET_BYTES) if is_keyed(table) else wanted


def is_keyed(table: Table) -> bool:
    return KEY in (table.snapshot.metadata.get("configuration") or {})


def check_key_columns(schema: pa.Schema, keys: Sequence[str]) -> None:
    """Raise KeyConflict if columns have types whose values cannot be compared exactly."""
    for name in keys:
        place = schema.get_field_index(name)
        kind = None if place < 0 else schema.field(place).type
        if kind is not None and (pa.types.is_floating(kind) or pa.types.is_nested(kind)):
            raise KeyConflict(f"the key column {name!r} is of type {type_name(kind)}: use another")


def plan_tasks(files: Sequence[ActiveFile], changes: Changes, cores: int) -> list[MergeTask]:
    """Share the files among tasks, those of one partition of the table together."""
    if not changes.rows and not changes.deletes:
        return []
    share = sum(file.size for file in files) // max(1, cores) + 1
    share = min(max(share, _MIN_TASK_BYTES), 2 * KEYED_TARGET_BYTES)
    groups: list[list[ActiveFile]] = [[]]
    size = 0
    for file in sorted(files, key=_by_partition):
        if groups[-1] and size + file.size > share:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.size
    new: list[list[DataFile]] = [[] for _ in groups]
    for number, rows in enumerate(changes.rows):
        new[number % len(new)].append(rows)
    return [MergeTask(tuple(old), tuple(rows)) for old, rows in zip(groups, new, strict=True)]


def _by_partition(file: ActiveFile) -> tuple[str, int, str]:
    return json.dumps(dict(file.partition_values), sort_keys=True), file.modified_ms, file.path


class _Result(NamedTuple):
    replaced: list[str]
    unchanged: list[str]
    written: list[DataFile]


def _result_of(text: str) -> _Result:
    replaced, unchanged, written = json.loads(text)
    return _Result(replaced, unchanged, [DataFile.from_json(file) for file in written])


@dataclass(frozen=True)
class _Merge:
    """The work of a task; a pickle of it goes to the workers."""

    storage: TableStorage
    partition_by: list[PartitionBy]
    schema: pa.Schema
    keys: tuple[str, ...]
    changes: Changes

    def __call__(self, task: MergeTask) -> str:
        """Returns a result as JSON."""
        last = _LastChanges(self.keys, self._changed_keys())
        replaced: list[str] = []
        with FileWriter(self.storage, self.partition_by, target_bytes=KEYED_TARGET_BYTES) as writer:
            for old in task.files:
                if not may_hold_keys(old, last.ranges):
                    continue
                if self._rewritten(writer, old, self._looked_up(old, last.changed_rows)):
                    replaced.append(old.path)
            unchanged = [
                new.path
                for new in task.rows
                if not self._rewritten(writer, new, self._looked_up(new, last.outdated_rows))
            ]
            written = writer.close()
        return json.dumps([replaced, unchanged, [file.to_json() for file in written]])

    def _changed_keys(self) -> Iterator[pa.RecordBatch]:
        for file in self.changes.rows:
            yield from self._key_columns(file)
        for file in self.changes.deletes:
            yield from map(self._as_partitioned, self._key_columns(file))

    def _as_partitioned(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Keys as rows have them: in a partition column the empty string is null."""
        for entry in self.partition_by:
            place = batch.schema.get_field_index(entry.name)
            if place >= 0 and pa.types.is_string(batch.column(place).type):
                column = batch.column(place)
                stored = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
                batch = batch.set_column(place, batch.schema.field(place), stored)
        return batch

    def _key_columns(self, file: ActiveFile | DataFile) -> Iterator[pa.RecordBatch]:
        names = dict.fromkeys([*self.keys, *PLACE])
        schema = pa.schema([self.schema.field(name) for name in names])
        yield from scan_file(
            self.storage, file.path, schema, file.partition_values, batch_rows=_KEY_BATCH_ROWS
        )

    def _looked_up(
        self, file: ActiveFile | DataFile, look: Callable[[pa.RecordBatch], Flags]
    ) -> Flags:
        found = [look(batch) for batch in self._key_columns(file)]
        return np.concatenate(found) if found else np.zeros(0, np.bool_)

    def _rewritten(self, writer: FileWriter, file: ActiveFile | DataFile, loses: Flags) -> bool:
        """Write the rows that stay; False, and nothing is written, if all do."""
        if not loses.any():
            return False
        names = [entry.name for entry in self.partition_by]
        values = tuple(file.partition_values[name] for name in names)
        at = 0
        for batch in scan_file(self.storage, file.path, self.schema, file.partition_values):
            stays = ~loses[at : at + batch.num_rows]
            at += batch.num_rows
            if stays.any():
                writer.write_into(values, batch.filter(pa.array(stays)))
        return True


class _LastChanges:
    """The last change of each key of a batch. Raises KeyConflict."""

    def __init__(self, keys: Sequence[str], batches: Iterable[pa.RecordBatch]) -> None:
        self._keys = keys
        self._partitions: dict[tuple[str, int], int] = {}  # numbered as they are met
        changes = pa.Table.from_batches([self._numbered(batch) for batch in batches])
        self.ranges = key_ranges(changes, keys)
        keyed = comparable_keys(changes, keys)
        names = keyed.column_names
        for name in _PLACE:
            keyed = keyed.append_column(name, changes[name])
        aggregates = [(_OFFSET, "max"), (_PARTITION, "min"), (_PARTITION, "max")]
        last = keyed.group_by(names).aggregate(aggregates)
        self._key_rows = last.select(names)
        mixed = pc.not_equal(last[f"{_PARTITION}_min"], last[f"{_PARTITION}_max"])
        if pc.any(mixed).as_py():
            one_key = self._key_rows.filter(mixed).slice(0, 1)
            raise self._conflict(changes.filter(is_among(keyed.select(names), one_key)))
        self._last = self._key_rows.append_column(_PARTITION, last[f"{_PARTITION}_min"])
        self._last = self._last.append_column(_OFFSET, last[f"{_OFFSET}_max"])

    def changed_rows(self, batch: pa.RecordBatch) -> Flags:
        """Which rows of the table have a key that the batch changes. Raises KeyConflict."""
        found = np.asarray(is_among(comparable_keys(batch, self._keys), self._key_rows))
        if found.any():
            self._check_partitions(self._numbered(batch.filter(pa.array(found))))
        return found

    def outdated_rows(self, batch: pa.RecordBatch) -> Flags:
        """Which new rows are followed by another change of their key."""
        placed = self._placed(self._numbered(batch), _PLACE)
        return ~np.asarray(is_among(placed, self._last.select(placed.column_names)))

    def _numbered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The keys and places of rows, with a number for topic and partition."""
        topics = batch["topic"].dictionary_encode()
        partitions = np.asarray(batch["partition"]).astype(np.int64)
        pairs = np.asarray(topics.indices).astype(np.int64) << 32 | partitions
        distinct, places = np.unique(pairs, return_inverse=True)
        numbers = [
            self._partitions.setdefault(
                (topics.dictionary[int(pair >> 32)].as_py(), int(pair & 0xFFFFFFFF)),
                len(self._partitions),
            )
            for pair in distinct
        ]
        columns = {name: batch[name] for name in self._keys}
        columns[_PARTITION] = pa.array(np.array(numbers, np.int32)[places])
        columns[_OFFSET] = batch["offset"]
        return pa.RecordBatch.from_pydict(columns)

    def _placed(self, rows: pa.RecordBatch, names: Sequence[str]) -> pa.Table:
        placed = comparable_keys(rows, self._keys)
        for name in names:
            placed = placed.append_column(name, pa.chunked_array([rows[name]]))
        return placed

    def _check_partitions(self, rows: pa.RecordBatch) -> None:
        """Raise KeyConflict if a change comes from another partition than the row it changes."""
        placed = self._placed(rows, (_PARTITION,))
        same = is_among(placed, self._last.select(placed.column_names))
        if pc.all(same).as_py():
            return
        row = rows.filter(pc.invert(same)).slice(0, 1)
        matches = is_among(self._key_rows, comparable_keys(row, self._keys))
        change = self._last.filter(matches).select(list(_PLACE))
        raise self._conflict(
            pa.concat_tables([pa.Table.from_batches([row]), change], promote_options="default")
        )

    def _conflict(self, rows: pa.Table) -> KeyConflict:
        """The error for one key; the first of the rows has it."""
        first = rows.slice(0, 1).to_pylist()[0]
        key = ", ".join(f"{name}={first[name]!r}" for name in self._keys)
        partitions = list(self._partitions)
        offsets: dict[tuple[str, int], int] = {}
        for row in rows.select(list(_PLACE)).to_pylist():
            offsets.setdefault(partitions[row[_PARTITION]], row[_OFFSET])
        met = " and ".join(
            f"{topic}-{partition} at offset {offset}"
            for (topic, partition), offset in sorted(offsets.items())
        )
        return KeyConflict(
            f"the key {key} is in two partitions: {met}; the order of its changes is not known."
            " Send all records of a key to one partition, and land the topic in a new table"
        )
