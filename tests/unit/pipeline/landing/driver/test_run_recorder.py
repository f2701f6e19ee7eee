"""Drivers record the states of their tables in the lake, and notice each other."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from sawlog.pipeline.delta.table_storage import TableStorage, open_storage
from sawlog.pipeline.landing.configuration.pipeline_config import PipelineConfig
from sawlog.pipeline.landing.configuration.pipeline_file import parse_pipeline
from sawlog.pipeline.landing.driver import run_recorder
from sawlog.pipeline.landing.driver.driver_records import (
    DRIVERS,
    SILENT_MS,
    DriverRecord,
    RunState,
    SeenDriver,
    TableRun,
    new_record,
    read_drivers,
    record_path,
)
from sawlog.pipeline.landing.driver.run_recorder import RunRecorder
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure
from support.pipeline.landing import RecordedEvents

LOSS = LandingFailure(FailureKind.DATA_LOSS, "offsets 3 to 4 are lost")


@pytest.fixture
def now_ms(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The time, which a test sets."""
    now = [1_000_000]
    monkeypatch.setattr(run_recorder, "_now_ms", lambda: now[0])
    return now


def pipeline_with(directory: Path, *names: str) -> PipelineConfig:
    tables = [f"  {name}: {{topic: a, group: {name}}}" for name in names]
    text = "\n".join(["brokers: 127.0.0.1:1", "lake: lake", "tables:", *tables])
    return parse_pipeline(str(directory / "p.yaml"), text)


def lake_of(pipeline: PipelineConfig) -> TableStorage:
    return open_storage(pipeline.lake)


def run_of(pipeline: PipelineConfig, table: str) -> TableRun:
    (seen,) = read_drivers(lake_of(pipeline))
    return seen.record.tables[table]


def died(pipeline: PipelineConfig, *tables: str) -> DriverRecord:
    """The record of a driver on this machine whose process has ended."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    record = replace(new_record("dead", tables, 5), pid=child.pid)
    lake_of(pipeline).put(record_path(record.id), record.to_json())
    return record


def test_states_are_in_the_lake_with_their_reason_and_time(
    tmp_path: Path, now_ms: list[int]
) -> None:
    pipeline, events = pipeline_with(tmp_path, "t", "u"), RecordedEvents()
    recorder = RunRecorder(pipeline, events)
    recorder.state_changed("t", RunState.RUNNING)
    now_ms[0] += 50
    recorder.state_changed("u", RunState.STOPPED, LOSS)
    recorder.beat()
    assert run_of(pipeline, "t") == TableRun(RunState.RUNNING, 1_000_000)
    assert run_of(pipeline, "u") == TableRun(
        RunState.STOPPED, 1_000_050, LOSS.message, FailureKind.DATA_LOSS
    )
    assert [state for _, state, _ in events.states] == [RunState.RUNNING, RunState.STOPPED]


def test_records_that_wait_while_none_land_are_noticed(tmp_path: Path, now_ms: list[int]) -> None:
    pipeline = pipeline_with(tmp_path, "t")
    recorder = RunRecorder(pipeline, RecordedEvents())

    def behind_since(done: int, ends: int) -> int | None:
        now_ms[0] += 1_000
        recorder.progress_measured("t", done, ends)
        recorder.beat()
        return run_of(pipeline, "t").behind_since_ms

    assert behind_since(0, 10) is None
    assert behind_since(0, 10) == 1_002_000
    assert behind_since(0, 20) == 1_002_000
    assert behind_since(5, 20) is None
    assert behind_since(5, 20) == 1_005_000
    assert behind_since(20, 20) is None
    assert run_of(pipeline, "t").measured_ms == 1_006_000


def test_a_driver_that_ends_says_so(tmp_path: Path) -> None:
    pipeline = pipeline_with(tmp_path, "t")
    with RunRecorder(pipeline, RecordedEvents()):
        pass
    (seen,) = read_drivers(lake_of(pipeline))
    assert seen.record.ended_ms is not None
    assert not seen.is_alive(seen.modified_ms)


def test_a_driver_is_gone_without_heartbeats(tmp_path: Path) -> None:
    record = replace(new_record("a", ["t"], 0), machine="another")
    seen = SeenDriver(record, 1_000)
    assert seen.is_alive(1_000 + SILENT_MS - 1)
    assert not seen.is_alive(1_000 + SILENT_MS)
    assert not SeenDriver(died(pipeline_with(tmp_path, "t"), "t"), 1_000).is_alive(1_001)


def test_a_killed_driver_is_gone_before_its_parent_has_waited() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        seen = SeenDriver(replace(new_record("a", ["t"], 0), pid=child.pid), 1_000)
        assert seen.is_alive(1_001)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it stays a zombie
        assert not seen.is_alive(1_001)


def test_a_silent_driver_on_this_machine_is_alive_unless_its_process_is_a_later_one() -> None:
    silent_ms = 1_000 + SILENT_MS
    here = new_record("a", ["t"], time.time_ns() // 1_000_000)
    assert SeenDriver(here, 1_000).is_alive(silent_ms)
    before_this_process = SeenDriver(replace(here, started_ms=0), 1_000)
    assert before_this_process.is_alive(silent_ms - 1)
    assert not before_this_process.is_alive(silent_ms)


def test_the_record_of_a_dead_driver_stays_until_its_tables_are_recorded(tmp_path: Path) -> None:
    both, one = pipeline_with(tmp_path, "t", "u"), pipeline_with(tmp_path, "t")
    died(both, "t", "u")
    RunRecorder(one, RecordedEvents()).beat()
    assert len(read_drivers(lake_of(both))) == 2
    RunRecorder(both, RecordedEvents()).beat()
    assert "dead" not in [seen.record.id for seen in read_drivers(lake_of(both))]


def test_two_drivers_are_told_that_they_are_two(tmp_path: Path) -> None:
    pipeline = pipeline_with(tmp_path, "t")
    events = [RecordedEvents(), RecordedEvents()]
    first, second = (RunRecorder(pipeline, mine) for mine in events)
    first.beat()
    second.beat()
    assert events[1].lines == [], "the first may have died just now"
    _wait_for_another_time(pipeline)
    first.beat()
    second.beat()
    second.beat()
    (line,) = events[1].lines
    assert line.startswith("sawlog: another driver runs the same tables (t): ")
    assert f"process {os.getpid()}, since " in line
    assert events[0].lines == []
    first.beat()
    assert len(events[0].lines) == 1


def _wait_for_another_time(pipeline: PipelineConfig) -> None:
    """Set the files' times back, since two heartbeats of a test may be in one millisecond."""
    for name in lake_of(pipeline).names(DRIVERS):
        os.utime(Path(pipeline.lake) / DRIVERS / name, (1, 1))


def test_drivers_of_other_tables_are_not_reported(tmp_path: Path) -> None:
    events = RecordedEvents()
    first = RunRecorder(pipeline_with(tmp_path, "t"), RecordedEvents())
    second = RunRecorder(pipeline_with(tmp_path, "u"), events)
    for _ in range(3):
        first.beat()
        second.beat()
        _wait_for_another_time(pipeline_with(tmp_path, "t"))
    assert events.lines == []


def test_a_lake_that_cannot_be_written_to_delays_nothing(tmp_path: Path) -> None:
    pipeline = pipeline_with(tmp_path, "t")
    (tmp_path / "lake").write_text("a file")
    with RunRecorder(pipeline, RecordedEvents()) as recorder:
        recorder.state_changed("t", RunState.RUNNING)


def test_unreadable_records_are_ignored(tmp_path: Path) -> None:
    pipeline = pipeline_with(tmp_path, "t")
    lake_of(pipeline).put(f"{DRIVERS}/a.json", b"not JSON")
    lake_of(pipeline).put(f"{DRIVERS}/b.json", b'{"id": 1}')
    assert read_drivers(lake_of(pipeline)) == []
