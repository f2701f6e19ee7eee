"""Iceberg tables in an SQLite catalog and in a REST catalog: batches land once, columns evolve."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from sawlog.pipeline.delta.errors import (
    InvalidColumn,
    OffsetConflict,
    SchemaMismatch,
    StoreUnavailable,
    TableError,
    TableExists,
    TableNotFound,
)
from sawlog.pipeline.delta.landed_offsets import OffsetSpan
from sawlog.pipeline.delta.parquet_writer import FileWriter
from sawlog.pipeline.delta.table import AlreadyCommitted, CommittedVersion
from sawlog.pipeline.iceberg.iceberg_table import UNKNOWN_OUTCOMES, IcebergTable, TableRef
from support.pipeline.iceberg_rest_catalog import Fault, RestCatalogServer
from support.pipeline.iceberg_tables import (
    iceberg_contents,
    land,
    new_iceberg,
    rest_catalog,
    table_ref,
)
from support.pipeline.lake import KINDS, batch
from support.pipeline.lake import expected as expected_row
from support.pipeline.tables import PIPELINE, SCHEMA, at, expected, rows


@pytest.fixture
def server() -> Iterator[RestCatalogServer]:
    with RestCatalogServer().running() as running:
        yield running


@pytest.fixture(params=["sql", "rest"])
def ref(request: pytest.FixtureRequest, tmp_path: Path) -> TableRef:
    if request.param == "sql":
        return table_ref(tmp_path, "t")
    server: RestCatalogServer = request.getfixturevalue("server")
    return table_ref(tmp_path, "t", rest_catalog(server.uri))


@pytest.fixture
def rest_ref(server: RestCatalogServer, tmp_path: Path) -> TableRef:
    return table_ref(tmp_path, "t", rest_catalog(server.uri))


def test_a_batch_lands_with_its_offsets_and_is_recognised_again(ref: TableRef) -> None:
    table = new_iceberg(ref, ["date(timestamp)"], {at(0): 0})
    assert land(table, 0, 0, 10, days=3) == CommittedVersion(1)
    assert isinstance(land(table, 0, 0, 10), AlreadyCommitted)
    assert land(table, 1, 0, 5) == CommittedVersion(2)
    found = IcebergTable.open(ref)
    assert found.offsets(PIPELINE) == {at(0): 10, at(1): 5}
    assert iceberg_contents(ref) == expected({0: 10, 1: 5})
    assert (found.detail().rows, found.detail().files) == (15, 4)
    assert [str(entry) for entry in found.partition_by] == ["date(timestamp) as timestamp_date"]
    assert found.schema.names == [*SCHEMA.names, "timestamp_date"]


def test_a_table_is_created_once(ref: TableRef) -> None:
    assert not IcebergTable.exists(ref)
    with pytest.raises(TableNotFound, match="has no table 't'"):
        IcebergTable.open(ref)
    made = new_iceberg(ref)
    assert IcebergTable.exists(ref)
    assert IcebergTable.open(ref).id == made.id
    with pytest.raises(TableExists):
        new_iceberg(ref)


def test_looking_for_a_table_creates_no_catalog(tmp_path: Path) -> None:
    assert not IcebergTable.exists(table_ref(tmp_path / "lake", "t"))
    assert not (tmp_path / "lake").exists()


def test_a_refusal_of_the_catalog_is_no_outage(
    server: RestCatalogServer, rest_ref: TableRef
) -> None:
    table = new_iceberg(rest_ref)
    land(table, 0, 0, 10)
    server.faults += [Fault.FORBIDDEN] * UNKNOWN_OUTCOMES
    with pytest.raises(TableError, match="the rest catalog: ForbiddenError"):
        land(table, 0, 10, 20)


def test_a_stale_writer_compares_the_offsets_again(ref: TableRef) -> None:
    new_iceberg(ref)
    first, second = IcebergTable.open(ref), IcebergTable.open(ref)
    assert isinstance(land(first, 0, 0, 10), CommittedVersion)
    assert isinstance(land(second, 0, 0, 10), AlreadyCommitted)
    with pytest.raises(OffsetConflict, match="up to offset 10"):
        land(second, 0, 0, 11)
    assert iceberg_contents(ref) == expected({0: 10})


def test_a_writer_that_is_overtaken_between_check_and_commit_does_not_land(ref: TableRef) -> None:
    """The other writer commits while this one's transaction is already planned."""
    new_iceberg(ref)
    table, other = IcebergTable.open(ref), IcebergTable.open(ref)
    land(table, 1, 0, 1)
    calls = []

    def overtaken(versions: object) -> dict[str, int]:
        calls.append(versions)
        if len(calls) == 1:
            land(other, 0, 0, 10)
        return {}

    with FileWriter(table.storage) as writer:
        writer.write(rows(0, range(10)))
        files = writer.close()
    span = {at(0): OffsetSpan(0, 10)}
    done = table.commit(PIPELINE, files, span, more_txn_versions=overtaken)
    assert isinstance(done, AlreadyCommitted)
    assert len(calls) == 1
    assert iceberg_contents(ref) == expected({0: 10, 1: 1})


def test_a_batch_without_rows_excludes_a_stale_batch_with_rows(ref: TableRef) -> None:
    new_iceberg(ref)
    table, other = IcebergTable.open(ref), IcebergTable.open(ref)
    calls = []

    def overtaken(versions: object) -> dict[str, int]:
        calls.append(versions)
        if len(calls) == 1:
            other.commit(PIPELINE, [], {at(0): OffsetSpan(0, 20)})
        return {}

    with FileWriter(table.storage) as writer:
        writer.write(rows(0, range(10)))
        files = writer.close()
    span = {at(0): OffsetSpan(0, 10)}
    done = table.commit(PIPELINE, files, span, more_txn_versions=overtaken)
    assert isinstance(done, AlreadyCommitted)
    assert table.offsets(PIPELINE) == {at(0): 20}
    assert iceberg_contents(ref) == []


def test_every_commit_requires_the_snapshot_on_which_it_was_planned(
    server: RestCatalogServer, rest_ref: TableRef
) -> None:
    table = new_iceberg(rest_ref)
    land(table, 0, 0, 10)
    table.commit(PIPELINE, [], {at(0): OffsetSpan(10, 12)})
    table.set_properties(lambda: ({"a": "b"}, {"x": 1}))
    mapping, *commits = server.requirements
    assert "assert-current-schema-id" in mapping
    assert len(commits) == 3
    assert all("assert-ref-snapshot-id" in types for types in commits)
    assert table.properties["a"] == "b"
    assert table.txn_versions["x"] == 1


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.UNKNOWN])
def test_a_commit_whose_answer_is_lost_counts_as_committed(
    server: RestCatalogServer, rest_ref: TableRef, fault: Fault
) -> None:
    table = new_iceberg(rest_ref)
    land(table, 0, 0, 10)
    server.faults.append(fault)
    assert land(table, 0, 10, 20) == CommittedVersion(2)
    assert iceberg_contents(rest_ref) == expected({0: 20})


@pytest.mark.parametrize(
    "fault", [Fault.LOST_REQUEST, Fault.UNAVAILABLE, Fault.CONFLICT, Fault.LATE]
)
def test_a_commit_that_did_not_arrive_is_made_once(
    server: RestCatalogServer, rest_ref: TableRef, fault: Fault
) -> None:
    table = new_iceberg(rest_ref)
    land(table, 0, 0, 10)
    server.faults += [fault, fault]
    assert isinstance(land(table, 0, 10, 20), CommittedVersion)
    assert iceberg_contents(rest_ref) == expected({0: 20})
    assert table.version == 2


def test_a_catalog_that_answers_no_commit_is_unavailable(
    server: RestCatalogServer, rest_ref: TableRef
) -> None:
    table = new_iceberg(rest_ref)
    land(table, 0, 0, 10)
    server.faults += [Fault.LOST_REQUEST] * UNKNOWN_OUTCOMES
    with pytest.raises(StoreUnavailable, match="the rest catalog"):
        land(table, 0, 10, 20)
    assert isinstance(land(table, 0, 10, 20), CommittedVersion)
    assert iceberg_contents(rest_ref) == expected({0: 20})


def test_new_columns_are_read_from_files_without_field_ids(ref: TableRef) -> None:
    kinds = {name: kind for name, kind in KINDS.items() if name not in ("short", "byte")}
    schema = pa.schema(list(kinds.items()))
    by = ["date(timestamp) as landed", "country"]
    table = IcebergTable.create(ref, schema, by, {}, PIPELINE)
    for start in (0, 10, 20):
        part = batch(range(start, start + 10), later=start == 20)
        part = part.drop_columns(["short", "byte"])
        with FileWriter(table.storage, table.partition_by) as writer:
            writer.write(part)
            files = writer.close()
        spans = {at(0): OffsetSpan(start, start + 10)}
        table.commit(PIPELINE, files, spans, schema=part.schema)
    found = ref.open_catalog().load_table(ref.identifier).scan().to_arrow().to_pylist()
    for row in found:
        row["map"] = None if row["map"] is None else dict(row["map"])
    wanted = [expected_row(number) for number in range(30)]
    for row in wanted:
        del row["short"], row["byte"]
    assert sorted(found, key=lambda row: row["offset"]) == wanted
    assert table.schema.names == [*kinds, "landed", "later"]


def test_two_writers_add_columns_at_once(ref: TableRef) -> None:
    new_iceberg(ref)
    first, second = IcebergTable.open(ref), IcebergTable.open(ref)
    first.evolve_schema(pa.schema([("a", pa.int64()), ("s", pa.struct([("x", pa.string())]))]))
    second.evolve_schema(pa.schema([("b", pa.int64()), ("s", pa.struct([("y", pa.string())]))]))
    assert second.schema.names == [*SCHEMA.names, "a", "s", "b"]
    assert second.schema.field("s").type.names == ["x", "y"]
    with pytest.raises(SchemaMismatch, match="'a' is of type"):
        first.evolve_schema(pa.schema([("a", pa.string())]))


def test_the_partition_of_a_long_value_is_that_value(ref: TableRef) -> None:
    """Parquet has no statistics of a value of 5,000 characters."""
    schema = pa.schema([("offset", pa.int64()), ("kind", pa.string())])
    table = IcebergTable.create(ref, schema, ["kind"], {}, PIPELINE)
    long = "x" * 5_000
    values = [long, None, "y", ""]
    with FileWriter(table.storage, table.partition_by) as writer:
        writer.write(pa.RecordBatch.from_pydict({"offset": range(4), "kind": values}, schema))
        files = writer.close()
    table.commit(PIPELINE, files, {at(0): OffsetSpan(0, 4)})
    loaded = ref.open_catalog().load_table(ref.identifier)
    assert loaded.scan(row_filter=f"kind = '{long}'").to_arrow()["offset"].to_pylist() == [0]
    nulls = loaded.scan(row_filter="kind is null").to_arrow()
    assert sorted(nulls["offset"].to_pylist()) == [1, 3]


def test_small_integers_are_refused(ref: TableRef) -> None:
    with pytest.raises(InvalidColumn, match="'n' is of type smallint, which Iceberg does not have"):
        new_iceberg(ref, schema=pa.schema([("n", pa.int16())]))


def test_a_table_with_retries_is_refused(ref: TableRef) -> None:
    table = new_iceberg(ref)
    land(table, 0, 0, 10)
    other = ref.open_catalog().load_table(ref.identifier)
    with other.transaction() as transaction:
        transaction.set_properties({"commit.retry.num-retries": "4"})
    with pytest.raises(TableError, match="set it to 0"):
        land(table, 0, 10, 20)


def test_a_table_that_was_rolled_back_is_refused(ref: TableRef) -> None:
    table = new_iceberg(ref)
    land(table, 0, 0, 10)
    land(table, 0, 10, 20)
    other = ref.open_catalog().load_table(ref.identifier)
    first = other.snapshots()[0].snapshot_id
    other.manage_snapshots().set_current_snapshot(first).commit()
    with pytest.raises(TableError, match="rolled back behind the last batch"):
        land(table, 0, 20, 30)


def test_uncommitted_files_are_deleted_and_committed_ones_stay(ref: TableRef) -> None:
    table = new_iceberg(ref)
    with FileWriter(table.storage) as writer:
        writer.write(rows(0, range(10)))
        landed = writer.close()
    table.commit(PIPELINE, landed, {at(0): OffsetSpan(0, 10)})
    with FileWriter(table.storage) as writer:
        writer.write(rows(0, range(10)))
        unwanted = writer.close()
    table.delete_uncommitted([*landed, *unwanted])
    assert table.storage.stat(landed[0].path) is not None
    assert table.storage.stat(unwanted[0].path) is None


def test_manifests_of_many_commits_are_merged(tmp_path: Path) -> None:
    ref = table_ref(tmp_path, "t")
    table = new_iceberg(ref)
    loaded = ref.open_catalog().load_table(ref.identifier)
    with loaded.transaction() as transaction:
        transaction.set_properties({"commit.manifest.min-count-to-merge": "3"})
    for start in range(8):
        land(table, 0, start, start + 1)
    loaded = ref.open_catalog().load_table(ref.identifier)
    snapshot = loaded.current_snapshot()
    assert snapshot is not None
    assert len(snapshot.manifests(loaded.io)) < 5
    assert iceberg_contents(ref) == expected({0: 8})
