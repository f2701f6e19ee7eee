"""Records the states of a driver's tables in the lake, and notices other drivers of these tables.

It passes all events on. A thread writes, so a slow or unreachable lake delays no landing.
"""

import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Self
from uuid import uuid4

from sawlog.core.event_logger import EventLogger
from sawlog.pipeline.delta.table_storage import open_storage
from sawlog.pipeline.landing.configuration.pipeline_config import PipelineConfig
from sawlog.pipeline.landing.driver.driver_records import (
    HEARTBEAT_S,
    DriverRecord,
    RunState,
    SeenDriver,
    delete_outdated,
    new_record,
    read_drivers,
    record_path,
)
from sawlog.pipeline.landing.driver.events import EventForwarder, Events
from sawlog.pipeline.landing.failures import LandingFailure

_MIN_INTERVAL_S = 1.0  # between two writes
_LAST_WAIT_S = 10.0
_MAX_NAMED = 3

logger = EventLogger(__name__)


class RunRecorder(EventForwarder):
    """Implements Events. Records while the block lasts; at its end that the driver has ended."""

    def __init__(
        self, pipeline: PipelineConfig, events: Events, *, heartbeat_s: float = HEARTBEAT_S
    ) -> None:
        super().__init__(events)
        self._lake = open_storage(pipeline.lake)
        self._heartbeat_s = heartbeat_s
        self._lock = threading.Lock()
        self._done: dict[str, int] = {}
        names = [table.name for table in pipeline.tables]
        self._record = new_record(uuid4().hex, names, _now_ms())
        self._has_changed = True
        self._others: dict[str, int] = {}  # heartbeats of drivers that share a table
        self._reported: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run_loop, name="sawlog-record", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(_LAST_WAIT_S)

    # Events

    def progress_measured(self, table: str, done: int, ends: int) -> None:
        super().progress_measured(table, done, ends)
        now_ms = _now_ms()
        with self._lock:
            has_moved = done != self._done.get(table)
            self._done[table] = done
            run = self._record.tables[table]
            is_behind = done < ends and not has_moved
            since = (run.behind_since_ms or now_ms) if is_behind else None
            self._set(table, measured_ms=now_ms, behind_since_ms=since)

    def state_changed(
        self, table: str, state: RunState, failure: LandingFailure | None = None
    ) -> None:
        super().state_changed(table, state, failure)
        with self._lock:
            run = self._record.tables[table]
            since_ms = run.since_ms if run.state is state else _now_ms()
            self._set(
                table, state=state, since_ms=since_ms, behind_since_ms=None,
                reason=None if failure is None else failure.message,
                kind=None if failure is None else failure.kind,
            )  # fmt: skip
            self._has_changed = True

    def _set(self, table: str, **changes: object) -> None:
        run = replace(self._record.tables[table], **changes)  # type: ignore[arg-type]
        self._record = replace(self._record, tables={**self._record.tables, table: run})

    # In the thread of its own

    def _run_loop(self) -> None:
        due_s = 0.0
        while not self._stop.is_set():
            if self._has_changed or time.monotonic() >= due_s:
                due_s = time.monotonic() + self._heartbeat_s
                self.beat()
            self._stop.wait(min(_MIN_INTERVAL_S, self._heartbeat_s))
        self._write(ended_ms=_now_ms())

    def beat(self) -> None:
        """Write the record, then look for other drivers."""
        mine = self._write()
        if mine is None:
            return
        try:
            others = [seen for seen in read_drivers(self._lake) if seen.record.id != mine.id]
            delete_outdated(self._lake, mine, others)
        except OSError:
            return  # the landing reports that the lake does not answer
        self._report_others(mine, others)

    def _write(self, ended_ms: int | None = None) -> DriverRecord | None:
        with self._lock:
            record = replace(self._record, heartbeat_ms=_now_ms(), ended_ms=ended_ms)
            self._has_changed = False
        try:
            self._lake.put(record_path(record.id), record.to_json())
        except OSError as error:
            logger.warning("could not record the state of tables", error=str(error))
            return None
        return record

    def _report_others(self, mine: DriverRecord, others: list[SeenDriver]) -> None:
        """Report a driver of the same tables once, when its heart has beaten since the last look:
        one that has just died looks alive for a while.
        """
        for record, modified_ms in others:
            shared = sorted(record.tables.keys() & mine.tables.keys())
            if not shared or record.ended_ms is not None or record.id in self._reported:
                continue
            if self._others.setdefault(record.id, modified_ms) == modified_ms:
                continue
            self._reported.add(record.id)
            more = len(shared) - _MAX_NAMED
            names = ", ".join(shared[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
            since = datetime.fromtimestamp(record.started_ms / 1e3, UTC)
            self.report(
                "sawlog",
                f"another driver runs the same tables ({names}): {record.place}, since"
                f" {since:%Y-%m-%d %H:%M:%S} UTC; nothing is lost or doubled, but both do the same"
                " work: stop one of them",
            )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
