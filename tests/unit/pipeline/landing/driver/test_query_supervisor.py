"""The supervision of a table: started, ended, restarted, given up."""

import threading
from typing import Any

import pytest

from sawlog.client.errors import NoBrokerReachable
from sawlog.client.net.leader_requests import partition_of
from sawlog.pipeline.delta.errors import OffsetConflict
from sawlog.pipeline.landing.driver import query_run
from sawlog.pipeline.landing.driver.driver_records import RunState
from sawlog.pipeline.landing.driver.query_run import BatchCommitter
from sawlog.pipeline.landing.driver.query_supervisor import Outcome, QuerySupervisor, run_queries
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure
from support.pipeline.landing import RecordedEvents

CONFLICT = OffsetConflict(partition_of("t", 0), 5, 1, 9)


class Query:
    """A query that ends when a test says so, with Spark's text."""

    def __init__(self, text: str | None) -> None:
        self.isActive = True
        self._text = text

    def exception(self) -> str | None:
        return self._text

    def stop(self) -> None:
        self.isActive = False


class Commits(BatchCommitter):
    def commit_batch(self, frame: object, batch_id: int) -> None:
        raise AssertionError("no batch comes")


class QueryRun(query_run.QueryRun):
    def __init__(
        self, text: str | None = None, failure: BaseException | None = None, rows: int = 0
    ) -> None:
        commits, query = Commits(), Query(text)
        commits.failure, commits.rows = failure, rows
        super().__init__(query, commits)  # type: ignore[arg-type]
        self.query: Any = query
        self.stops = 0

    def stop(self) -> None:
        super().stop()
        self.stops += 1


class Table:
    """Starts the given runs one after another; an exception is a failed start."""

    name = "t"

    def __init__(self, *runs: QueryRun | Exception) -> None:
        self._runs = list(runs)
        self.started: list[QueryRun] = []
        self.resets = 0
        self.refusal: LandingFailure | None = None

    def start(self, *, once: bool) -> QueryRun:
        run = self._runs.pop(0)
        if isinstance(run, Exception):
            raise run
        self.started.append(run)
        return run

    def reset(self, why: FailureKind) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.resets += 1


def supervised(table: Table, *, once: bool = False) -> tuple[QuerySupervisor, RecordedEvents]:
    events = RecordedEvents()
    return QuerySupervisor(table, events, threading.Event(), once=once), events


def test_a_query_that_finishes_is_done() -> None:
    table = Table(QueryRun())
    supervisor, events = supervised(table, once=True)
    supervisor.poll(0)
    supervisor.poll(1)
    assert supervisor.outcome is None
    table.started[0].query.isActive = False
    supervisor.poll(2)
    assert supervisor.outcome == Outcome("t", None)
    assert table.started[0].stops == 1
    assert events.lines == []


def test_the_states_of_a_table_are_reported_as_they_change() -> None:
    lost = LandingFailure(FailureKind.DATA_LOSS, "offsets 3 to 4 are lost")
    table = Table(NoBrokerReachable("nobody"), QueryRun(failure=lost, text="x"))
    supervisor, events = supervised(table)
    supervisor.poll(0)
    supervisor.poll(10)
    supervisor.poll(11)
    supervisor.poll(12)
    table.started[0].query.isActive = False
    supervisor.poll(13)
    supervisor.stop()
    assert [(name, state) for name, state, _ in events.states] == [
        ("t", RunState.WAITING),
        ("t", RunState.RUNNING),
        ("t", RunState.STOPPED),
    ]
    reasons = [failure and failure.message for _, _, failure in events.states]
    assert reasons == [
        "nobody; waiting for the brokers",
        None,
        "offsets 3 to 4 are lost",
    ]


def test_a_table_whose_run_is_stopped_has_ended() -> None:
    supervisor, events = supervised(Table(QueryRun()))
    supervisor.poll(0)
    supervisor.stop()
    assert [state for _, state, _ in events.states] == [RunState.ENDED]


def test_the_exception_of_the_driver_is_preferred_to_spark_s_text() -> None:
    table = Table(QueryRun("a long story", CONFLICT), QueryRun())
    supervisor, events = supervised(table)
    supervisor.poll(0)
    table.started[0].query.isActive = False
    supervisor.poll(1)
    supervisor.poll(1.05)
    assert len(table.started) == 1
    supervisor.poll(2)
    assert len(table.started) == 2
    assert [line.rpartition("; ")[2] for line in events.lines] == [
        "restarting from the offsets in the table"
    ]


def test_a_wait_is_reported_once() -> None:
    table = Table(*[NoBrokerReachable("nobody there")] * 5, QueryRun())
    supervisor, events = supervised(table)
    for now_s in range(0, 60, 10):
        supervisor.poll(now_s)
    assert events.lines == ["t: nobody there; waiting for the brokers"]
    assert len(table.started) == 1


def test_a_fatal_failure_ends_the_query() -> None:
    table = Table(
        QueryRun(f"x {LandingFailure(FailureKind.DATA_LOSS, 'offsets 5 to 9 are gone')} y")
    )
    supervisor, events = supervised(table)
    supervisor.poll(0)
    table.started[0].query.isActive = False
    supervisor.poll(1)
    assert supervisor.outcome is not None
    assert supervisor.outcome.failure is not None
    assert supervisor.outcome.failure.message == "offsets 5 to 9 are gone"
    assert events.lines == ["t: stopped: offsets 5 to 9 are gone"]
    supervisor.poll(2)
    assert len(table.started) == 1


def test_a_query_whose_tables_were_rewritten_starts_over() -> None:
    table = Table(QueryRun("errors.RowsRemoved: version 8 took rows out"), QueryRun())
    supervisor, _ = supervised(table)
    supervisor.poll(0)
    table.started[0].query.isActive = False
    supervisor.poll(1)
    supervisor.poll(2)
    assert table.resets == 1
    assert len(table.started) == 2


def test_a_query_whose_table_has_new_columns_restarts_from_its_checkpoint() -> None:
    text = (
        "tables.following.SchemaChanged: version 8 of /lake/t has columns that the stream started"
    )
    table = Table(QueryRun(f"{text} without: 'b'; restart it from the same checkpoint"), QueryRun())
    supervisor, events = supervised(table)
    supervisor.poll(0)
    table.started[0].query.isActive = False
    supervisor.poll(1)
    supervisor.poll(2)
    assert (table.resets, len(table.started)) == (0, 2)
    changed = "version 8 of /lake/t has columns that the stream started without: 'b'"
    assert events.lines == [f"t: {changed}; restarting with them"]


def test_a_query_whose_state_is_incompatible_starts_over_unless_it_refuses() -> None:
    text = "[STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] Provided value schema does not match"
    table = Table(QueryRun(text), QueryRun(text))
    supervisor, events = supervised(table)
    supervisor.poll(0)
    table.started[0].query.isActive = False
    supervisor.poll(1)
    supervisor.poll(2)
    assert (table.resets, len(table.started)) == (1, 2)
    table.refusal = LandingFailure(FailureKind.INVALID, "rows would be lost")
    table.started[1].query.isActive = False
    supervisor.poll(3)
    assert supervisor.outcome == Outcome("t", table.refusal)
    assert events.lines[-1] == "t: stopped: rows would be lost"


def test_a_failure_after_the_stop_is_not_reported() -> None:
    """Spark's JVM receives a signal to the process group too, and may exit first."""
    stop, events = threading.Event(), RecordedEvents()
    table = Table(QueryRun("An error occurred while calling o31.load"))
    supervisor = QuerySupervisor(table, events, stop, once=False)
    supervisor.poll(0)
    table.started[0].query.isActive = False
    stop.set()
    supervisor.poll(1)
    supervisor.stop()
    assert supervisor.outcome == Outcome("t", None)
    assert events.lines == []


def test_a_stop_ends_running_queries_without_a_failure() -> None:
    tables = [Table(QueryRun()), Table(NoBrokerReachable("nobody"))]
    stop = threading.Event()
    events = RecordedEvents()
    report = events.report

    def stop_then(table: str, text: str) -> None:
        report(table, text)
        stop.set()

    events.report = stop_then  # type: ignore[method-assign]
    outcomes = run_queries(tables, events, stop, once=False)
    assert outcomes == [Outcome("t", None), Outcome("t", None)]
    assert tables[0].started[0].stops == 1


def test_all_queries_end_if_the_jvm_is_gone() -> None:
    class Gone(QueryRun):
        def stop(self) -> None:
            super().stop()
            raise ConnectionRefusedError

    one, other = Table(Gone()), Table(Gone())
    third = Table(ConnectionRefusedError())
    with pytest.raises(ConnectionRefusedError):
        run_queries([one, other, third], RecordedEvents(), threading.Event(), once=False)
    assert [table.started[0].stops for table in (one, other)] == [1, 1]
