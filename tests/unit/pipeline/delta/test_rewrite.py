"""Upserts, and restores to earlier offsets."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sawlog.pipeline.delta.data_files import decode_path
from sawlog.pipeline.delta.errors import OffsetConflict, TableError
from sawlog.pipeline.delta.landed_offsets import OffsetSpan
from sawlog.pipeline.delta.restore import restore_offsets
from sawlog.pipeline.delta.table import AlreadyCommitted, CommittedVersion, Table
from sawlog.pipeline.delta.upsert import upsert
from support.pipeline.tables import PIPELINE, at, contents, expected, land, new_table, rows, written

KINDS = {"k": pa.string(), "g": pa.int64(), "n": pa.int64()}
COUNTS = pa.schema([pa.field(name, kind) for name, kind in KINDS.items()])


def counts(*entries: tuple[str | None, int | None, int]) -> pa.Table:
    rows = [dict(zip(KINDS, entry, strict=True)) for entry in entries]
    return pa.Table.from_pylist(rows, COUNTS)


def found(table: Table) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = []
    for file in table.files():
        path = table.storage.full(decode_path(file.path))
        for row in pq.read_table(path, partitioning=None).to_pylist():
            listed.append({**row, **file.partition_values})
    return listed


def triples(table: Table) -> list[tuple[Any, ...]]:
    return sorted(((row["k"], row["g"], row["n"]) for row in found(table)), key=repr)


def test_a_row_replaces_the_one_with_its_key(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", schema=COUNTS)
    upsert(table, counts(("a", 1, 10), ("b", 1, 20)), ["k", "g"], "q", 0)
    done = upsert(table, counts(("a", 1, 11), ("a", 2, 5)), ["k", "g"], "q", 1)
    assert done == CommittedVersion(2)
    assert triples(Table.open(tmp_path / "t")) == [("a", 1, 11), ("a", 2, 5), ("b", 1, 20)]


def test_a_repeated_batch_changes_nothing(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", schema=COUNTS)
    upsert(table, counts(("a", 1, 10)), ["k"], "q", 4)
    assert upsert(
        Table.open(tmp_path / "t"), counts(("a", 1, 99)), ["k"], "q", 4
    ) == AlreadyCommitted(1)
    assert upsert(table, counts(("a", 1, 99)), ["k"], "q", 3) == AlreadyCommitted(1)
    assert upsert(table, counts(("a", 1, 5)), ["k"], "other", 0) == CommittedVersion(2)
    assert triples(table) == [("a", 1, 5)]


def test_null_is_a_key_like_any_other(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", schema=COUNTS)
    upsert(table, counts((None, 1, 1), ("", 1, 2), (None, None, 3)), ["k", "g"], "q", 0)
    upsert(table, counts((None, 1, 10), ("", 0, 7), (None, None, 30)), ["k", "g"], "q", 1)
    assert triples(table) == sorted(
        [(None, 1, 10), ("", 1, 2), ("", 0, 7), (None, None, 30)], key=repr
    )


def test_an_empty_batch_is_recorded(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", schema=COUNTS)
    assert upsert(table, counts(), ["k"], "q", 0) == CommittedVersion(1)
    assert upsert(table, counts(("a", 1, 1)), ["k"], "q", 0) == AlreadyCommitted(1)


def test_rows_can_only_be_upserted_by_columns_that_they_have(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", schema=COUNTS)
    with pytest.raises(ValueError, match=r"not by \['x'\]"):
        upsert(table, counts(("a", 1, 1)), ["k", "x"], "q", 0)
    with pytest.raises(ValueError, match="not by none"):
        upsert(table, counts(("a", 1, 1)), [], "q", 0)


def test_windows_are_keys(tmp_path: Path) -> None:
    """Spark returns a window as a struct of two times."""
    times = [pa.field(name, pa.timestamp("us", tz="UTC")) for name in ("start", "end")]
    schema = pa.schema([pa.field("window", pa.struct(times)), pa.field("n", pa.int64())])
    table = new_table(tmp_path / "t", schema=schema)

    def batch(**counted: int) -> pa.Table:
        starts = [datetime(2026, 1, 1, 0, int(name[1:]), tzinfo=UTC) for name in counted]
        windows = [{"start": start, "end": start + timedelta(minutes=1)} for start in starts]
        return pa.table({"window": windows, "n": list(counted.values())}, schema=schema)

    upsert(table, batch(m1=1, m2=2), ["window"], "q", 0)
    upsert(table, batch(m2=20, m3=3), ["window"], "q", 1)
    assert sorted(row["n"] for row in found(table)) == [1, 3, 20]
    before = {file.path for file in table.files()}
    opened: list[str] = []
    open_input = table.storage.open_input

    def note(path: str) -> pa.NativeFile:
        opened.append(path)
        return open_input(path)

    table.storage.open_input = note  # type: ignore[method-assign]
    upsert(table, batch(m9=9), ["window"], "q", 2)
    assert before < {file.path for file in table.files()}
    assert opened == [], "files of other minutes were read"


def test_partitions_are_kept_and_files_without_a_key_are_left_alone(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", ["k"], schema=COUNTS)
    upsert(table, counts(("a", 1, 1), ("b", 100, 2)), ["g"], "q", 0)
    (untouched,) = [file for file in table.files() if file.partition_values["k"] == "b"]
    upsert(table, counts(("a", 1, 5), ("c", 2, 6)), ["g"], "q", 1)
    assert triples(table) == [("a", 1, 5), ("b", 100, 2), ("c", 2, 6)]
    assert untouched in table.files()


def test_new_columns_of_an_aggregate_are_added_to_its_table(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", schema=COUNTS)
    upsert(table, counts(("a", 1, 1), ("b", 1, 1)), ["k"], "q", 0)
    wide = counts(("a", 1, 2)).append_column("p95", pa.array([0.5]))
    upsert(table, wide, ["k"], "q", 1)
    assert Table.open(tmp_path / "t").schema.names == ["k", "g", "n", "p95"]
    assert triples(table) == [("a", 1, 2), ("b", 1, 1)]


def test_a_key_that_is_new_to_the_table_is_null_in_its_rows(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", schema=COUNTS)
    upsert(table, counts(("a", 1, 1), ("b", 1, 1)), ["k"], "q", 0)
    wide = counts(("a", 1, 2), ("b", 1, 3)).append_column("zone", pa.array([None, "eu"]))
    upsert(table, wide, ["k", "zone"], "q", 1)
    assert triples(table) == [("a", 1, 2), ("b", 1, 1), ("b", 1, 3)]


keys = st.sampled_from(["a", "b", "c", "", None])
groups = st.sampled_from([0, 1, 2**40, None])
batches = st.lists(st.lists(st.tuples(keys, groups, st.integers(0, 9)), max_size=6), max_size=5)


@settings(max_examples=30, deadline=None)
@given(batches)
def test_upserts_behave_like_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory,
    many: list[list[tuple[str | None, int | None, int]]],
) -> None:
    table = new_table(tmp_path_factory.mktemp("merge") / "t", schema=COUNTS)
    model: dict[tuple[str | None, int | None], int] = {}
    for number, batch in enumerate(many):
        upsert(table, counts(*batch), ["k", "g"], "q", number)
        model.update({(key, group): value for key, group, value in batch})
    assert triples(table) == sorted(((*key, value) for key, value in model.items()), key=repr)


def test_a_commit_of_another_writer_is_not_overwritten(tmp_path: Path) -> None:
    """It commits after the rewrite has read the table, so the rewrite starts again."""
    mine, other = new_table(tmp_path / "t", schema=COUNTS), Table.open(tmp_path / "t")
    upsert(mine, counts(("a", 1, 1)), ["k"], "mine", 0)
    transact = mine.transact
    beaten: list[object] = []

    def beat(*arguments: Any) -> CommittedVersion | AlreadyCommitted:
        if not beaten:
            beaten.append(upsert(other, counts(("a", 1, 50), ("b", 1, 60)), ["k"], "other", 0))
        return transact(*arguments)

    mine.transact = beat  # type: ignore[method-assign]
    upsert(mine, counts(("a", 1, 2)), ["k"], "mine", 1)
    assert beaten == [CommittedVersion(2)]
    assert triples(Table.open(tmp_path / "t")) == [("a", 1, 2), ("b", 1, 60)]
    known = {decode_path(path) for path in [*mine.snapshot.files, *mine.snapshot.tombstones]}
    assert {path.name for path in Path(mine.path).glob("*.parquet")} == known


def test_a_table_is_restored_and_landed_again(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", ["date(timestamp)"])
    for start in range(0, 30, 10):
        land(table, 0, start, start + 10, days=2)
        land(table, 1, start, start + 10, days=2)
    assert restore_offsets(table, PIPELINE, {at(0): 15}) == CommittedVersion(7)
    assert table.offsets(PIPELINE) == {at(0): 15, at(1): 30}
    assert contents(Table.open(tmp_path / "t")) == expected({0: 15, 1: 30})
    land(table, 0, 15, 30)
    assert contents(Table.open(tmp_path / "t")) == expected({0: 30, 1: 30})
    assert restore_offsets(table, PIPELINE, {at(0): 30}) == AlreadyCommitted(8)


def test_a_landing_during_a_restore_gets_an_offset_conflict(
    tmp_path: Path,
) -> None:
    table, landing = new_table(tmp_path / "t"), Table.open(tmp_path / "t")
    land(table, 0, 0, 20)
    restore_offsets(table, PIPELINE, {at(0): 5})
    with pytest.raises(OffsetConflict):
        land(landing, 0, 20, 30)
    assert contents(Table.open(tmp_path / "t")) == expected({0: 5})


def test_a_restore_keeps_rows_of_other_topics(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    other = rows(0, range(10)).set_column(0, "topic", pa.array(["other"] * 10))
    spans = {at(0): OffsetSpan(0, 10), at(0, "other"): OffsetSpan(0, 10)}
    table.commit(PIPELINE, written(table, rows(0, range(10)), other), spans)
    restore_offsets(table, PIPELINE, {at(0, "other"): 4})
    topics = [(row["topic"], row["offset"]) for row in found(table)]
    assert sorted(topics) == [("access", n) for n in range(10)] + [("other", n) for n in range(4)]


def test_a_table_cannot_be_restored_to_later_offsets(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    land(table, 0, 0, 10)
    with pytest.raises(TableError, match="access-0 up to offset 10: it cannot be restored to 11"):
        restore_offsets(table, PIPELINE, {at(0): 11})
