"""Vacuum deletes files that no version needs, and no others."""

import os
from pathlib import Path

import pytest

from sawlog.pipeline.delta.compaction import compact
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.delta.table_storage import LOG
from sawlog.pipeline.delta.vacuum import DAY_MS, RETENTION, VacuumResult, retention_ms, vacuum
from support.pipeline.tables import contents, expected, land, new_table, rows, written

NOW_MS = 2_000_000_000_000


def age(table: Table, path: str, days: float) -> None:
    at_s = (NOW_MS - days * DAY_MS) / 1000
    os.utime(table.storage.full(path), (at_s, at_s))


def test_orphan_files_are_deleted_when_they_are_old_enough(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", ["date(timestamp)"])
    land(table, 0, 0, 10, days=2)
    (old,) = written(table, rows(0, range(10, 20)))
    (young,) = written(table, rows(0, range(20, 30)))
    for file in table.files():
        age(table, file.path, 30)
    age(table, old.path, 1.1)
    age(table, young.path, 0.9)
    assert vacuum(table, now_ms=NOW_MS) == VacuumResult(1, old.size)
    assert not (tmp_path / "t" / old.path).exists()
    assert (tmp_path / "t" / young.path).exists()
    assert contents(table) == expected({0: 10})


def test_files_of_other_writers_are_never_deleted(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    for name in ("part-1.parquet", "sawlog-notes.txt", f"{LOG}/notes.json"):
        (tmp_path / "t" / name).write_bytes(b"x")
        age(table, name, 1000)
    assert vacuum(table, now_ms=NOW_MS) == VacuumResult(0, 0)


def test_an_unfinished_log_entry_is_deleted(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    (tmp_path / "t" / LOG / ".sawlog-abc").write_bytes(b"half")
    age(table, f"{LOG}/.sawlog-abc", 2)
    assert vacuum(table, now_ms=NOW_MS).files == 1


def test_removed_files_stay_until_their_tombstone_expires(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    land(table, 0, 0, 5)
    land(table, 0, 5, 10)
    old = [file.path for file in table.files()]
    compact(None, tmp_path / "t")
    table.refresh()
    tombstone_ms = min(table.snapshot.tombstones.values())
    for path in [*old, *table.snapshot.files]:
        os.utime(table.storage.full(path), (0, 0))
    assert vacuum(table, now_ms=tombstone_ms + 6 * DAY_MS) == VacuumResult(0, 0)
    assert contents(Table.open(tmp_path / "t", version=2)) == expected({0: 10})
    assert vacuum(table, now_ms=tombstone_ms + 8 * DAY_MS).files == 2
    assert contents(Table.open(tmp_path / "t")) == expected({0: 10})


def test_a_file_committed_during_the_vacuum_stays(tmp_path: Path) -> None:
    """It is listed as an old orphan, and the log that is read afterwards has it."""
    table = new_table(tmp_path / "t")
    other = Table.open(tmp_path / "t")
    walk = table.storage.walk

    def commit_after_listing() -> list[object]:
        from sawlog.pipeline.delta.landed_offsets import OffsetSpan
        from support.pipeline.tables import PIPELINE, at

        files = written(other, rows(0, range(5)))
        age(other, files[0].path, 50)
        found = list(walk())
        other.commit(PIPELINE, files, {at(0): OffsetSpan(0, 5)})
        return found  # type: ignore[return-value]

    table.storage.walk = commit_after_listing  # type: ignore[method-assign, assignment]
    assert vacuum(table, now_ms=NOW_MS) == VacuumResult(0, 0)
    assert contents(Table.open(tmp_path / "t")) == expected({0: 5})


@pytest.mark.parametrize(
    ("interval", "expected_ms"),
    [
        ("interval 1 day", DAY_MS),
        ("INTERVAL 2 Hours", DAY_MS // 12),
        ("interval 2 weeks", 14 * DAY_MS),
        ("interval one month", 7 * DAY_MS),
    ],
)
def test_the_property_of_delta_says_how_long_removed_files_stay(
    tmp_path: Path, interval: str, expected_ms: int
) -> None:
    table = new_table(tmp_path / "t", properties={RETENTION: interval})
    assert retention_ms(table) == expected_ms
    land(table, 0, 0, 5)
    land(table, 0, 5, 10)
    compact(None, table.path)
    table.refresh()
    removed_ms = max(table.snapshot.tombstones.values())
    assert vacuum(table, orphan_ms=100 * DAY_MS, now_ms=removed_ms + expected_ms - 1).files == 0
    assert (
        vacuum(table, orphan_ms=100 * DAY_MS, now_ms=removed_ms + expected_ms + 60_000).files == 2
    )
