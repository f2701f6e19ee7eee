"""What drivers record about the tables that they run, for `status` and for each other.

Each driver keeps one small object in the lake, `_sawlog/drivers/<id>.json`, with the state of all
its tables. It replaces the object when a state changes, and as a heartbeat. Only one process writes
an object, so two drivers cannot mix up their states, and no version of a table is needed. After a
driver has died, its last states stay until a later driver has recorded the same tables.
"""

import json
import os
import socket
import time
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
_CLOCK_ERROR_MS = 5_000
_START_TIME = 18  # in the fields of /proc/PID/stat after the state
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
        """Whether the driver runs: by its process on this machine, else by its heartbeats.

        A driver here may be alive without heartbeats (the disk is full), but then the process must
        have started before the record: a later one only has the same id.
        """
        record = self.record
        is_silent = now_ms - self.modified_ms >= SILENT_MS
        if record.ended_ms is not None:
            return False
        if record.machine is None or record.machine != this_machine():
            return not is_silent
        process = _process(record.pid)
        return process is not None and (
            not is_silent or process.started_ms <= record.started_ms + _CLOCK_ERROR_MS
        )


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


class _Process(NamedTuple):
    started_ms: float  # since 1970; 0 if it is unknown


def _process(pid: int) -> _Process | None:
    """The running process with this id; one that died and waits for its parent does not count."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        since_boot_s = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    except (FileNotFoundError, ProcessLookupError):
        return None
    except OSError:
        return _Process(0)
    state, *fields = stat.rpartition(")")[2].split()
    age_s = since_boot_s - int(fields[_START_TIME]) / os.sysconf("SC_CLK_TCK")
    return None if state in "ZX" else _Process((time.time() - age_s) * 1_000)
