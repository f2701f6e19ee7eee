"""The state of a table: the checks of a run combined with what drivers have recorded. Pure."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import NamedTuple

from sawlog.pipeline.landing.driver.driver_records import (
    HEARTBEAT_S,
    RunState,
    SeenDriver,
    TableRun,
)
from sawlog.pipeline.landing.failures import FailureKind

PATIENCE_MS = 5 * 60 * 1_000  # how long records may wait, beyond the time between two batches
_CHECKED_ANEW = frozenset(
    {
        FailureKind.DATA_LOSS,
        FailureKind.TOPIC_DELETED,
        FailureKind.NOT_FOUND,
        FailureKind.UNREACHABLE,
        FailureKind.STORE_UNREACHABLE,
    }
)
"""Kinds of failures that the checks of a run find: if they pass, the reason is gone."""


class State(Enum):
    """The state of a table."""

    RUNNING = "running"  # a driver lands it
    READY = "ready"  # no driver runs it; a run would continue it, or create it
    WAITING = "waiting"  # for its topic, a replay, a table that it reads, ...
    STALLED = "stalled"  # a driver runs it and records wait, but none land
    STOPPED = "stopped"  # it failed; the operator must decide
    UNKNOWN = "unknown"  # no broker answers


class TableState(NamedTuple):
    state: State
    reason: str | None = None  # why it is not running or ready, and what to do
    since_ms: int | None = None
    drivers: tuple[str, ...] = ()  # those that run it: host and process


class RecordedRun(NamedTuple):
    """A table in a driver, as recorded."""

    run: TableRun
    place: str
    is_alive: bool
    heartbeat_ms: int


def recorded_runs(drivers: Iterable[SeenDriver], table: str, now_ms: int) -> list[RecordedRun]:
    """The runs of a table, the one that was heard of last at the end.

    A driver that died was heard of up to two heartbeats before its death.
    """
    found = [
        RecordedRun(seen.record.tables[table], seen.record.place, seen.is_alive(now_ms),
                    seen.modified_ms)
        for seen in drivers
        if table in seen.record.tables
    ]  # fmt: skip
    grace_ms = 2_000 * HEARTBEAT_S
    return sorted(
        found,
        key=lambda entry: (
            entry.heartbeat_ms + (0 if entry.run.state is RunState.ENDED else grace_ms)
        ),
    )


def combined_state(
    checked: TableState,
    lag: int | None,
    runs: Sequence[RecordedRun],
    now_ms: int,
    *,
    patience_ms: int = PATIENCE_MS,
    is_query: bool = False,
) -> TableState:
    """Combine the result of the checks, which may be stopped, waiting, unknown or ready.

    A table is running only if a live driver says so and its records land. The columns of a query
    are not among the checks, so a recorded stop because one was not found is believed.
    """
    alive = [recorded for recorded in runs if recorded.is_alive]
    if checked.state is State.READY:
        found = (
            _in_drivers(alive, lag, now_ms, patience_ms)
            if alive
            else (_without_driver(runs, is_query))
        )
    elif checked.state is State.UNKNOWN and runs and runs[-1].run.state is RunState.STOPPED:
        found = TableState(State.STOPPED, runs[-1].run.reason, runs[-1].run.since_ms)
    else:
        same = [run for run, *_ in runs if run.state.value == checked.state.value]
        found = checked._replace(since_ms=same[-1].since_ms if same else None)
    places = tuple(recorded.place for recorded in alive
                   if recorded.run.state not in (RunState.STOPPED, RunState.ENDED))  # fmt: skip
    if len(places) > 1:
        several = f"{len(places)} drivers run it ({'; '.join(places)}): stop all but one"
        found = found._replace(reason="; ".join(filter(None, (found.reason, several))))
    return found._replace(drivers=places)


def _in_drivers(
    alive: Sequence[RecordedRun], lag: int | None, now_ms: int, patience_ms: int
) -> TableState:
    running = [recorded.run for recorded in alive if recorded.run.state is RunState.RUNNING]
    if running:
        since_ms = min(run.since_ms for run in running)
        stuck = [_stuck_since(run, lag, now_ms, patience_ms) for run in running]
        if all(at is not None for at in stuck):
            at_ms = min(at for at in stuck if at is not None)
            text = f"{lag:,} records wait, and none have landed since {_time(at_ms)}"
            return TableState(State.STALLED, text, at_ms)
        return TableState(State.RUNNING, None, since_ms)
    for recorded in reversed(alive):
        run = recorded.run
        if run.state in (RunState.WAITING, RunState.STARTING):
            reason = run.reason or f"the driver starts ({recorded.place})"
            return TableState(State.WAITING, reason, run.since_ms)
        if run.state is RunState.STOPPED:
            again = f"the driver ({recorded.place}) does not try again: restart it once resolved"
            return TableState(State.STOPPED, f"{run.reason}; {again}", run.since_ms)
    return TableState(State.READY)


def _stuck_since(run: TableRun, lag: int | None, now_ms: int, patience_ms: int) -> int | None:
    """Since when records wait and none land, or the driver does not look for them."""
    if not lag:
        return None
    marks = [at for at in (run.behind_since_ms, run.measured_ms or run.since_ms) if at is not None]
    return min((at for at in marks if now_ms - at > patience_ms), default=None)


def _without_driver(runs: Sequence[RecordedRun], is_query: bool) -> TableState:
    if not runs:
        return TableState(State.READY)
    run, place, _, heartbeat_ms = runs[-1]
    checked_anew = _CHECKED_ANEW - ({FailureKind.NOT_FOUND} if is_query else set())
    if run.state is RunState.STOPPED and run.kind not in checked_anew:
        return TableState(State.STOPPED, f"{run.reason}; a run tries again", run.since_ms)
    if run.state in (RunState.STOPPED, RunState.ENDED):
        return TableState(State.READY)
    text = f"no driver runs it: the last one ({place}) is gone, last heard of {_time(heartbeat_ms)}"
    return TableState(State.READY, text, heartbeat_ms)


def _time(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1e3, UTC):%Y-%m-%d %H:%M:%S} UTC"
