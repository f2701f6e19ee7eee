"""Loading a log with, without and with broken checkpoints; deltalake is the reference."""

import os
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from sawlog.pipeline.delta import table as tables
from sawlog.pipeline.delta.compaction import compact
from sawlog.pipeline.delta.delta_log import TOMBSTONE_RETENTION_MS, Action, DeltaLog, Snapshot
from sawlog.pipeline.delta.errors import CorruptLog, TableNotFound, UnsupportedProtocol
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.delta.table_storage import LOG
from support.pipeline.tables import PIPELINE, at, contents, expected, land, new_table

LONG_AGO_S = 1_000_000


def same(one: Snapshot, two: Snapshot) -> None:
    for name in ("version", "protocol", "metadata", "transactions", "files", "tombstones"):
        assert getattr(one, name) == getattr(two, name), name


def logged(path: Path) -> list[Path]:
    return sorted((path / LOG).iterdir())


def busy_table(path: Path, properties: dict[str, str] | None = None) -> Table:
    """A table with ten versions: a new column, commits of two partitions, a compaction."""
    table = new_table(path, ["date(timestamp)"], {at(0): 0, at(7): 3}, properties=properties)
    table.evolve_schema(pa.schema([pa.field("later", pa.struct([pa.field("x", pa.int64())]))]))
    for number in range(4):
        land(table, 0, number * 5, number * 5 + 5, days=2)
        land(table, 1, number * 5, number * 5 + 5, days=2)
    compact(None, path)
    table.refresh()
    return table


def test_the_snapshot_equals_that_of_deltalake(tmp_path: Path) -> None:
    table = busy_table(tmp_path / "t")
    theirs = DeltaTable(str(tmp_path / "t"))
    assert theirs.version() == table.version
    for application, version in table.snapshot.transactions.items():
        assert theirs.transaction_version(application) == version
    paths = {f"{table.path}/{file.path}" for file in table.files()}
    assert set(theirs.file_uris()) == paths
    assert theirs.metadata().partition_columns == ["timestamp_date"]
    adds = pa.table(theirs.get_add_actions(flatten=True))
    assert sum(adds["num_records"].to_pylist()) == 40
    protocol = theirs.protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)


def test_a_checkpoint_gives_the_same_snapshot_as_the_entries(tmp_path: Path) -> None:
    table = busy_table(tmp_path / "t")
    before = DeltaLog(table.storage).snapshot()
    table.checkpoint()
    for path in logged(tmp_path / "t"):
        if path.suffix == ".json":
            path.unlink()
    after = DeltaLog(table.storage).snapshot()
    same(before, after)


def test_a_table_can_be_loaded_from_a_checkpoint_alone(tmp_path: Path) -> None:
    """Commits on such a snapshot must be readable by others too."""
    table = busy_table(tmp_path / "t")
    table.checkpoint()
    for path in logged(tmp_path / "t"):
        if path.suffix == ".json":
            path.unlink()
    table = Table.open(tmp_path / "t")
    land(table, 0, 20, 25)
    table.evolve_schema(pa.schema([pa.field("new", pa.string())]))
    theirs = DeltaTable(str(tmp_path / "t"))
    assert theirs.version() == table.version
    assert [field.name for field in theirs.schema().fields] == table.schema.names
    assert contents(Table.open(tmp_path / "t")) == expected({0: 25, 1: 20})


def test_a_torn_checkpoint_is_skipped(tmp_path: Path) -> None:
    table = busy_table(tmp_path / "t")
    table.checkpoint()
    (checkpoint,) = [path for path in logged(tmp_path / "t") if ".checkpoint." in path.name]
    for size in (0, 5, checkpoint.stat().st_size // 2):
        os.truncate(checkpoint, size)
        same(Table.open(tmp_path / "t").snapshot, table.snapshot)


def test_checkpoints_are_written_automatically(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "CHECKPOINT_EVERY", 4)
    table = busy_table(tmp_path / "t")
    names = [path.name for path in logged(tmp_path / "t") if ".checkpoint." in path.name]
    assert [int(name.partition(".")[0]) for name in names] == [4, 8]
    same(Table.open(tmp_path / "t").snapshot, table.snapshot)


def test_offsets_survive_log_cleanup(tmp_path: Path) -> None:
    """A partition keeps its offset although the entry that stored it is gone."""
    path = tmp_path / "t"
    table = busy_table(path, {"delta.logRetentionDuration": "interval 1 hours"})
    for entry in logged(path):
        os.utime(entry, (LONG_AGO_S, LONG_AGO_S))
    before = DeltaLog(table.storage).snapshot()
    for start in range(20, 26):  # a checkpoint, a later one, and entries after both
        land(table, 1, start, start + 1)
        table.checkpoint()
    land(table, 1, 26, 27)
    kept = [int(entry.name[:20]) for entry in logged(path) if entry.suffix == ".json"]
    assert 0 not in kept, "nothing was cleaned up: the test tests nothing"
    after = Table.open(path)
    assert after.offsets(PIPELINE) == {at(0): 20, at(1): 27, at(7): 3}
    assert after.snapshot.transactions.items() >= {"lake-access/access/7": 3}.items()
    assert before.metadata == after.snapshot.metadata
    assert contents(after) == expected({0: 20, 1: 27})
    assert DeltaTable(str(path)).transaction_version("lake-access/access/7") == 3


def test_a_handle_from_before_a_log_cleanup_does_not_reuse_versions(tmp_path: Path) -> None:
    """The file name of its next version is free again, but must not be taken."""
    path = tmp_path / "t"
    table = busy_table(path)
    stale = Table.open(path, version=2)
    table.checkpoint()
    for entry in logged(path):
        if entry.suffix == ".json" and int(entry.stem) < table.version:
            entry.unlink()
    done = land(stale, 1, 20, 21)
    assert done.version == table.version + 1
    assert contents(Table.open(path)) == expected({0: 20, 1: 21})


def test_a_version_whose_entries_were_cleaned_up_cannot_be_loaded(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = busy_table(path)
    table.checkpoint()
    (path / LOG / f"{2:020}.json").unlink()
    with pytest.raises(TableNotFound, match="entry 2 of its log was cleaned up"):
        Table.open(path, version=5)
    assert Table.open(path, version=1).version == 1
    assert Table.open(path).version == table.version


def test_a_log_entry_that_is_not_json_is_named(tmp_path: Path) -> None:
    table = busy_table(tmp_path / "t")
    (tmp_path / "t" / LOG / f"{3:020}.json").write_bytes(b'{"add": {"pa')
    with pytest.raises(CorruptLog, match=r"0003\.json is not a log entry"):
        DeltaLog(table.storage).snapshot()


def test_a_handle_never_passes_a_version_with_another_protocol(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    newer = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7}}
    assert table.log.append(1, [newer])
    for _ in range(2):
        with pytest.raises(UnsupportedProtocol):
            table.refresh()
        with pytest.raises(UnsupportedProtocol):
            land(table, 0, 0, 5)
    assert table.version == 0
    assert DeltaLog(table.storage).versions() == [0, 1]


def test_multi_part_checkpoints_are_read_if_complete(tmp_path: Path) -> None:
    table = busy_table(tmp_path / "t")
    table.checkpoint()
    directory = tmp_path / "t" / LOG
    whole = next(path for path in logged(tmp_path / "t") if ".checkpoint." in path.name)
    actions = pa.parquet.read_table(whole)
    whole.unlink()
    half = actions.num_rows // 2
    for number, part in enumerate((actions.slice(0, half), actions.slice(half)), 1):
        name = f"{table.version:020}.checkpoint.{number:010}.{2:010}.parquet"
        pa.parquet.write_table(part, directory / name)
    for path in logged(tmp_path / "t"):
        if path.suffix == ".json":
            path.unlink()
    same(Table.open(tmp_path / "t").snapshot, table.snapshot)
    (directory / f"{table.version:020}.checkpoint.{2:010}.{2:010}.parquet").unlink()
    with pytest.raises(TableNotFound):
        Table.open(tmp_path / "t")


def test_a_handle_does_not_continue_on_a_table_that_was_created_again(tmp_path: Path) -> None:
    """Otherwise its next commit would leave a gap in the log."""
    table = busy_table(tmp_path / "t")
    shutil.rmtree(tmp_path / "t")
    new_table(tmp_path / "t", ["date(timestamp)"])
    with pytest.raises(TableNotFound, match="was deleted and created again"):
        land(table, 0, 20, 25)
    assert Table.open(tmp_path / "t").version == 0


def test_a_long_lived_handle_expires_tombstones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(tmp_path / "t")
    now_ms = time.time_ns() // 1_000_000
    ages_ms = {"old": TOMBSTONE_RETENTION_MS + 60_000, "young": TOMBSTONE_RETENTION_MS - 60_000}
    gone: list[Action] = [
        {"remove": {"path": name, "deletionTimestamp": now_ms - age_ms, "dataChange": True}}
        for name, age_ms in ages_ms.items()
    ]
    table.transact("DELETE", lambda _: gone)
    assert set(table.snapshot.tombstones) == {"old", "young"}
    monkeypatch.setattr(tables, "CHECKPOINT_EVERY", 1)
    land(table, 0, 0, 5)
    assert set(table.snapshot.tombstones) == {"young"}
    assert set(Table.open(tmp_path / "t").snapshot.tombstones) == {"young"}
