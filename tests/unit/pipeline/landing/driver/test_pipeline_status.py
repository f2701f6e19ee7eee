"""The rate of a table, by its log alone."""

from pathlib import Path

import pyarrow as pa
import pytest

from sawlog.pipeline.delta import table as tables
from sawlog.pipeline.delta.restore import restore_offsets
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.landing.driver.pipeline_status import recent_rate
from support.pipeline.tables import PIPELINE, SCHEMA, at, land, new_table


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(tables, "_now_ms", made)
    return made


def rate(path: Path) -> float | None:
    return recent_rate(Table.open(path))


def test_a_version_without_rows_does_not_count_for_the_rate(tmp_path: Path, clock: Clock) -> None:
    table = new_table(tmp_path / "t")
    table.evolve_schema(SCHEMA.append(pa.field("more", pa.int64())))
    clock.now_ms += 2
    land(table, 0, 0, 3_000)
    assert rate(tmp_path / "t") is None


def test_the_rate_covers_the_recent_commits(tmp_path: Path, clock: Clock) -> None:
    table = new_table(tmp_path / "t")
    land(table, 0, 0, 700)
    clock.now_ms += 2_000
    land(table, 0, 700, 800)
    clock.now_ms += 2_000
    land(table, 0, 800, 1_100)
    assert rate(tmp_path / "t") == 100.0


def test_old_commits_do_not_count_for_the_rate(tmp_path: Path, clock: Clock) -> None:
    table = new_table(tmp_path / "t")
    land(table, 0, 0, 700)
    clock.now_ms += 3_600_000
    land(table, 0, 700, 800)
    assert rate(tmp_path / "t") is None


def test_rewritten_rows_do_not_count_for_the_rate(tmp_path: Path, clock: Clock) -> None:
    """A replay rewrites the rows that stay."""
    table = new_table(tmp_path / "t")
    for start in (0, 700):
        land(table, 0, start, start + 700)
        clock.now_ms += 2_000
    restore_offsets(table, PIPELINE, {at(0): 1_300})
    assert rate(tmp_path / "t") == 350.0
