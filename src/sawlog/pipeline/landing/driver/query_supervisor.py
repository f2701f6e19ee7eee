"""Runs a pipeline: a query for each table, watched over until all are done, stopped or given up.

One thread looks at all tables. What ends a query is put into words, and decides whether it begins
anew (`deciding.py`). A table that gives up does not stop the others.
"""

import math
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple, Protocol

from py4j.protocol import Py4JNetworkError

from sawlog.pipeline.landing.driver.events import Events
from sawlog.pipeline.landing.driver.retry_policy import GiveUp, Retry, RetryPolicy
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure, classify, parse_failure

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_POLL_S = 0.1
SPARK_GONE_ERRORS = (Py4JNetworkError, ConnectionRefusedError)
"""What a call of Spark's raises when its JVM has ended; no table can go on then."""


class QueryHandle(Protocol):
    """One life of a table's query."""

    query: "StreamingQuery"

    @property
    def failure(self) -> BaseException | None:
        """What went wrong in the driver's own part, where that ended the query."""

    @property
    def rows(self) -> int:
        """How many have landed in this life."""

    def stop(self) -> None:
        """Ends it between two commits."""


class TableQuery(Protocol):
    """A table that can be filled, life after life."""

    @property
    def name(self) -> str: ...

    def start(self, *, once: bool) -> QueryHandle:
        """Starts a query from where the table is."""

    def reset(self, why: FailureKind) -> None:
        """Forgets what the table does not tell; asked for where that is of no use any more.
        LandingFailure where to begin anew could lose or double rows.
        """


class Outcome(NamedTuple):
    name: str
    failure: LandingFailure | None


class QuerySupervisor:
    """One table: its query or, while it waits, when to begin again."""

    def __init__(
        self, step: TableQuery, events: Events, stop: threading.Event, *, once: bool
    ) -> None:
        self._step = step
        self._events = events
        self._stop = stop
        self._once = once
        self._tries = RetryPolicy(once=once)
        self._run: QueryHandle | None = None
        self._start_at_s = -math.inf
        self._said: str | None = None
        self.outcome: Outcome | None = None

    @property
    def name(self) -> str:
        return self._step.name

    def poll(self, now_s: float) -> None:
        """Begins what is due, and sees to what has ended."""
        if self.outcome is not None or now_s < self._start_at_s:
            return
        if self._run is None:
            self._start(now_s)
        elif not self._run.query.isActive:
            self._ended(self._run, now_s)

    def stop(self) -> None:
        if self._run is not None:
            self._run.stop()
            self._run = None
        if self.outcome is None:
            self.outcome = Outcome(self.name, None)

    def _start(self, now_s: float) -> None:
        try:
            self._run = self._step.start(once=self._once)
        except SPARK_GONE_ERRORS:
            raise
        except Exception as error:
            self._failed(classify(error), now_s)

    def _ended(self, run: QueryHandle, now_s: float) -> None:
        self._run = None
        if run.rows:
            self._tries.landed()
            self._said = None
        failure = run_failure(run)
        run.stop()
        if failure is None:
            self.outcome = Outcome(self.name, None)
        else:
            self._failed(failure, now_s)

    def _failed(self, failure: LandingFailure, now_s: float) -> None:
        if self._stop.is_set():
            return  # Spark's JVM may have got the same signal; `stop` follows
        decided = self._tries.ended(failure)
        if isinstance(decided, Retry) and failure.kind in _RESET_KINDS:
            try:
                self._step.reset(failure.kind)
            except LandingFailure as refusal:
                failure, decided = refusal, GiveUp(refusal)
        if isinstance(decided, GiveUp):
            self.outcome = Outcome(self.name, failure)
            self._events.said(self.name, f"stopped: {failure.message}")
            return
        self._start_at_s = now_s + decided.after_s
        text = f"{failure.message}; {_NEXT_STEPS[failure.kind]}"
        if text != self._said:
            self._events.said(self.name, text)
            self._said = text


_RESET_KINDS = frozenset({FailureKind.SOURCE_REWRITTEN, FailureKind.STATE_INCOMPATIBLE})
_NEXT_STEPS = {
    FailureKind.CONFLICT: "going on from where the table is",
    FailureKind.SOURCE_REWRITTEN: "beginning anew over all rows",
    FailureKind.SCHEMA_CHANGED: "going on with them",
    FailureKind.STATE_INCOMPATIBLE: "beginning anew over all rows",
    FailureKind.UNREACHABLE: "waiting for the brokers",
    FailureKind.NOT_FOUND: "waiting for it",
    FailureKind.DISK_FULL: "waiting for room",
    FailureKind.OTHER: "trying again",
}


def run_failure(run: QueryHandle) -> LandingFailure | None:
    """What ended a query; None where it came to its end."""
    told = run.query.exception()
    if told is None:
        return None
    if run.failure is not None:
        return classify(run.failure)
    return parse_failure(str(told))


def run_queries(
    steps: Sequence[TableQuery], events: Events, stop: threading.Event, *, once: bool
) -> list[Outcome]:
    """Until all have an outcome, or `stop` is set: then every query is ended well."""
    tables = [QuerySupervisor(step, events, stop, once=once) for step in steps]
    with ExitStack() as ends:
        for table in reversed(tables):
            ends.callback(table.stop)
        while not stop.is_set() and any(table.outcome is None for table in tables):
            for table in tables:
                table.poll(time.monotonic())
            stop.wait(_POLL_S)
    return [table.outcome for table in tables if table.outcome is not None]
