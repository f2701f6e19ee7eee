"""Data files: their content, their number, and their statistics."""

import json
import os
import random
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sawlog.pipeline.delta.data_files import DataFile, decode_path
from sawlog.pipeline.delta.delta_types import TIMESTAMP
from sawlog.pipeline.delta.errors import InvalidColumn
from sawlog.pipeline.delta.local_storage import LocalFile, LocalStorage
from sawlog.pipeline.delta.parquet_writer import FileWriter
from sawlog.pipeline.delta.partitioning import parse
from support.pipeline.tables import rows


def write(path: Path, *batches: pa.RecordBatch, by: tuple[str, ...] = ()) -> list[DataFile]:
    with FileWriter(LocalStorage(path), [parse(text) for text in by]) as writer:
        for batch in batches:
            writer.write(batch)
        return writer.close()


def read(path: Path, file: DataFile) -> pa.Table:
    return pq.read_table(path / decode_path(file.path), partitioning=None)


def on_disk_now(path: Path) -> set[str]:
    return {str(found.relative_to(path)) for found in path.rglob("*.parquet")}


def test_rows_keep_their_order(tmp_path: Path) -> None:
    batches = [rows(0, range(700)), rows(0, range(700, 1000))]
    (file,) = write(tmp_path, *batches)
    assert read(tmp_path, file).equals(pa.Table.from_batches(batches))
    assert file.rows == 1000
    assert file.size == os.path.getsize(tmp_path / file.path)
    assert file.schema.equals(batches[0].schema)
    assert file.partition_values == {}


def test_each_partition_has_a_file_in_a_directory_of_its_own(tmp_path: Path) -> None:
    files = write(tmp_path, rows(0, range(10), days=3), by=("date(timestamp)", "topic"))
    assert sorted(file.partition_values["timestamp_date"] or "" for file in files) == [
        "1970-01-01", "1970-01-02", "1970-01-03",
    ]  # fmt: skip
    for file in files:
        day = file.partition_values["timestamp_date"]
        assert file.path.startswith(f"timestamp_date={day}/topic=access/sawlog-")
        found = read(tmp_path, file)
        assert set(found["timestamp_date"].to_pylist()) == {date.fromisoformat(day or "")}
        assert set(found["topic"].to_pylist()) == {"access"}
        assert {"timestamp_date", "topic"}.isdisjoint(json.loads(file.stats)["nullCount"])
    assert sum(file.rows for file in files) == 10


def test_a_path_in_the_log_is_url_encoded(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pydict({"a": ["x y"], "n": [1]})
    (file,) = write(tmp_path, batch, by=("a",))
    assert file.path.startswith("a=x%2520y/")
    assert read(tmp_path, file).num_rows == 1


def test_statistics_hold_for_every_row(tmp_path: Path) -> None:
    long = "z" * 40
    batch = pa.RecordBatch.from_pydict(
        {
            "n": pa.array([3, None, -5], pa.int64()),
            "f": pa.array([1.5, float("nan"), 0.0]),
            "g": pa.array([float("inf"), 0.0, 1.0]),
            "s": pa.array([long, "a" * 40, None]),
            "b": pa.array([b"x", None, b"y"]),
            "d": pa.array([0, -1, 20_000], pa.date32()),
            "t": pa.array([1_999, -1_001, None], TIMESTAMP),
            "l": pa.array([[1], [], None], pa.list_(pa.int64())),
            "e": pa.array([None, None, None], pa.int64()),
            "st": pa.array([{"x": 1}, {"x": 9}, None], pa.struct([pa.field("x", pa.int64())])),
        }
    )
    (file,) = write(tmp_path, batch)
    stats = json.loads(file.stats)
    assert stats["numRecords"] == 3
    least, greatest, nulls = stats["minValues"], stats["maxValues"], stats["nullCount"]
    assert (least["n"], greatest["n"], nulls["n"]) == (-5, 3, 1)
    assert "g" not in least
    assert least["s"] == "a" * 32
    assert greatest["s"] > long
    assert (least["d"], greatest["d"]) == ("1969-12-31", "2024-10-04")
    assert least["t"] == "1969-12-31T23:59:59.998Z"
    assert greatest["t"] == "1970-01-01T00:00:00.002Z"
    assert "e" not in least
    assert nulls["e"] == 3
    assert (least["st"]["x"], greatest["st"]["x"], nulls["st"]["x"]) == (1, 9, 1)
    assert not {"b", "l"} & (least.keys() | greatest.keys())


def test_statistics_belong_to_their_column(tmp_path: Path) -> None:
    """Leaf columns are counted through lists, maps and structs in Parquet's order."""
    batch = pa.RecordBatch.from_pydict(
        {
            "m": pa.array([[("k", 5)]], pa.map_(pa.string(), pa.int64())),
            "l": pa.array([[{"p": 1, "q": 2}]]),
            "s": pa.array([{"in": {"deep": 3}, "out": 4}]),
            "last": pa.array([6]),
        }
    )
    (file,) = write(tmp_path, batch)
    stats = json.loads(file.stats)
    assert stats["minValues"] == {"s": {"in": {"deep": 3}, "out": 4}, "last": 6}


def test_times_out_of_range_have_no_bounds(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pydict({"t": pa.array([2**63 - 1, 0], TIMESTAMP)})
    (file,) = write(tmp_path, batch)
    assert json.loads(file.stats)["minValues"] == {}


def test_many_columns_have_statistics_for_the_first_ones_only(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pydict({f"c{number:02}": [number] for number in range(50)})
    (file,) = write(tmp_path, batch)
    assert list(json.loads(file.stats)["minValues"]) == [f"c{number:02}" for number in range(32)]


def test_a_new_column_starts_a_new_file_and_a_missing_one_does_not(tmp_path: Path) -> None:
    plain, wide = rows(0, range(3)), rows(0, range(3, 6)).append_column("u", pa.array([1, 2, 3]))
    first, second = write(tmp_path, plain, wide, rows(0, range(6, 9)), wide)
    assert first.schema.names == plain.schema.names
    assert second.schema.names == [*plain.schema.names, "u"]
    assert read(tmp_path, second)["u"].to_pylist() == [1, 2, 3, None, None, None, 1, 2, 3]


def test_a_column_that_changes_its_type_starts_a_new_file(tmp_path: Path) -> None:
    one = pa.RecordBatch.from_pydict({"a": [1], "b": ["x"]})
    two = pa.RecordBatch.from_pydict({"a": ["one"]})
    first, second = write(tmp_path, one, two)
    assert first.schema.field("a").type == pa.int64()
    assert second.schema.field("a").type == pa.string()


def test_types_that_delta_lacks_are_converted(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "t": pa.array([1], pa.timestamp("ms", tz="UTC")),
            "u": pa.array([2**63], pa.uint64()),
            "d": pa.array(["x"]).dictionary_encode(),
        }
    )
    (file,) = write(tmp_path, batch)
    back = read(tmp_path, file)
    assert back.schema.types == [TIMESTAMP, pa.decimal128(20, 0), pa.string()]
    assert back["u"][0].as_py() == 2**63


def test_a_type_that_cannot_be_stored_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidColumn):
        write(tmp_path, rows(0, range(3)), pa.RecordBatch.from_pydict({"x": pa.array([None])}))
    assert on_disk_now(tmp_path) == set()


def test_a_writer_that_fails_leaves_no_file(tmp_path: Path) -> None:
    def fail() -> None:
        by = [parse("date(timestamp)")]
        with FileWriter(LocalStorage(tmp_path), by, row_group_bytes=1) as writer:
            writer.write(rows(0, range(100), days=3))
            assert len(on_disk_now(tmp_path)) == 3
            raise RuntimeError("task failed")

    with pytest.raises(RuntimeError, match="task failed"):
        fail()
    assert on_disk_now(tmp_path) == set()


def test_a_full_disk_is_reported_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """/dev/full rejects every byte as a full disk does."""
    full = tmp_path / "full"
    full.symlink_to("/dev/full")
    monkeypatch.setattr(LocalStorage, "open_output", lambda self, path: LocalFile(str(full)))
    with pytest.raises(OSError, match="No space left on device"):
        write(tmp_path, rows(0, range(100)))
    assert list(tmp_path.iterdir()) == []


def test_no_rows_make_no_file(tmp_path: Path) -> None:
    assert write(tmp_path, rows(0, [])) == []
    assert on_disk_now(tmp_path) == set()


def test_a_file_that_is_large_enough_is_followed_by_another(tmp_path: Path) -> None:
    noise = random.Random(1)
    with FileWriter(LocalStorage(tmp_path), target_bytes=100_000, row_group_bytes=20_000) as writer:
        for _ in range(50):
            values = [noise.randbytes(1_000) for _ in range(20)]
            writer.write(pa.RecordBatch.from_pydict({"value": values}))
        files = writer.close()
    assert len(files) > 5
    assert all(100_000 <= file.size < 150_000 for file in files[:-1])
    assert sum(file.rows for file in files) == 1_000


def test_open_files_are_bounded(tmp_path: Path) -> None:
    writer = FileWriter(LocalStorage(tmp_path), [parse("n")], max_open_files=4)
    descriptors = len(os.listdir("/proc/self/fd"))
    with writer:
        for _ in range(2):
            writer.write(pa.RecordBatch.from_pydict({"n": list(range(50)), "v": ["x"] * 50}))
            assert len(os.listdir("/proc/self/fd")) <= descriptors + 5
        files = writer.close()
    assert sum(file.rows for file in files) == 100
    assert {file.partition_values["n"] for file in files} == {str(number) for number in range(50)}


def test_memory_is_bounded_over_all_partitions(tmp_path: Path) -> None:
    """Arrow's memory stays below the buffer size plus one batch."""
    before = pa.total_allocated_bytes()
    text, most = "x" * 10_000, 0
    with FileWriter(
        LocalStorage(tmp_path), [parse("n")], buffer_bytes=1_000_000, max_open_files=8
    ) as writer:
        for _ in range(60):
            writer.write(pa.RecordBatch.from_pydict({"n": list(range(8)), "v": [text] * 8}))
            most = max(most, pa.total_allocated_bytes() - before)
        files = writer.close()
    assert sum(file.rows for file in files) == 480
    assert most < 2_000_000, most
    groups = [pq.ParquetFile(tmp_path / decode_path(file.path)).num_row_groups for file in files]
    assert max(groups) > 1


def test_files_and_directories_are_synced_before_close_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    root = tmp_path / "new"
    (file,) = write(root, rows(0, range(3)), by=("date(timestamp)",))
    full = root / decode_path(file.path)
    assert synced == [str(full), str(full.parent), f"{root}/".rstrip("/"), str(tmp_path)]
