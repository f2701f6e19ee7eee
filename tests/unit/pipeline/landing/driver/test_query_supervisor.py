"""The supervision of a table: started, ended, restarted, given up."""

import threading
from typing import Any

import pytest

from sawlog.client.errors import NoBrokerReachable
from sawlog.client.net.leader_requests import partition_of
from sawlog.pipeline.delta.errors import OffsetConflict
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


class QueryRun:
    def __init__(
        self, text: str | None = None, failure: BaseException | None = None, rows: int = 0
    ) -> None:
        self.query: Any = Query(text)
        self.failure = failure
        self.rows = rows
        self.stops = 0

    def stop(self) -> None:
        self.query.isActive = False
        self.stops += 1


class Table:
    """Starts the given runs one after another; an exception is a failed start."""

    name = "t"

    def __init__(self, *lives: QueryRun | Exception) -> None:
        self._lives = list(lives)
        self.begun: list[QueryRun] = []
        self.anew = 0
        self.refusal: LandingFailure | None = None

    def start(self, *, once: bool) -> QueryRun:
        life = self._lives.pop(0)
        if isinstance(life, Exception):
            raise life
        self.begun.append(life)
        return life

    def reset(self, why: FailureKind) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.anew += 1


def supervised(table: Table, *, once: bool = False) -> tuple[QuerySupervisor, RecordedEvents]:
    heard = RecordedEvents()
    return QuerySupervisor(table, heard, threading.Event(), once=once), heard


def test_a_query_that_finishes_is_done() -> None:
    table = Table(QueryRun())
    watched, heard = supervised(table, once=True)
    watched.poll(0)
    watched.poll(1)
    assert watched.outcome is None
    table.begun[0].query.isActive = False
    watched.poll(2)
    assert watched.outcome == Outcome("t", None)
    assert table.begun[0].stops == 1
    assert heard.lines == []


def test_the_exception_of_the_driver_is_preferred_to_spark_s_text() -> None:
    table = Table(QueryRun("a long story", CONFLICT), QueryRun())
    watched, heard = supervised(table)
    watched.poll(0)
    table.begun[0].query.isActive = False
    watched.poll(1)
    watched.poll(1.05)
    assert len(table.begun) == 1
    watched.poll(2)
    assert len(table.begun) == 2
    assert [line.rpartition("; ")[2] for line in heard.lines] == [
        "restarting from the offsets in the table"
    ]


def test_a_wait_is_reported_once() -> None:
    table = Table(*[NoBrokerReachable("nobody there")] * 5, QueryRun())
    watched, heard = supervised(table)
    for now_s in range(0, 60, 10):
        watched.poll(now_s)
    assert heard.lines == ["t: nobody there; waiting for the brokers"]
    assert len(table.begun) == 1


def test_a_fatal_failure_ends_the_query() -> None:
    table = Table(
        QueryRun(f"x {LandingFailure(FailureKind.DATA_LOSS, 'offsets 5 to 9 are gone')} y")
    )
    watched, heard = supervised(table)
    watched.poll(0)
    table.begun[0].query.isActive = False
    watched.poll(1)
    assert watched.outcome is not None
    assert watched.outcome.failure is not None
    assert watched.outcome.failure.message == "offsets 5 to 9 are gone"
    assert heard.lines == ["t: stopped: offsets 5 to 9 are gone"]
    watched.poll(2)
    assert len(table.begun) == 1


def test_a_query_whose_tables_were_rewritten_starts_over() -> None:
    table = Table(QueryRun("errors.RowsRemoved: version 8 took rows out"), QueryRun())
    watched, _ = supervised(table)
    watched.poll(0)
    table.begun[0].query.isActive = False
    watched.poll(1)
    watched.poll(2)
    assert table.anew == 1
    assert len(table.begun) == 2


def test_a_query_whose_table_has_new_columns_restarts_from_its_checkpoint() -> None:
    text = (
        "tables.following.SchemaChanged: version 8 of /lake/t has columns that the stream started"
    )
    table = Table(QueryRun(f"{text} without: 'b'; restart it from the same checkpoint"), QueryRun())
    watched, heard = supervised(table)
    watched.poll(0)
    table.begun[0].query.isActive = False
    watched.poll(1)
    watched.poll(2)
    assert (table.anew, len(table.begun)) == (0, 2)
    changed = "version 8 of /lake/t has columns that the stream started without: 'b'"
    assert heard.lines == [f"t: {changed}; restarting with them"]


def test_a_query_whose_state_is_incompatible_starts_over_unless_it_refuses() -> None:
    text = "[STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] Provided value schema does not match"
    table = Table(QueryRun(text), QueryRun(text))
    watched, heard = supervised(table)
    watched.poll(0)
    table.begun[0].query.isActive = False
    watched.poll(1)
    watched.poll(2)
    assert (table.anew, len(table.begun)) == (1, 2)
    table.refusal = LandingFailure(FailureKind.INVALID, "rows would be lost")
    table.begun[1].query.isActive = False
    watched.poll(3)
    assert watched.outcome == Outcome("t", table.refusal)
    assert heard.lines[-1] == "t: stopped: rows would be lost"


def test_a_failure_after_the_stop_is_not_reported() -> None:
    """Spark's JVM receives a signal to the process group too, and may exit first."""
    stop, heard = threading.Event(), RecordedEvents()
    table = Table(QueryRun("An error occurred while calling o31.load"))
    watched = QuerySupervisor(table, heard, stop, once=False)
    watched.poll(0)
    table.begun[0].query.isActive = False
    stop.set()
    watched.poll(1)
    watched.stop()
    assert watched.outcome == Outcome("t", None)
    assert heard.lines == []


def test_a_stop_ends_running_queries_without_a_failure() -> None:
    tables = [Table(QueryRun()), Table(NoBrokerReachable("nobody"))]
    stop = threading.Event()
    heard = RecordedEvents()
    said = heard.said

    def stop_then(table: str, text: str) -> None:
        said(table, text)
        stop.set()

    heard.said = stop_then  # type: ignore[method-assign]
    outcomes = run_queries(tables, heard, stop, once=False)
    assert outcomes == [Outcome("t", None), Outcome("t", None)]
    assert tables[0].begun[0].stops == 1


def test_all_queries_end_if_the_jvm_is_gone() -> None:
    class Gone(QueryRun):
        def stop(self) -> None:
            super().stop()
            raise ConnectionRefusedError

    one, other = Table(Gone()), Table(Gone())
    third = Table(ConnectionRefusedError())
    with pytest.raises(ConnectionRefusedError):
        run_queries([one, other, third], RecordedEvents(), threading.Event(), once=False)
    assert [table.begun[0].stops for table in (one, other)] == [1, 1]
