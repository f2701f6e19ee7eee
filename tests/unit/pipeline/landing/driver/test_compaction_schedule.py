"""Tables to which many files were added are compacted beside the landing."""

import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.delta.table_path import TablePath
from sawlog.pipeline.landing.configuration.pipeline_config import Maintenance, PipelineConfig
from sawlog.pipeline.landing.configuration.pipeline_file import parse_pipeline
from sawlog.pipeline.landing.driver import compaction_schedule
from sawlog.pipeline.landing.driver.compaction_process import (
    CompactionProcess,
    CompactionTask,
    run_tasks,
)
from sawlog.pipeline.landing.driver.compaction_schedule import CompactionSchedule
from sawlog.pipeline.landing.driver.events import LandedBatch
from support.pipeline.landing import RecordedEvents
from support.pipeline.tables import contents, expected, land, new_table

FILES = 6
BATCH = LandedBatch(1, 1, 0, 1, FILES, 1, 0.1, {})


def pipeline_with(directory: Path, *tables: str) -> PipelineConfig:
    text = "\n".join(["brokers: 127.0.0.1:1", "lake: lake", "tables:", *tables])
    pipeline = parse_pipeline(str(directory / "p.yaml"), text)
    return replace(pipeline, maintain=Maintenance(0.01, FILES - 1))


def fill(path: str) -> Table:
    table = new_table(path)
    for number in range(FILES):
        land(table, 0, number, number + 1)
    return table


class CompactionEvents(RecordedEvents):
    """Waits for a message."""

    def __init__(self) -> None:
        super().__init__()
        self.reported = threading.Event()

    def report(self, table: str, text: str) -> None:
        super().report(table, text)
        self.reported.set()


def test_a_table_with_many_small_files_is_compacted_in_a_child(tmp_path: Path) -> None:
    pipeline, events = pipeline_with(tmp_path, "  t: {topic: a}"), CompactionEvents()
    table = fill(pipeline.tables[0].path)
    fill(pipeline.landed[0].dead_path)
    with CompactionSchedule(pipeline, events) as schedule:
        schedule.batch_landed("t", BATCH, 1)
        assert events.reported.wait(60)
        schedule.finish()
    table.refresh()
    assert len(table.files()) == 1
    assert contents(table) == expected({0: FILES})
    assert events.lines[0] == f"t: compacted {FILES} files into 1"
    assert len(events.batches) == 1


def test_the_end_of_a_single_run_compacts_too(tmp_path: Path) -> None:
    pipeline, events = pipeline_with(tmp_path, "  t: {topic: a}"), RecordedEvents()
    pipeline = replace(pipeline, maintain=Maintenance(3_600, FILES - 1))
    table = fill(pipeline.tables[0].path)
    with CompactionSchedule(pipeline, events) as schedule:
        schedule.batch_landed("t", BATCH._replace(files=1), 1)
        schedule.finish()
    table.refresh()
    assert len(table.files()) == 1


@pytest.mark.parametrize(("files", "maintain"), [(0, True), (1, False)])
def test_idle_tables_and_maintenance_that_is_off_start_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int, maintain: bool
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a process")

    monkeypatch.setattr(compaction_schedule, "CompactionProcess", refuse)
    pipeline = pipeline_with(tmp_path, "  t: {topic: a}")
    if not maintain:
        pipeline = replace(pipeline, maintain=None)
    fill(pipeline.tables[0].path)
    with CompactionSchedule(pipeline, RecordedEvents()) as schedule:
        schedule.batch_landed("t", BATCH._replace(files=files), 1)
        schedule.finish()


def test_the_error_of_a_table_does_not_keep_others_back(tmp_path: Path) -> None:
    table = fill(str(tmp_path / "good"))
    tasks = [
        CompactionTask(name, TablePath(tmp_path / name), FILES - 1, 1_000_000)
        for name in ("missing", "good")
    ]
    missing, good = run_tasks(tasks)
    assert missing.error is not None
    assert (good.files_before, good.files_after) == (FILES, 1)
    table.refresh()
    assert len(table.files()) == 1


def test_a_table_with_a_broken_file_does_not_keep_others_back(tmp_path: Path) -> None:
    broken, good = fill(str(tmp_path / "broken")), fill(str(tmp_path / "good"))
    for file in broken.files():
        (tmp_path / "broken" / file.path).write_bytes(b"x" * file.size)
    tasks = [
        CompactionTask(Path(table.path).name, table.path, FILES - 1, 1_000_000)
        for table in (broken, good)
    ]
    failed, done = run_tasks(tasks)
    assert failed.error is not None
    assert done.files_after == 1


@pytest.mark.parametrize("are_tasks_read", [False, True])
def test_a_child_that_dies_leaves_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, are_tasks_read: bool
) -> None:
    read = "sys.stdin.buffer.read(); " if are_tasks_read else "sys.stdin.close(); "
    child = f"import os, sys; {read}os.kill(os.getpid(), 9)"
    (tmp_path / "python").write_text(f"#!{sys.executable}\n{child}\n")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    tasks = [CompactionTask(f"t{n}", TablePath(tmp_path / "t"), 1, 1) for n in range(10_000)]
    with CompactionProcess(tasks) as running:
        assert [done.error for done in running] == ["the process ended with exit code -9"]


def test_a_child_that_is_killed_leaves_none(tmp_path: Path) -> None:
    table = fill(str(tmp_path / "t"))
    with CompactionProcess([CompactionTask("t", table.path, FILES - 1, 1_000_000)]) as running:
        running.kill()
        assert list(running) == []


def test_queries_with_upserts_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at = []

    def look(path: TablePath, _: Maintenance) -> bool:
        looked_at.append(Path(path).name)
        return False

    monkeypatch.setattr(compaction_schedule, "_has_groups", look)
    pipeline = pipeline_with(
        tmp_path,
        "  t: {topic: a}",
        "  u: {topic: b, mode: upsert, key: key}",
        "  q: {sql: SELECT * FROM t}",
        "  keyed: {sql: SELECT * FROM t, key: [offset]}",
    )
    schedule = CompactionSchedule(pipeline, RecordedEvents())
    for table in pipeline.tables:
        schedule.batch_landed(table.name, BATCH, 1)
    schedule.finish()
    assert looked_at == ["t", "t__dead", "u", "u__dead", "q"]
