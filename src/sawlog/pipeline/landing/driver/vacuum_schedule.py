"""Vacuums the tables of a file at the start of a run and every few hours.

It has a thread of its own, because a vacuum lists every file of the lake.
"""

import threading
from typing import Self

from sawlog.pipeline.delta.errors import TableError
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.delta.vacuum import vacuum
from sawlog.pipeline.landing.configuration.pipeline_config import PipelineConfig, delta_paths
from sawlog.pipeline.landing.driver.events import Events

VACUUM_EVERY_S = 6 * 60 * 60.0
_LAST_WAIT_S = 3.0
_POLL_S = 0.1


class VacuumSchedule:
    """Vacuums beside the block, from its start on; the block ends after the first vacuum, or when
    the run is told to stop.
    """

    def __init__(
        self,
        pipeline: PipelineConfig,
        events: Events,
        told_to_stop: threading.Event,
        *,
        every_s: float = VACUUM_EVERY_S,
    ) -> None:
        self._pipeline = pipeline
        self._events = events
        self._told_to_stop = told_to_stop
        self._every_s = every_s
        self._stop = threading.Event()
        self._has_vacuumed = threading.Event()
        self._thread = threading.Thread(target=self._run_loop, name="sawlog-vacuum", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for the first vacuum: otherwise runs with `--once` might never finish one.

        Later ones may be cut off anywhere; the next one continues. So may the first of a run that
        is told to stop: it lists every file, which may take long in a large lake.
        """
        while not self._has_vacuumed.wait(_POLL_S) and not self._told_to_stop.is_set():
            pass
        self._stop.set()
        self._thread.join(_LAST_WAIT_S)

    def _run_loop(self) -> None:
        try:
            vacuum_tables(self._pipeline, self._events)
        finally:
            self._has_vacuumed.set()
        while not self._stop.wait(self._every_s):
            vacuum_tables(self._pipeline, self._events)


def vacuum_tables(pipeline: PipelineConfig, events: Events) -> None:
    """Delete orphan and expired files of all tables, dead letters included."""
    for table in pipeline.tables:
        for path in delta_paths(table):
            try:
                deleted = vacuum(Table.open(path)).files if Table.exists(path) else 0
            except (TableError, OSError):
                continue  # the query of the table fails too, and reports it
            if deleted:
                events.report(table.name, f"vacuumed {deleted} files")
