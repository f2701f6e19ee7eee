"""All tables of a file are vacuumed while it runs."""

import os
import threading
from pathlib import Path

import pytest

from sawlog.pipeline.landing.configuration.pipeline_config import PipelineConfig
from sawlog.pipeline.landing.configuration.pipeline_file import parse_pipeline
from sawlog.pipeline.landing.driver import vacuum_schedule
from sawlog.pipeline.landing.driver.vacuum_schedule import VacuumSchedule, vacuum_tables
from support.pipeline.landing import RecordedEvents
from support.pipeline.tables import new_table


def pipeline_with(directory: Path, *tables: str) -> PipelineConfig:
    """A pipeline whose tables exist."""
    text = "\n".join(["brokers: 127.0.0.1:1", "lake: lake", "tables:", *tables])
    pipeline = parse_pipeline(str(directory / "p.yaml"), text)
    for table in pipeline.tables:
        new_table(Path(table.path))
    return pipeline


def leave_file(table: Path) -> None:
    left = table / "sawlog-left.parquet"
    left.touch()
    os.utime(left, (0, 0))


def test_a_corrupt_table_does_not_keep_others_from_being_vacuumed(tmp_path: Path) -> None:
    pipeline = pipeline_with(tmp_path, "  bad: {topic: a}", "  good: {topic: b}")
    bad, good = (Path(table.path) for table in pipeline.tables)
    (bad / "_delta_log" / f"{1:020}.json").write_text("not JSON")
    leave_file(good)
    events = RecordedEvents()
    vacuum_tables(pipeline, events)
    assert events.lines == ["good: vacuumed 1 files"]


def test_dead_letters_and_query_tables_are_vacuumed_too(tmp_path: Path) -> None:
    pipeline = pipeline_with(tmp_path, "  a: {topic: a}", "  q: {sql: SELECT 1 FROM a}")
    dead = tmp_path / "lake" / "a__dead"
    new_table(dead)
    paths = [dead, *(Path(table.path) for table in pipeline.tables)]
    for path in paths:
        leave_file(path)
    vacuum_tables(pipeline, RecordedEvents())
    assert [list(path.glob("*.parquet")) for path in paths] == [[], [], []]


class VacuumEvents(RecordedEvents):
    """Waits for the messages of vacuums."""

    def __init__(self) -> None:
        super().__init__()
        self.vacuumed = threading.Semaphore(0)

    def report(self, table: str, text: str) -> None:
        super().report(table, text)
        self.vacuumed.release()


def test_a_long_run_vacuums_periodically(tmp_path: Path) -> None:
    pipeline = pipeline_with(tmp_path, "  a: {topic: a}")
    events = VacuumEvents()
    leave_file(Path(pipeline.tables[0].path))
    with VacuumSchedule(pipeline, events, threading.Event(), every_s=0.001):
        assert events.vacuumed.acquire(timeout=60)
        for _ in range(2):
            leave_file(Path(pipeline.tables[0].path))
            assert events.vacuumed.acquire(timeout=60)
    assert len(events.lines) == 3


def test_a_short_run_ends_after_its_first_vacuum(tmp_path: Path) -> None:
    pipeline = pipeline_with(tmp_path, *(f"  t{number}: {{topic: a}}" for number in range(20)))
    events = RecordedEvents()
    for table in pipeline.tables:
        leave_file(Path(table.path))
    with VacuumSchedule(pipeline, events, threading.Event()):
        pass
    assert len(events.lines) == 20


class SlowVacuum(RecordedEvents):
    """Holds the vacuum up until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.released = threading.Event(), threading.Event()

    def report(self, table: str, text: str) -> None:
        self.began.set()
        self.released.wait()


def test_a_run_that_is_told_to_stop_does_not_wait_for_a_vacuum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vacuum_schedule, "_LAST_WAIT_S", 0.0)
    pipeline = pipeline_with(tmp_path, "  a: {topic: a}")
    leave_file(Path(pipeline.tables[0].path))
    events, stop = SlowVacuum(), threading.Event()
    with VacuumSchedule(pipeline, events, stop):
        assert events.began.wait(60)
        stop.set()
    assert not events.released.is_set()
    events.released.set()
