"""Compaction reduces the number of files and keeps every row once."""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sawlog.pipeline.delta.compaction import (
    FileGroup,
    commit_compaction,
    compact,
    compact_tiers,
    merge_files,
    plan_groups,
    plan_tiers,
)
from sawlog.pipeline.delta.data_files import decode_path
from sawlog.pipeline.delta.delta_log import ActiveFile
from sawlog.pipeline.delta.errors import FileConflict, TableError
from sawlog.pipeline.delta.landed_offsets import OffsetSpan
from sawlog.pipeline.delta.merge import KEY, KEYED_TARGET_BYTES
from sawlog.pipeline.delta.table import CommittedVersion, Table
from support.pipeline.tables import PIPELINE, at, contents, expected, land, new_table, rows, written

sizes = st.lists(st.tuples(st.integers(1, 300), st.sampled_from(["x", "y", None])), max_size=40)


@given(sizes)
def test_groups_have_each_small_file_once_within_partition_and_size(
    given_files: list[tuple[int, str | None]],
) -> None:
    files = [
        ActiveFile(f"{number}", size, {"p": value}, number, None)
        for number, (size, value) in enumerate(given_files)
    ]
    groups = plan_groups(files, 200)
    taken = [file.path for group in groups for file in group.files]
    assert len(set(taken)) == len(taken)
    for group in groups:
        assert len(group.files) > 1
        assert len({file.partition_values["p"] for file in group.files}) == 1
        assert all(file.size < 150 for file in group.files)
        assert sum(file.size for file in group.files) <= 200
    left = [file for file in files if file.path not in taken and file.size < 150]
    for value in ("x", "y", None):  # a file is left alone only if no neighbour fits
        alone = [file for file in left if file.partition_values["p"] == value]
        together = [group for group in groups if group.files[0].partition_values["p"] == value]
        assert len(alone) <= len(together) + sum(file.size > 50 for file in alone) + 1


@given(sizes, st.integers(1, 5))
def test_tiers_have_more_files_than_allowed_and_of_similar_size(
    given_files: list[tuple[int, str | None]], most: int
) -> None:
    files = [
        ActiveFile(f"{number}", size * 16, {"p": value}, number, None)
        for number, (size, value) in enumerate(given_files)
    ]
    groups = plan_tiers(files, most, 3_200)
    taken = {file.path for group in groups for file in group.files}
    for group in groups:
        assert len({file.partition_values["p"] for file in group.files}) == 1
        sizes = [file.size for file in group.files]
        assert max(sizes) <= 8 * min(sizes) or max(sizes) < 3_200 // 64
        assert sum(sizes) <= 3_200
    for low, high in ((50, 400), (400, 2_400)):
        for value in ("x", "y", None):
            alike = [file.path for file in files if low <= file.size < high
                     and file.partition_values["p"] == value]  # fmt: skip
            assert len(alike) > most or not taken & set(alike)


def test_frequent_commits_leave_few_files_and_rewrite_rows_a_few_times(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    written_bytes = most_files = 0
    for number in range(100):
        land(table, 0, number, number + 1)
        done = compact_tiers(tmp_path / "t", 5, 40_000)
        written_bytes += done.bytes_after
        table.refresh()
        most_files = max(most_files, len(table.files()))
    assert contents(table) == expected({0: 100})
    assert most_files <= 4 * 5 + 3
    assert written_bytes < 100 * 2_500, "each row alone is a file of about 1,700 bytes"


@pytest.mark.parametrize(("properties", "groups"), [({}, 20), ({KEY: '["offset"]'}, 8)])
def test_upkeep_of_a_keyed_table_makes_few_commits(
    tmp_path: Path, properties: Mapping[str, str], groups: int
) -> None:
    table = new_table(tmp_path / "t", ["date(timestamp)"], properties=properties)
    for start in range(0, 60, 20):
        land(table, 0, start, start + 20, days=20)
    done = compact_tiers(tmp_path / "t", 2)
    assert (done.files_before, done.files_after) == (3 * groups, groups)
    table.refresh()
    assert contents(table) == expected({0: 60})


def test_full_files_of_a_keyed_table_are_smaller() -> None:
    """They are left alone, although they are small for another table."""
    files = [ActiveFile(f"{number}", 30_000_000, {}, number, None) for number in range(30)]
    assert plan_tiers(files, 20)
    assert not plan_tiers(files, 20, KEYED_TARGET_BYTES)


def many(path: Path) -> Table:
    table = new_table(path, ["date(timestamp)"])
    for start in range(0, 50, 5):
        land(table, 0, start, start + 5, days=2)
    return table


def test_compaction_keeps_the_rows_in_fewer_files(tmp_path: Path) -> None:
    table = many(tmp_path / "t")
    done = compact(None, tmp_path / "t")
    assert (done.files_before, done.files_after, done.conflicts) == (20, 2, 0)
    table.refresh()
    assert len(table.files()) == 2
    assert contents(table) == expected({0: 50})
    assert contents(Table.open(tmp_path / "t", version=10)) == expected({0: 50})
    assert table.detail().rows == 50
    assert table.offsets(PIPELINE) == {at(0): 50}


def test_a_second_compaction_finds_nothing_to_do(tmp_path: Path) -> None:
    table = many(tmp_path / "t")
    compact(None, tmp_path / "t")
    table.refresh()
    version = table.version
    assert compact(None, tmp_path / "t").files_before == 0
    table.refresh()
    assert table.version == version


def test_a_compaction_commits_without_data_change(tmp_path: Path) -> None:
    table = many(tmp_path / "t")
    compact(None, tmp_path / "t")
    table.refresh()
    entry = table.log.entry(table.version)
    assert entry is not None
    bodies = [body for action in entry for kind, body in action.items() if kind != "commitInfo"]
    assert {body["dataChange"] for body in bodies} == {False}


def test_files_from_before_a_new_column_merge_with_those_after(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    land(table, 0, 0, 3)
    wide = rows(0, range(3, 6)).append_column("user", pa.array(["a", "b", "c"]))
    table.commit(PIPELINE, written(table, wide), {at(0): OffsetSpan(3, 6)}, schema=wide.schema)
    assert compact(None, tmp_path / "t").files_after == 1
    table.refresh()
    assert contents(table) == expected({0: 6})


def test_two_compactions_of_the_same_files_do_not_duplicate_rows(tmp_path: Path) -> None:
    mine = many(tmp_path / "t")
    other = Table.open(tmp_path / "t")
    groups = plan_groups(mine.files())
    merged = [
        merge_files(mine.storage, group, mine.schema, mine.partition_columns) for group in groups
    ]
    again = merge_files(mine.storage, groups[0], mine.schema, mine.partition_columns)
    assert isinstance(commit_compaction(other, groups[0].files, merged[0]), CommittedVersion)
    with pytest.raises(FileConflict, match="no longer part of"):
        commit_compaction(mine, groups[0].files, again)
    commit_compaction(mine, groups[1].files, merged[1])
    assert contents(Table.open(tmp_path / "t")) == expected({0: 50})


def test_a_landing_during_a_compaction_does_not_conflict(tmp_path: Path) -> None:
    mine = many(tmp_path / "t")
    (first, *_) = plan_groups(mine.files())
    merged = merge_files(mine.storage, first, mine.schema, mine.partition_columns)
    land(Table.open(tmp_path / "t"), 0, 50, 60)
    commit_compaction(mine, first.files, merged)
    assert contents(Table.open(tmp_path / "t")) == expected({0: 60})


def test_a_compaction_that_lost_a_row_is_not_committed(tmp_path: Path) -> None:
    table = many(tmp_path / "t")
    (first, *_) = plan_groups(table.files())
    fewer = FileGroup(first.files[1:])
    merged = merge_files(table.storage, fewer, table.schema, table.partition_columns)
    with pytest.raises(TableError, match="nothing is replaced"):
        commit_compaction(table, first.files, merged)
    assert contents(Table.open(tmp_path / "t")) == expected({0: 50})


def test_a_compaction_with_a_conflict_leaves_no_file_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another compaction replaces every group after this one was planned."""
    from sawlog.pipeline.delta import compaction

    table = many(tmp_path / "t")
    run = compaction._run

    def late(*arguments: object) -> object:
        found = list(run(*arguments))  # type: ignore[arg-type]
        monkeypatch.setattr(compaction, "_run", run)
        compact(None, tmp_path / "t")
        return found

    monkeypatch.setattr(compaction, "_run", late)
    assert compact(None, tmp_path / "t").conflicts == 2
    table.refresh()
    known = {decode_path(path) for path in [*table.snapshot.files, *table.snapshot.tombstones]}
    found = {str(path.relative_to(table.path)) for path in Path(table.path).rglob("*.parquet")}
    assert found == known
    assert contents(table) == expected({0: 50})
