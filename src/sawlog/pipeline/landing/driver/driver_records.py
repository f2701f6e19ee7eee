"""What drivers record about the tables that they run, for `status` and for each other.

Each driver keeps one small object in the lake, `_sawlog/drivers/<id>.json`, with the state of all
its tables. It replaces the object when a state changes, and as a heartbeat. Only one process writes
an object, so two drivers cannot mix up their states, and no version of a table is needed. After a
driver has died, its last states stay until a later driver has recorded the same tables.
"""

import json
import os
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from sawlog.pipeline.delta.table_storage import TableStorage
from sawlog.pipeline.landing.configuration.pipeline_config import RECORDS
from sawlog.pipeline.landing.failures import FailureKind

DRIVERS = f"{RECORDS}/drivers"
HEARTBEAT_S = 10.0
SILENT_MS = 60_000  # without a heartbeat for so long a driver counts as gone


class RunState(Enum):
    """The state of a table in a driver."""

    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting"  # it is retried
    STOPPED = "stopped"  # it failed, and this driver does not try again
    ENDED = "ended"  # it landed all (`--once`), or the driver was told to stop


@dataclass(frozen=True, slots=True)
class TableRun:
    """A table in a driver. `behind_since_ms` is since when records wait and none land."""

    state: RunState = RunState.STARTING
    since_ms: int = 0
    reason: str | None = None
    kind: FailureKind | None = None
    measured_ms: int | None = None  # when the driver last compared the table with its topic
    behind_since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class DriverRecord:
    id: str
    host: str
    pid: int
    machine: str | None
    started_ms: int
    tables: Mapping[str, TableRun]
    heartbeat_ms: int = 0
    ended_ms: int | None = None

    @property
    def place(self) -> str:
        return f"{self.host}, process {self.pid}"

    def to_json(self) -> bytes:
        fields = asdict(self)
        for run in fields["tables"].values():
            run["state"] = run["state"].value
            run["kind"] = None if run["kind"] is None else run["kind"].value
        return json.dumps(fields, separators=(",", ":")).encode()


class SeenDriver(NamedTuple):
    """A record and the time of its last heartbeat, by the clock of the storage."""

    record: DriverRecord
    modified_ms: int

    def is_alive(self, now_ms: int) -> bool:
        """Whether the driver runs, as far as its heartbeats tell; on this machine at once."""
        record = self.record
        if record.ended_ms is not None:
            return False
        if record.machine is not None and record.machine == this_machine():
            return _is_running(record.pid)
        return now_ms - self.modified_ms < SILENT_MS


def record_path(driver_id: str) -> str:
    return f"{DRIVERS}/{driver_id}.json"


def parse_record(data: bytes) -> DriverRecord:
    """Decode a record. Raises ValueError, KeyError or TypeError."""
    fields: dict[str, Any] = json.loads(data)
    tables = {
        name: TableRun(
            **{
                **run,
                "state": RunState(run["state"]),
                "kind": None if run["kind"] is None else FailureKind(run["kind"]),
            }
        )
        for name, run in fields["tables"].items()
    }
    return DriverRecord(**{**fields, "tables": tables})


def read_drivers(lake: TableStorage) -> list[SeenDriver]:
    """All records of a lake; unreadable ones, as of another version, are left out."""
    found = []
    for name in lake.names(DRIVERS):
        path = f"{DRIVERS}/{name}"
        stored = lake.stat(path) if name.endswith(".json") else None
        if stored is None:
            continue
        with suppress(ValueError, KeyError, TypeError, FileNotFoundError):
            found.append(SeenDriver(parse_record(lake.read(path)), stored.modified_ms))
    return sorted(found, key=lambda seen: seen.record.started_ms)


def delete_outdated(lake: TableStorage, mine: DriverRecord, others: Iterable[SeenDriver]) -> None:
    """Delete the records of drivers that are gone and whose tables this driver has recorded."""
    for seen in others:
        is_gone = seen.record.id != mine.id and not seen.is_alive(mine.heartbeat_ms)
        if is_gone and seen.record.tables.keys() <= mine.tables.keys():
            lake.delete(record_path(seen.record.id))


def new_record(driver_id: str, tables: Iterable[str], now_ms: int) -> DriverRecord:
    """The record of this process."""
    return DriverRecord(
        driver_id,
        socket.gethostname(),
        os.getpid(),
        this_machine(),
        now_ms,
        {name: TableRun(since_ms=now_ms) for name in tables},
    )


@cache
def this_machine() -> str | None:
    """An id of the running system and its process ids; None if it is unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return None


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # of another user
    return True
