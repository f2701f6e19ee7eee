"""Widens bigint columns to double: every file that has them is written again, in one version.

Delta's first protocol has no change of a column's type, so the rewritten files and the new schema
are committed together, and readers see either all of it or nothing. It happens only if every stored
value is exact as a double, |value| <= 2^53: no row changes, and streams skip the version.
"""

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from sawlog.pipeline.delta.compaction import FileGroup, merge_files
from sawlog.pipeline.delta.data_files import (
    DataFile,
    add_action,
    decode_path,
    delete_uncommitted,
    remove_action,
)
from sawlog.pipeline.delta.delta_log import Action, ActiveFile, Snapshot
from sawlog.pipeline.delta.delta_types import from_json, is_list, stored_schema, to_json
from sawlog.pipeline.delta.errors import FileConflict, SchemaMismatch, TooManyConflicts
from sawlog.pipeline.delta.file_scan import scan_file
from sawlog.pipeline.delta.schema_evolution import evolved_schema
from sawlog.pipeline.delta.table import Table, schema_of
from sawlog.pipeline.delta.table_path import TablePath
from sawlog.pipeline.delta.table_storage import TableStorage, open_storage
from sawlog.pipeline.formats.ddl import leaf_paths

ATTEMPTS = 100
_EXACT = 1 << 53
File = TypeVar("File", DataFile, ActiveFile)
Result = TypeVar("Result")


class RunTasks(Protocol):
    """Runs a function for each file, here or in tasks of Spark; the results are in order."""

    def __call__(
        self, work: Callable[[ActiveFile], Result], files: Sequence[ActiveFile]
    ) -> list[Result]: ...


def run_here(work: Callable[[ActiveFile], Result], files: Sequence[ActiveFile]) -> list[Result]:
    return [work(file) for file in files]


def widened_schema(schema: pa.Schema, paths: Collection[str]) -> pa.Schema:
    """The schema with these bigint columns as double; paths are `a`, `a.b`, `a[].b`.

    Paths of other columns, and those that the schema lacks, change nothing.
    """
    return pa.schema(
        [pa.field(part.name, _widened(part.type, part.name, paths)) for part in schema]
    )


def _widened(type_: pa.DataType, path: str, paths: Collection[str]) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct(
            [
                pa.field(part.name, _widened(part.type, f"{path}.{part.name}", paths))
                for part in type_
            ]
        )
    if is_list(type_):
        return pa.list_(pa.field("element", _widened(type_.value_type, f"{path}[]", paths)))
    return pa.float64() if pa.types.is_int64(type_) and path in paths else type_


def is_exact(storage: TableStorage, file: File, schema: pa.Schema) -> bool:
    """Whether a file can be read with the doubles of `schema` without changing a value."""
    with storage.open_input(decode_path(file.path)) as source:
        found = pq.read_schema(source)
    names = [
        name for name in _widened_columns(found, schema) if not _stats_are_exact(file.stats, name)
    ]
    if not names:
        return True
    columns = pa.schema([schema.field(name) for name in names])
    try:
        for _ in scan_file(storage, file.path, columns, {}):
            pass
    except pa.ArrowInvalid:  # Arrow's cast to double rejects other integers
        return False
    return True


def _widened_columns(found: pa.Schema, schema: pa.Schema) -> Iterator[str]:
    """The top-level columns that have doubles in `schema` and integers in the file."""
    for name in found.names:
        if schema.get_field_index(name) >= 0 and _has_integers(
            found.field(name).type, schema.field(name).type
        ):
            yield name


def _has_integers(found: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_struct(found) and pa.types.is_struct(wanted):
        types = {part.name: part.type for part in wanted}
        return any(
            part.name in types and _has_integers(part.type, types[part.name]) for part in found
        )
    if is_list(found) and is_list(wanted):
        return _has_integers(found.value_type, wanted.value_type)
    return bool(pa.types.is_int64(found) and pa.types.is_float64(wanted))


def _stats_are_exact(stats: str | None, name: str) -> bool:
    """Whether the log tells that all integers of a top-level column are exact as doubles."""
    found = json.loads(stats or "{}")
    low, high = found.get("minValues", {}).get(name), found.get("maxValues", {}).get(name)
    return isinstance(low, int) and isinstance(high, int) and -_EXACT <= low <= high <= _EXACT


def widen_columns(table: Table, paths: Collection[str], run: RunTasks = run_here) -> bool:
    """Make these bigint columns double. False if a value is not exact; nothing changes then.

    If another writer commits first, its new files are written again too. Another writer may have
    done the same: then there is nothing left to do.
    """
    rewritten: dict[str, list[DataFile]] = {}  # by the path of the file that they replace
    for _ in range(ATTEMPTS):
        table.refresh()
        schema = widened_schema(table.schema, paths)
        if schema.equals(table.schema):
            _discard(table, rewritten)
            return True
        files = [file for file in table.files() if file.path not in rewritten]
        if not all(run(partial(_check, table.path, to_json(schema)), files)):
            _discard(table, rewritten)
            return False
        work = partial(_rewrite, table.path, to_json(schema), tuple(table.partition_columns))
        for file, texts in zip(files, run(work, files), strict=True):
            rewritten[file.path] = [DataFile.from_json(text) for text in texts]
        try:
            _commit(table, paths, rewritten)
        except FileConflict:
            continue
        _discard(table, rewritten)
        return True
    raise TooManyConflicts(
        f"{table.path}: {ATTEMPTS} times in a row another writer committed before a column could"
        " be rewritten; stop it first"
    )


def check_columns(now: pa.Schema, schema: pa.Schema) -> None:
    """Raise SchemaMismatch if a table cannot get the columns of `schema`, widened if necessary."""
    evolved_schema(widened_schema(now, _doubles(schema)), stored_schema(schema))


def evolve_columns(table: Table, schema: pa.Schema) -> None:
    """Add new columns, and widen those that `schema` has as double. Raises SchemaMismatch."""
    table.refresh()
    check_columns(table.schema, schema)
    if not widen_columns(table, _doubles(schema)):
        raise SchemaMismatch(
            "columns that should become double have integers beyond 2^53, which no double holds"
        )
    table.evolve_schema(schema)


def _doubles(schema: pa.Schema) -> list[str]:
    return list(leaf_paths(schema, pa.types.is_float64))


def _discard(table: Table, rewritten: Mapping[str, Sequence[DataFile]]) -> None:
    """Delete what was written for files that other writers have replaced; the rest stays."""
    delete_uncommitted(table.storage, [file for made in rewritten.values() for file in made])


def _check(path: TablePath, schema: str, file: ActiveFile) -> bool:
    return is_exact(open_storage(path), file, from_json(schema))


def _rewrite(
    path: TablePath, schema: str, partition_columns: tuple[str, ...], file: ActiveFile
) -> list[str]:
    """Write the rows of a file with the new types; none if it has no such column."""
    storage, wanted = open_storage(path), from_json(schema)
    with storage.open_input(decode_path(file.path)) as source:
        if not any(_widened_columns(pq.read_schema(source), wanted)):
            return []
    made = merge_files(storage, FileGroup((file,)), wanted, partition_columns)
    return [one.to_json() for one in made]


def _commit(table: Table, paths: Collection[str], rewritten: dict[str, list[DataFile]]) -> None:
    """Replace the files and the schema. Raises FileConflict if there are files not rewritten."""

    def plan(snapshot: Snapshot) -> list[Action] | None:
        schema = widened_schema(schema_of(snapshot), paths)
        if schema.equals(schema_of(snapshot)):
            return None
        if not snapshot.files.keys() <= rewritten.keys():
            raise FileConflict(f"{table.path} has new files")
        now = time.time_ns() // 1_000_000
        actions: list[Action] = [
            {"metaData": {**snapshot.metadata, "schemaString": to_json(schema)}}
        ]
        for path, file in sorted(snapshot.files.items()):
            if rewritten[path]:
                actions.append(remove_action(file, now, data_change=False))
                # The time of the old file keeps the order by time.
                actions += [
                    add_action(made, file.modified_ms, data_change=False)
                    for made in rewritten[path]
                ]
        return actions

    table.transact("CHANGE COLUMN", plan)
