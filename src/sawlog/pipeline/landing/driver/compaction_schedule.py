"""Compacts tables beside the landing, after enough files were added to them.

It counts the files of landed batches, so a table that gets none costs nothing. The merging itself
is done by a child process (`compaction_process.py`).
"""

import threading
from collections import Counter
from collections.abc import Iterable
from typing import Self

from sawlog.pipeline.delta.compaction import due_groups
from sawlog.pipeline.delta.errors import TableError
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.delta.table_path import TablePath
from sawlog.pipeline.landing.configuration.pipeline_config import (
    LandedTable,
    Maintenance,
    PipelineConfig,
    appends_rows,
    delta_paths,
)
from sawlog.pipeline.landing.driver.compaction_process import CompactionProcess, CompactionTask
from sawlog.pipeline.landing.driver.events import EventForwarder, Events, LandedBatch

_FINISH_S = 60.0
_LAST_WAIT_S = 5.0


class CompactionSchedule(EventForwarder):
    """Implements Events. Compacts while the block lasts, if `maintain` is not off."""

    def __init__(self, pipeline: PipelineConfig, events: Events) -> None:
        super().__init__(events)
        # An upsert of a query rewrites the files of recent keys, so they do not become many.
        self._tables = {
            table.name: table
            for table in pipeline.tables
            if isinstance(table, LandedTable) or appends_rows(table)
        }
        self._settings = pipeline.maintain
        self._added: Counter[str] = Counter()  # files since the last look
        self._seen: set[str] = set()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._children: set[CompactionProcess] = set()  # of `finish`, and of the thread
        self._thread = threading.Thread(target=self._run_loop, name="sawlog-compact", daemon=True)

    def __enter__(self) -> Self:
        if self._settings is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._kill_children()
        if self._settings is not None:
            self._thread.join(_LAST_WAIT_S)

    def batch_landed(self, table: str, batch: LandedBatch, done: int) -> None:
        super().batch_landed(table, batch, done)
        if table in self._tables:
            with self._lock:
                self._added[table] += batch.files + bool(batch.bad_rows)

    def finish(self) -> None:
        """Compact what a run with `--once` has left, for a minute at most."""
        if self._settings is not None:
            timer = threading.Timer(_FINISH_S, self._kill_children)
            timer.start()
            try:
                self._compact(self._settings, self._due(most=0))
            finally:
                timer.cancel()

    def _run_loop(self) -> None:
        settings = self._settings
        assert settings is not None
        while not self._stop.wait(settings.every_s):
            self._compact(settings, self._due(most=settings.small_files))

    def _due(self, most: int) -> list[str]:
        """The tables with more new files than `most`, or with some and not looked at so far."""
        with self._lock:
            due = [
                name
                for name, files in self._added.items()
                if files > most or (files and name not in self._seen)
            ]
            for name in due:
                del self._added[name]
            self._seen.update(due)
        return due

    def _compact(self, settings: Maintenance, names: Iterable[str]) -> None:
        tasks = [
            CompactionTask(name, path, settings.small_files, settings.target_bytes)
            for name in names
            for path in delta_paths(self._tables[name])
            if _has_groups(path, settings)
        ]
        if not tasks or self._stop.is_set():
            return
        with CompactionProcess(tasks) as child:
            with self._lock:
                self._children.add(child)
                if self._stop.is_set():  # it was set before the child was known
                    child.kill()
            for done in child:
                if done.error is not None:
                    self.report(done.name, f"could not be compacted: {done.error}")
                elif done.files_before:
                    self.report(
                        done.name, f"compacted {done.files_before} files into {done.files_after}"
                    )
            with self._lock:
                self._children.remove(child)

    def _kill_children(self) -> None:
        with self._lock:
            for child in self._children:
                child.kill()


def _has_groups(path: TablePath, settings: Maintenance) -> bool:
    try:
        if not Table.exists(path):
            return False
        table = Table.open(path)
        return bool(due_groups(table, settings.small_files, settings.target_bytes))
    except (TableError, OSError):
        return False  # the landing fails too, and reports it
