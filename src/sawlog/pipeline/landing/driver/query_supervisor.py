"""Supervises one landing or query per table until all are finished, stopped or failed for good.

One thread polls all tables. The failure of a run decides whether it is restarted
(`retry_policy.py`). A table that fails does not stop the others.
"""

import math
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple, Protocol

from py4j.protocol import Py4JNetworkError

from sawlog.pipeline.landing.driver.driver_records import RunState
from sawlog.pipeline.landing.driver.events import Events
from sawlog.pipeline.landing.driver.retry_policy import GiveUp, Retry, RetryPolicy
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure, classify

_POLL_S = 0.1
SPARK_GONE_ERRORS = (Py4JNetworkError, ConnectionRefusedError)
"""Raised by Spark calls after the JVM exited; no table can continue then."""


class QueryHandle(Protocol):
    """One run of a table."""

    @property
    def is_active(self) -> bool:
        """Whether the run has not ended. Raises one of SPARK_GONE_ERRORS without a JVM."""

    @property
    def is_set_up(self) -> bool:
        """Whether the run has found its table and its sources, and lands what comes."""

    @property
    def failure(self) -> LandingFailure | None:
        """Why the run ended; None if it finished."""

    @property
    def rows(self) -> int:
        """The rows landed in this run."""

    def stop(self) -> None:
        """Stop the run between two commits."""


class TableQuery(Protocol):
    """A query that fills a table and can be restarted."""

    @property
    def name(self) -> str: ...

    def start(self, *, once: bool) -> QueryHandle:
        """Start the query from the state of its table."""

    def reset(self, why: FailureKind) -> None:
        """Drop the checkpoint so that the next start begins from the first row.

        Raises LandingFailure if that could lose or duplicate rows.
        """


class Outcome(NamedTuple):
    name: str
    failure: LandingFailure | None


class QuerySupervisor:
    """Supervises one table: its running query, or the time of the next start."""

    def __init__(
        self, query: TableQuery, events: Events, stop: threading.Event, *, once: bool
    ) -> None:
        self._query = query
        self._events = events
        self._stop = stop
        self._once = once
        self._retries = RetryPolicy(once=once)
        self._run: QueryHandle | None = None
        self._start_at_s = -math.inf
        self._last_message: str | None = None
        self._state: tuple[RunState, str | None] = (RunState.STARTING, None)
        self.outcome: Outcome | None = None

    @property
    def name(self) -> str:
        return self._query.name

    def poll(self, now_s: float) -> None:
        """Start the query if it is due, and handle its end."""
        if self.outcome is not None or now_s < self._start_at_s:
            return
        if self._run is None:
            self._start(now_s)
        elif not self._run.is_active:
            self._ended(self._run, now_s)
        elif self._run.is_set_up:
            self._set_state(RunState.RUNNING)

    def stop(self) -> None:
        if self._run is not None:
            self._run.stop()
            self._run = None
        if self.outcome is None:
            self.outcome = Outcome(self.name, None)
            self._set_state(RunState.ENDED)

    def _set_state(self, state: RunState, failure: LandingFailure | None = None) -> None:
        reason = None if failure is None else failure.message
        if (state, reason) != self._state:
            self._state = (state, reason)
            self._events.state_changed(self.name, state, failure)

    def _start(self, now_s: float) -> None:
        try:
            self._run = self._query.start(once=self._once)
        except SPARK_GONE_ERRORS:
            raise
        except Exception as error:
            self._failed(classify(error), now_s)

    def _ended(self, run: QueryHandle, now_s: float) -> None:
        self._run = None
        if run.rows:
            self._retries.landed()
            self._last_message = None
        failure = run.failure
        run.stop()
        if failure is None:
            self.outcome = Outcome(self.name, None)
            self._set_state(RunState.ENDED)
        else:
            self._failed(failure, now_s)

    def _failed(self, failure: LandingFailure, now_s: float) -> None:
        if self._stop.is_set():
            return  # Spark's JVM may have received the same signal; `stop` follows
        decided = self._retries.ended(failure)
        if isinstance(decided, Retry) and failure.kind in _RESET_KINDS:
            try:
                self._query.reset(failure.kind)
            except LandingFailure as refusal:
                failure, decided = refusal, GiveUp(refusal)
        if isinstance(decided, GiveUp):
            self.outcome = Outcome(self.name, failure)
            self._events.report(self.name, f"stopped: {failure.message}")
            self._set_state(RunState.STOPPED, failure)
            return
        self._start_at_s = now_s + decided.after_s
        text = f"{failure.message}; {_NEXT_STEPS[failure.kind]}"
        self._set_state(RunState.WAITING, LandingFailure(failure.kind, text))
        if text != self._last_message:
            self._events.report(self.name, text)
            self._last_message = text


_RESET_KINDS = frozenset({FailureKind.SOURCE_REWRITTEN, FailureKind.STATE_INCOMPATIBLE})
_NEXT_STEPS = {
    FailureKind.CONFLICT: "restarting from the offsets in the table",
    FailureKind.SOURCE_REWRITTEN: "restarting over all rows",
    FailureKind.SCHEMA_CHANGED: "restarting with them",
    FailureKind.STATE_INCOMPATIBLE: "restarting over all rows",
    FailureKind.UNREACHABLE: "waiting for the brokers",
    FailureKind.STORE_UNREACHABLE: "waiting for the object store or catalog",
    FailureKind.REGISTRY_UNREACHABLE: "waiting for it",
    FailureKind.NOT_FOUND: "waiting for it",
    FailureKind.DISK_FULL: "waiting for space",
    FailureKind.OTHER: "retrying",
}


def run_queries(
    queries: Sequence[TableQuery], events: Events, stop: threading.Event, *, once: bool
) -> list[Outcome]:
    """Run until all queries have an outcome or `stop` is set; then stop the running ones."""
    tables = [QuerySupervisor(query, events, stop, once=once) for query in queries]
    with ExitStack() as cleanup:
        for table in reversed(tables):
            cleanup.callback(table.stop)
        while not stop.is_set() and any(table.outcome is None for table in tables):
            for table in tables:
                table.poll(time.monotonic())
            stop.wait(_POLL_S)
    return [table.outcome for table in tables if table.outcome is not None]
