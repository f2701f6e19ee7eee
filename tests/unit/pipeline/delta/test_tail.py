"""Every added row is read once, in batches of any size, also after a restart."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from sawlog.pipeline.delta.compaction import compact
from sawlog.pipeline.delta.data_files import decode_path
from sawlog.pipeline.delta.delta_types import to_json
from sawlog.pipeline.delta.file_scan import scan_file
from sawlog.pipeline.delta.restore import restore_offsets
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.delta.table_source import TableOptions, TableStreamReader
from sawlog.pipeline.delta.table_storage import LOG
from sawlog.pipeline.delta.tail import (
    RowsRemoved,
    SchemaChanged,
    SourceRewritten,
    TableTail,
    TailPosition,
)
from support.pipeline.tables import PIPELINE, SCHEMA, at, land, new_table


def offsets(table: Table, follower: TableTail, start: TailPosition, end: TailPosition) -> list[int]:
    seen: list[int] = []
    for file in follower.between(start, end):
        schema, values = table.schema, file.partition_values
        for batch in scan_file(table.storage, file.path, schema, values):
            seen += batch.column("offset").to_pylist()
    return sorted(seen)


def test_a_tail_reads_the_snapshot_and_then_new_versions(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", ["date(timestamp)"])
    land(table, 0, 0, 10, days=3)
    follower = TableTail(table.path)
    start = follower.snapshot_start()
    assert start == TailPosition(1, 0, whole=True)
    end = follower.advance(start)
    assert end == TailPosition(2, 0)
    assert offsets(table, follower, start, end) == list(range(10))
    assert follower.advance(end) == end
    land(table, 0, 10, 20, days=3)
    land(table, 0, 20, 25)
    later = follower.advance(end)
    assert later == TailPosition(4, 0)
    assert offsets(table, follower, end, later) == list(range(10, 25))


@pytest.mark.parametrize("limit", [{"max_files": 1}, {"max_files": 2}, {"max_bytes": 1}])
def test_batches_of_a_bounded_size_hold_each_row_once(
    tmp_path: Path, limit: dict[str, int]
) -> None:
    table = new_table(tmp_path / "t", ["date(timestamp)"])
    for start in range(0, 40, 10):
        land(table, 0, start, start + 10, days=3)
    first = TableTail(table.path)
    at_position = first.snapshot_start()
    for start in range(40, 60, 10):
        land(table, 0, start, start + 10, days=2)
    seen: list[int] = []
    for _ in range(100):
        follower = TableTail(table.path)  # each batch after a restart
        end = follower.advance(at_position, **limit)
        if end == at_position:
            break
        assert len(follower.between(at_position, end)) <= limit.get("max_files", 1)
        seen += offsets(table, follower, at_position, end)
        at_position = TailPosition.from_json(end.to_json())
    assert sorted(seen) == list(range(60))


def test_a_tail_from_the_end_reads_only_new_versions(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    land(table, 0, 0, 10)
    follower = TableTail(table.path)
    start = follower.end_position()
    land(table, 0, 10, 12)
    assert offsets(table, follower, start, follower.advance(start)) == [10, 11]


def test_a_target_is_not_passed(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    land(table, 0, 0, 10)
    follower = TableTail(table.path)
    start, target = follower.snapshot_start(), follower.end_position()
    land(table, 0, 10, 20)
    end = follower.advance(start, target=target)
    assert end == target
    assert follower.advance(end, target=target) == end
    assert offsets(table, follower, start, end) == list(range(10))


def test_a_compaction_adds_no_rows(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    follower = TableTail(table.path)
    start = follower.snapshot_start()
    for number in range(4):
        land(table, 0, number, number + 1)
    compact(None, table.path)
    land(table, 0, 4, 5)
    end = follower.advance(start)
    assert offsets(table, follower, start, end) == [0, 1, 2, 3, 4]
    assert end == TailPosition(7, 0)


def test_the_start_snapshot_is_the_same_after_a_compaction(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    for number in range(4):
        land(table, 0, number, number + 1)
    start = TableTail(table.path).snapshot_start()
    middle = TableTail(table.path).advance(start, max_files=2)
    compact(None, table.path)
    follower = TableTail(table.path)
    end = follower.advance(middle)
    found = [
        offsets(table, follower, start, middle),
        offsets(table, follower, middle, end),
    ]
    assert sorted(found[0] + found[1]) == [0, 1, 2, 3]


def test_removed_rows_stop_a_stream_unless_it_skips_them(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    land(table, 0, 0, 10)
    start = TableTail(table.path).end_position()
    restore_offsets(table, PIPELINE, {at(0): 5})
    land(table, 0, 5, 7)
    with pytest.raises(RowsRemoved, match=r"version 2 .* removed rows"):
        TableTail(table.path).advance(start)
    follower = TableTail(table.path, skip_changes=True)
    end = follower.advance(start)
    assert offsets(table, follower, start, end) == [5, 6]


WIDER = SCHEMA.append(pa.field("more", pa.int64()))


def test_a_batch_ends_before_new_columns(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    land(table, 0, 0, 10)
    reader = TableTail(table.path, columns=SCHEMA)
    start = reader.snapshot_start()
    land(table, 0, 10, 12)
    table.evolve_schema(WIDER)
    land(table, 0, 12, 14)
    end = reader.advance(start)
    assert offsets(table, reader, start, end) == list(range(12))
    with pytest.raises(SchemaChanged, match=r"version 3 of .* started without: 'more'"):
        reader.advance(end)
    again = TableTail(table.path, columns=WIDER)
    assert offsets(table, again, end, again.advance(end)) == [12, 13]
    land(table, 0, 14, 15)
    assert offsets(table, again, start, again.advance(start)) == list(range(15))


def test_rows_with_new_columns_are_not_read_with_the_old_ones(tmp_path: Path) -> None:
    """Neither in a batch planned by another reader, nor in the start snapshot."""
    table = new_table(tmp_path / "t")
    start = TableTail(table.path).end_position()
    table.evolve_schema(WIDER)
    land(table, 0, 0, 2)
    reader, knowing = TableTail(table.path, columns=SCHEMA), TableTail(table.path, columns=WIDER)
    for begun in (start, knowing.snapshot_start()):
        with pytest.raises(SchemaChanged):
            reader.between(begun, knowing.advance(begun))
        with pytest.raises(SchemaChanged):
            reader.advance(begun)


def test_new_columns_behind_the_target_are_left_to_the_next_run(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    land(table, 0, 0, 2)
    reader = TableTail(table.path, columns=SCHEMA)
    start, target = reader.snapshot_start(), reader.end_position()
    table.evolve_schema(WIDER)
    assert reader.advance(start, target=target) == target
    assert reader.advance(target, target=target) == target


def test_columns_removed_since_do_not_make_a_reader_restart_for_ever(
    tmp_path: Path,
) -> None:
    """Another writer of Delta tables may remove columns."""
    table = new_table(tmp_path / "t")
    start = TableTail(table.path).end_position()
    table.evolve_schema(WIDER)
    narrow = {"metaData": {**table.snapshot.metadata, "schemaString": to_json(SCHEMA)}}
    table.transact("REPLACE", lambda _: [narrow])
    with pytest.raises(RowsRemoved, match=r"version 1 .* removed since: 'more'"):
        TableTail(table.path, columns=SCHEMA).advance(start)
    skipping = TableTail(table.path, columns=SCHEMA, skip_changes=True)
    assert skipping.advance(start) == TailPosition(3, 0)


def test_a_stream_behind_the_log_retention_fails(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    start = TableTail(table.path).end_position()
    for number in range(4):
        land(table, 0, number, number + 1)
    table.checkpoint()
    for version in range(3):
        (tmp_path / "t" / LOG / f"{version:020}.json").unlink()
    with pytest.raises(SourceRewritten, match=r"version 1 .* was cleaned up before the stream"):
        TableTail(table.path).advance(start)


def test_partition_columns_come_from_the_log(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", ["date(timestamp)", "topic"])
    land(table, 0, 0, 3, days=3)
    found = []
    for file in table.files():
        assert decode_path(file.path).startswith("timestamp_date=")
        for batch in scan_file(table.storage, file.path, table.schema, file.partition_values):
            assert batch.schema.equals(table.schema)
            found += [(str(row["timestamp_date"]), row["topic"]) for row in batch.to_pylist()]
    assert sorted(found) == [(f"1970-01-0{day}", "access") for day in (1, 2, 3)]


def test_a_table_behind_its_stream_is_an_error(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    for number in range(4):
        land(table, 0, number, number + 1)
    start = TableTail(table.path).end_position()
    shutil.rmtree(table.path)
    land(new_table(tmp_path / "t"), 0, 0, 1)
    with pytest.raises(SourceRewritten, match=r"version 4 of .* was read .* the table is at 1"):
        TableTail(table.path).advance(start)


def test_a_position_of_another_table_is_rejected(
    tmp_path: Path,
) -> None:
    table = new_table(tmp_path / "t")
    land(table, 0, 0, 1)
    start = reader_of(table).initialOffset()
    end = reader_of(table).latestOffset(start, ReadAllAvailable())
    assert len(reader_of(table).partitions(start, end)) == 1
    shutil.rmtree(table.path)
    anew = new_table(tmp_path / "t")
    for number in range(4):
        land(anew, 0, number, number + 1)
    with pytest.raises(SourceRewritten, match=r"version 2 of another table"):
        reader_of(anew).latestOffset(end, ReadAllAvailable())
    with pytest.raises(SourceRewritten, match=r"version 2 of another table"):
        reader_of(anew).partitions(start, end)


def reader_of(table: Table) -> TableStreamReader:
    """A reader as after a restart."""
    return TableStreamReader(TableOptions({"path": table.path}), table.schema)
