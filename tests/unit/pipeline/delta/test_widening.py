"""Widening of bigint columns to double: all rows stay as they are, or nothing changes."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from sawlog.pipeline.delta.compaction import FileGroup, commit_compaction, merge_files
from sawlog.pipeline.delta.data_files import decode_path
from sawlog.pipeline.delta.delta_log import ActiveFile
from sawlog.pipeline.delta.errors import FileConflict, SchemaMismatch
from sawlog.pipeline.delta.file_scan import scan_file
from sawlog.pipeline.delta.landed_offsets import OffsetSpan
from sawlog.pipeline.delta.parquet_writer import FileWriter
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.delta.tail import SchemaChanged, TableTail, TailPosition
from sawlog.pipeline.delta.vacuum import vacuum
from sawlog.pipeline.delta.widening import evolve_columns, run_here, widen_columns, widened_schema
from sawlog.pipeline.formats.schema_inference import ddl, from_ddl
from support.pipeline.tables import PIPELINE, at, new_table

SCHEMA = from_ddl("n bigint, price bigint, s struct<a: bigint, b: bigint>, l array<bigint>")
PATHS = ["price", "s.a", "l[]"]
WIDE = "n bigint, price double, s struct<a:double,b:bigint>, l array<double>"
EXACT = 2**53


def row(number: int, price: int | None) -> dict[str, Any]:
    return {"n": number, "price": price, "s": {"a": price, "b": number}, "l": [1, price]}


def land(table: Table, *prices: int | None) -> None:
    """Land rows in one file, after those that the table has."""
    start = table.offsets(PIPELINE).get(at(0), 0)
    made = [row(start + place, price) for place, price in enumerate(prices)]
    with FileWriter(table.storage) as writer:
        writer.write(pa.RecordBatch.from_pylist(made, schema=SCHEMA))
        files = writer.close()
    table.commit(PIPELINE, files, {at(0): OffsetSpan(start, start + len(prices))}, schema=SCHEMA)


def rows_of(table: Table) -> list[dict[str, Any]]:
    found = [
        entry
        for file in table.files()
        for batch in scan_file(table.storage, file.path, table.schema, file.partition_values)
        for entry in batch.to_pylist()
    ]
    return sorted(found, key=lambda entry: int(entry["n"]))


def expected(*prices: int | None) -> list[dict[str, Any]]:
    return [row(number, price) for number, price in enumerate(prices)]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = new_table(tmp_path / "t", schema=SCHEMA)
    land(made, 1, None, -EXACT)
    land(made, EXACT)
    return made


def test_only_the_named_integers_of_a_schema_become_doubles() -> None:
    assert ddl(widened_schema(SCHEMA, PATHS)) == WIDE
    assert widened_schema(SCHEMA, ["s", "l", "x", "s.x", "l[].a"]).equals(SCHEMA)
    assert ddl(widened_schema(from_ddl("a int, b string"), ["a", "b"])) == "a int, b string"


def test_every_row_is_read_as_before_with_doubles(table: Table) -> None:
    assert widen_columns(table, PATHS)
    assert ddl(table.schema) == WIDE
    found = rows_of(table)
    assert found == expected(1, None, -EXACT, EXACT)
    assert isinstance(found[0]["price"], float)
    stats = [json.loads(file.stats or "") for file in table.files()]
    assert [entry["maxValues"]["price"] for entry in stats] == [1.0, float(EXACT)]
    assert [entry["numRecords"] for entry in stats] == [3, 1]
    entry = table.log.entry(table.version) or []
    changes = [
        body["dataChange"]
        for one in entry
        for name, body in one.items()
        if name in ("add", "remove")
    ]
    assert changes == [False] * 4, "streams skip the version"


def test_other_readers_read_the_widened_table(table: Table) -> None:
    before = table.version
    widen_columns(table, PATHS)
    land_wide(table)
    wanted = [1.0, None, float(-EXACT), float(EXACT), 0.5]
    theirs = pa.table(DeltaTable(table.path).to_pyarrow_table()).sort_by("n")
    assert theirs["price"].to_pylist() == wanted
    assert theirs.schema.field("price").type == pa.float64()
    polars = pl.read_delta(table.path).sort("n")
    assert polars["price"].to_list() == wanted
    assert pl.scan_delta(table.path).filter(pl.col("price") > 1.5).collect()["n"].to_list() == [3]
    paths = [table.storage.full(decode_path(file.path)) for file in table.files()]
    with duckdb.connect() as connection:
        query = "SELECT price FROM read_parquet($1) ORDER BY n"
        assert [value for (value,) in connection.sql(query, params=[paths]).fetchall()] == wanted
    old = pa.table(DeltaTable(table.path, version=before).to_pyarrow_table())
    assert old.schema.field("price").type == pa.int64()
    assert old.num_rows == 4


def land_wide(table: Table) -> None:
    schema = from_ddl("n bigint, price double")
    with FileWriter(table.storage) as writer:
        writer.write(pa.RecordBatch.from_pylist([{"n": 4, "price": 0.5}], schema=schema))
        files = writer.close()
    start = table.offsets(PIPELINE)[at(0)]
    table.commit(PIPELINE, files, {at(0): OffsetSpan(start, start + 1)})


@pytest.mark.parametrize("path", PATHS)
def test_one_integer_that_no_double_equals_leaves_everything_as_it_is(
    table: Table, path: str
) -> None:
    land(table, EXACT + 1)
    version, files = table.version, table.files()
    assert not widen_columns(table, [path])
    assert (table.version, table.files()) == (version, files)
    assert ddl(table.schema) == ddl(SCHEMA)
    assert widen_columns(table, ["s.b"]), "other columns can be widened"


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.lists(st.none() | st.integers(-EXACT - 2, EXACT + 2) | st.integers(-9, 9), min_size=1),
        max_size=4,
    )
)
def test_columns_are_widened_exactly_if_all_values_are_exact(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[int | None]]
) -> None:
    table = new_table(tmp_path_factory.mktemp("t") / "t", schema=SCHEMA)
    for prices in batches:
        land(table, *prices)
    prices = [price for batch in batches for price in batch]
    is_exact = all(abs(price or 0) <= EXACT for price in prices)
    assert widen_columns(table, PATHS) is is_exact
    assert rows_of(table) == expected(*prices)
    assert table.offsets(PIPELINE).get(at(0), 0) == len(prices)


def between(before: Callable[[], None]) -> Any:
    """Run tasks here, and `before` once after the first files were checked."""
    waiting = [lambda: None, before]

    def run(work: Callable[[ActiveFile], Any], files: Sequence[ActiveFile]) -> list[Any]:
        if waiting:
            waiting.pop(0)()
        return run_here(work, files)

    return run


def test_files_that_another_writer_adds_meanwhile_are_rewritten_too(table: Table) -> None:
    other = Table.open(table.path)
    assert widen_columns(table, PATHS, between(lambda: land(other, 7)))
    assert rows_of(table) == expected(1, None, -EXACT, EXACT, 7)
    assert rows_of(Table.open(table.path)) == rows_of(table)


def test_a_value_that_another_writer_adds_meanwhile_counts(table: Table) -> None:
    other = Table.open(table.path)
    assert not widen_columns(table, PATHS, between(lambda: land(other, EXACT + 1)))
    assert rows_of(table) == expected(1, None, -EXACT, EXACT, EXACT + 1)
    assert ddl(table.schema) == ddl(SCHEMA)


def test_of_two_writers_that_widen_one_does_and_no_file_is_left_over(table: Table) -> None:
    other = Table.open(table.path)
    assert widen_columns(table, PATHS, between(lambda: widen_columns(other, PATHS)))
    assert other.version == table.version
    assert rows_of(table) == expected(1, None, -EXACT, EXACT)
    active = {file.path for file in table.files()} | set(table.snapshot.tombstones)
    there = {path.name for path in Path(table.path).glob("*.parquet")}
    assert there == {Path(decode_path(path)).name for path in active}


def test_a_batch_with_integers_is_refused_after_the_widening(table: Table) -> None:
    widen_columns(Table.open(table.path), PATHS)
    with pytest.raises(SchemaMismatch, match="double in the table and bigint in the data"):
        land(table, 5)


def test_a_compaction_of_the_old_files_is_refused_after_the_widening(table: Table) -> None:
    group = FileGroup(tuple(table.files()))
    merged = merge_files(table.storage, group, table.schema, [])
    widen_columns(Table.open(table.path), PATHS)
    with pytest.raises(FileConflict):
        commit_compaction(table, group.files, merged)


def test_files_without_the_column_stay(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", schema=from_ddl("n bigint"))
    with FileWriter(table.storage) as writer:
        writer.write(pa.RecordBatch.from_pylist([{"n": 0}], schema=from_ddl("n bigint")))
        files = writer.close()
    table.commit(PIPELINE, files, {at(0): OffsetSpan(0, 1)})
    land(table, 5)
    kept = files[0].path
    assert widen_columns(table, ["price"])
    assert kept in table.snapshot.files
    assert [entry["price"] for entry in rows_of(table)] == [None, 5.0]


def test_declared_doubles_widen_and_add_columns_at_once(table: Table) -> None:
    evolve_columns(table, from_ddl("price double, more double"))
    assert ddl(table.schema).startswith("n bigint, price double, s struct<a:bigint")
    land_wide(table)
    with pytest.raises(SchemaMismatch, match="string in the data"):
        evolve_columns(table, from_ddl("n double, price string"))
    assert ddl(table.schema).startswith("n bigint"), "nothing is rewritten for nothing"


def test_a_stream_restarts_at_the_widening_and_reads_each_row_once(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", schema=from_ddl("n bigint"))
    land(table, 1)  # adds the other columns
    table.evolve_schema(from_ddl("more string"))
    widen_columns(table, PATHS)
    land_wide(table)
    start = TailPosition(1, 0)
    tail = TableTail(table.path, columns=pa.schema([*SCHEMA, *from_ddl("more string")]))
    stop = tail.advance(start)
    assert len(tail.between(start, stop)) == 1
    with pytest.raises(SchemaChanged, match="'price'"):
        tail.advance(stop)
    again = TableTail(table.path, columns=table.schema)
    assert len(again.between(start, again.advance(start))) == 2, "also from before the old columns"
    (left,) = again.between(stop, again.advance(stop))
    batches = scan_file(table.storage, left.path, table.schema, left.partition_values)
    assert [batch["price"].to_pylist() for batch in batches] == [[0.5]]


def test_vacuum_deletes_the_old_files_after_their_retention(table: Table) -> None:
    old = [file.path for file in table.files()]
    widen_columns(table, PATHS)
    vacuum(table)
    assert all((Path(table.path) / path).exists() for path in old)
