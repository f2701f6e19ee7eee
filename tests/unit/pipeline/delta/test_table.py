"""Commits happen exactly once, on the snapshot that was checked, beside other writers."""

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from sawlog.pipeline.delta import table as tables
from sawlog.pipeline.delta.data_files import DataFile, decode_path, delete_uncommitted
from sawlog.pipeline.delta.delta_log import Action, Snapshot
from sawlog.pipeline.delta.delta_types import TIMESTAMP
from sawlog.pipeline.delta.errors import (
    OffsetConflict,
    SchemaMismatch,
    TableError,
    TableExists,
    TableNotFound,
    TooManyConflicts,
    UnsupportedProtocol,
    UnsupportedStorage,
)
from sawlog.pipeline.delta.landed_offsets import OffsetSpan
from sawlog.pipeline.delta.table import AlreadyCommitted, CommittedVersion, Table
from sawlog.pipeline.delta.table_storage import LOG
from support.pipeline.tables import (
    PIPELINE,
    SCHEMA,
    at,
    contents,
    expected,
    land,
    new_table,
    rows,
    written,
)


def test_a_new_table_is_empty_and_has_start_offsets(tmp_path: Path) -> None:
    assert not Table.exists(tmp_path / "t")
    made = new_table(tmp_path / "t", ["date(timestamp)"], {at(0): 0, at(1): 512})
    assert Table.exists(tmp_path / "t")
    table = Table.open(tmp_path / "t")
    assert (table.version, table.files()) == (0, [])
    assert table.offsets(PIPELINE) == {at(0): 0, at(1): 512}
    assert table.schema.equals(SCHEMA.append(pa.field("timestamp_date", pa.date32())))
    assert table.partition_by == made.partition_by
    assert [str(entry) for entry in table.partition_by] == ["date(timestamp) as timestamp_date"]


def test_of_two_that_create_a_table_one_gets_table_exists(tmp_path: Path) -> None:
    new_table(tmp_path / "t", starts={at(0): 7})
    with pytest.raises(TableExists, match="already"):
        new_table(tmp_path / "t", starts={at(0): 9})
    assert Table.open(tmp_path / "t").offsets(PIPELINE) == {at(0): 7}


def test_opening_a_directory_without_a_table_fails(tmp_path: Path) -> None:
    with pytest.raises(TableNotFound, match="no table in"):
        Table.open(tmp_path)
    new_table(tmp_path / "t")
    with pytest.raises(TableNotFound, match="versions up to 0, not 1"):
        Table.open(tmp_path / "t", version=1)


def test_an_unknown_scheme_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedStorage, match="ftp:// is not supported"):
        Table.open("ftp://bucket/table")
    made = new_table(tmp_path / "t")
    assert Table.open(f"file://{made.path}").path == made.path


def test_a_batch_is_committed_once_however_often_it_is_repeated(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", ["date(timestamp)"])
    assert land(table, 0, 0, 10, days=3) == CommittedVersion(1)
    assert land(table, 0, 0, 10, days=3) == AlreadyCommitted(1)
    assert land(Table.open(tmp_path / "t"), 0, 0, 10, days=3) == AlreadyCommitted(1)
    assert contents(Table.open(tmp_path / "t")) == expected({0: 10})
    assert Table.open(tmp_path / "t").offsets(PIPELINE) == {at(0): 10}


def test_a_stale_handle_refreshes_before_it_commits(tmp_path: Path) -> None:
    mine = new_table(tmp_path / "t")
    stale = Table.open(tmp_path / "t")
    assert land(mine, 0, 0, 10) == CommittedVersion(1)
    assert land(stale, 0, 0, 10) == AlreadyCommitted(1)
    assert land(stale, 1, 0, 5) == CommittedVersion(2)
    with pytest.raises(OffsetConflict):
        land(mine, 1, 0, 7)
    assert contents(Table.open(tmp_path / "t")) == expected({0: 10, 1: 5})


def test_a_writer_that_loses_the_race_checks_offsets_again(tmp_path: Path) -> None:
    """The other writer commits the same rows between the check and the commit."""
    mine, other = new_table(tmp_path / "t"), Table.open(tmp_path / "t")
    append = mine.log.append
    beaten: list[CommittedVersion | AlreadyCommitted] = []

    def beat(version: int, actions: list[Action]) -> bool:
        if not beaten:
            beaten.append(land(other, 0, 0, 10))
        return append(version, actions)

    mine.log.append = beat  # type: ignore[method-assign, assignment]
    assert land(mine, 0, 0, 10) == AlreadyCommitted(1)
    assert beaten == [CommittedVersion(1)]
    assert contents(Table.open(tmp_path / "t")) == expected({0: 10})


def test_a_writer_that_loses_to_another_topic_commits_the_next_version(tmp_path: Path) -> None:
    mine, other = new_table(tmp_path / "t"), Table.open(tmp_path / "t")
    append = mine.log.append
    beaten: list[CommittedVersion | AlreadyCommitted] = []

    def beat(version: int, actions: list[Action]) -> bool:
        if len(beaten) < 3:
            beaten.append(land(other, 1, len(beaten), len(beaten) + 1))
        return append(version, actions)

    mine.log.append = beat  # type: ignore[method-assign, assignment]
    assert land(mine, 0, 0, 10) == CommittedVersion(4)
    assert contents(mine) == expected({0: 10, 1: 3})


def test_a_writer_that_always_loses_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "ATTEMPTS", 3)
    table = new_table(tmp_path / "t")
    table.log.append = lambda version, actions: False  # type: ignore[method-assign]
    with pytest.raises(TooManyConflicts, match="3 times in a row"):
        land(table, 0, 0, 1)


def test_an_offset_conflict_changes_nothing(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    land(table, 0, 0, 10)
    with pytest.raises(OffsetConflict):
        land(table, 0, 5, 15)
    with pytest.raises(OffsetConflict):
        land(table, 0, 12, 15)
    assert (table.version, contents(table)) == (1, expected({0: 10}))


def test_files_without_an_offset_span_are_rejected(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    files = written(table, rows(0, range(3)))
    with pytest.raises(ValueError, match="no offset moves"):
        table.commit(PIPELINE, files, {at(0): OffsetSpan(0, 0)})


def test_a_span_over_a_gap_needs_no_file(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    assert table.commit(PIPELINE, [], {at(0): OffsetSpan(0, 40)}) == CommittedVersion(1)
    assert table.offsets(PIPELINE) == {at(0): 40}


def test_new_columns_are_added_in_the_version_of_their_rows(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", ["date(timestamp)"])
    land(table, 0, 0, 3)
    wide = rows(0, range(3, 6)).append_column("user", pa.array(["a", None, "c"]))
    files = written(table, wide)
    with pytest.raises(SchemaMismatch, match=r"columns that the table lacks: \['user'\]"):
        table.commit(PIPELINE, files, {at(0): OffsetSpan(3, 6)})
    done = table.commit(PIPELINE, files, {at(0): OffsetSpan(3, 6)}, schema=wide.schema)
    assert done == CommittedVersion(2)
    assert Table.open(tmp_path / "t").schema.names == [*SCHEMA.names, "timestamp_date", "user"]
    assert Table.open(tmp_path / "t", version=1).schema.names == [*SCHEMA.names, "timestamp_date"]


def test_two_writers_can_add_different_columns(tmp_path: Path) -> None:
    one, two = new_table(tmp_path / "t"), Table.open(tmp_path / "t")
    assert one.evolve_schema(pa.schema([pa.field("a", pa.int64())])) == CommittedVersion(1)
    assert two.evolve_schema(pa.schema([pa.field("b", pa.timestamp("ms"))])) == CommittedVersion(2)
    assert two.evolve_schema(pa.schema([pa.field("a", pa.int64())])) == AlreadyCommitted(2)
    fields = Table.open(tmp_path / "t").schema
    assert (fields.field("a").type, fields.field("b").type) == (pa.int64(), TIMESTAMP)


def test_a_change_of_type_is_rejected(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    with pytest.raises(SchemaMismatch, match="'offset'"):
        table.evolve_schema(pa.schema([pa.field("offset", pa.string())]))
    assert table.version == 0


def test_a_missing_or_truncated_file_is_not_committed(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    (file,) = written(table, rows(0, range(3)))
    path = table.storage.full(decode_path(file.path))
    os.truncate(path, file.size - 1)
    with pytest.raises(TableError, match=f"should have {file.size} bytes and has {file.size - 1}"):
        table.commit(PIPELINE, [file], {at(0): OffsetSpan(0, 3)})
    os.unlink(path)
    with pytest.raises(TableError, match="is not there"):
        table.commit(PIPELINE, [file], {at(0): OffsetSpan(0, 3)})
    assert table.version == 0


def test_a_file_of_another_partitioning_is_not_committed(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", ["date(timestamp)"])
    plain = new_table(tmp_path / "plain")
    (file,) = written(plain, rows(0, range(3)))
    os.rename(plain.storage.full(file.path), table.storage.full(file.path))
    with pytest.raises(TableError, match="is for partitions by"):
        table.commit(PIPELINE, [file], {at(0): OffsetSpan(0, 3)})


def test_commit_info_is_in_the_log(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    files = written(table, rows(0, range(3)))
    table.commit(PIPELINE, files, {at(0): OffsetSpan(0, 3)}, info={"rows": "3"})
    entry = table.log.entry(1)
    assert entry is not None
    (info,) = [action["commitInfo"] for action in entry if "commitInfo" in action]
    assert json.loads(info["userMetadata"]) == {"rows": "3"}
    assert info["operation"] == "WRITE"
    assert table.snapshot.committed_ms == info["timestamp"]


def test_a_checkpoint_that_fails_does_not_fail_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tables, "CHECKPOINT_EVERY", 1)
    table = new_table(tmp_path / "t")

    def fail() -> None:
        raise OSError("no space left")

    monkeypatch.setattr(table, "checkpoint", fail)
    assert land(table, 0, 0, 3) == CommittedVersion(1)
    assert "could not write a checkpoint" in caplog.text


def test_a_table_with_unsupported_features_is_rejected(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["deletionVectors"],
    }
    table.log.append(1, [{"protocol": protocol}])
    with pytest.raises(UnsupportedProtocol, match="features: deletionVectors"):
        Table.open(tmp_path / "t")
    with pytest.raises(UnsupportedProtocol):
        table.refresh()


def test_a_data_file_round_trips_as_json() -> None:
    file = DataFile("a=b%2520c/x.parquet", 10, 2, {"a": None}, "{}", SCHEMA)
    back = DataFile.from_json(file.to_json())
    assert back == file
    assert back.schema.equals(SCHEMA)


def test_a_plan_that_raises_changes_nothing(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")

    def plan(snapshot: Snapshot) -> list[Action]:
        raise RuntimeError(f"no at {snapshot.version}")

    with pytest.raises(RuntimeError, match="no at 0"):
        table.transact("WRITE", plan)
    assert Table.open(tmp_path / "t").version == 0


def test_files_of_a_commit_that_only_seemed_to_fail_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry exists when the sync of its directory fails, so it is committed."""
    table = new_table(tmp_path / "t")
    files = written(table, rows(0, range(5)))
    fsync = os.fsync

    def fail(descriptor: int) -> None:
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith(LOG):
            raise OSError(5, "Input/output error")
        fsync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="Input/output error"):
            table.commit(PIPELINE, files, {at(0): OffsetSpan(0, 5)})
    assert table.commit(PIPELINE, files, {at(0): OffsetSpan(0, 5)}) == AlreadyCommitted(1)
    (dead,) = written(table, rows(0, range(5)))
    delete_uncommitted(table.storage, [*files, dead])
    assert contents(Table.open(tmp_path / "t")) == expected({0: 5})
    assert not os.path.exists(table.storage.full(dead.path))


def test_a_table_that_would_forget_its_offsets_is_rejected(tmp_path: Path) -> None:
    expiry = {"delta.setTransactionRetentionDuration": "interval 1 days"}
    with pytest.raises(TableError, match="would forget its offsets"):
        new_table(tmp_path / "t", properties=expiry)
    table = new_table(tmp_path / "t")
    DeltaTable(table.path).alter.set_table_properties(expiry)
    with pytest.raises(TableError, match="unset it"):
        land(table, 0, 0, 5)
    assert table.version == 1
