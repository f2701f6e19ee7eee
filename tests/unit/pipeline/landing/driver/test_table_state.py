"""The state of a table, from the checks of a run and the records of drivers."""

from dataclasses import replace

import pytest

from sawlog.pipeline.landing.driver.driver_records import (
    SILENT_MS,
    RunState,
    SeenDriver,
    TableRun,
    new_record,
)
from sawlog.pipeline.landing.driver.table_state import (
    PATIENCE_MS,
    RecordedRun,
    State,
    TableState,
    combined_state,
    recorded_runs,
)
from sawlog.pipeline.landing.failures import FailureKind

NOW_MS = 1_800_000_000_000
READY = TableState(State.READY)


def recorded(
    state: RunState,
    *,
    alive: bool = True,
    reason: str | None = None,
    kind: FailureKind | None = None,
    measured_ms: int | None = NOW_MS,
    behind_since_ms: int | None = None,
) -> RecordedRun:
    run = TableRun(state, NOW_MS - 9_000, reason, kind, measured_ms, behind_since_ms)
    return RecordedRun(run, "host, process 7", alive, NOW_MS - 8_000)


def combined(*runs: RecordedRun, checked: TableState = READY, lag: int | None = 5) -> TableState:
    return combined_state(checked, lag, runs, NOW_MS)


def test_a_table_is_running_only_in_a_live_driver() -> None:
    found = combined(recorded(RunState.RUNNING))
    assert (found.state, found.since_ms, found.drivers) == (
        State.RUNNING, NOW_MS - 9_000, ("host, process 7",)
    )  # fmt: skip
    found = combined(recorded(RunState.RUNNING, alive=False))
    assert found.state is State.READY
    assert found.drivers == ()
    assert found.reason is not None
    assert found.reason.startswith("no driver runs it: the last one (host, process 7) is gone")
    assert combined().state is State.READY


@pytest.mark.parametrize(
    "run",
    [
        recorded(RunState.RUNNING, behind_since_ms=NOW_MS - PATIENCE_MS - 1),
        recorded(RunState.RUNNING, measured_ms=NOW_MS - PATIENCE_MS - 1),
    ],
)
def test_a_table_whose_records_wait_too_long_is_stalled(run: RecordedRun) -> None:
    found = combined(run)
    assert found.state is State.STALLED
    assert found.reason is not None
    assert found.reason.startswith("5 records wait, and none have landed since ")
    assert combined(run, lag=0).state is State.RUNNING, "an idle table moves as it should"


def test_records_may_wait_for_the_next_batch() -> None:
    run = recorded(RunState.RUNNING, behind_since_ms=NOW_MS - PATIENCE_MS + 1)
    assert combined(run).state is State.RUNNING


@pytest.mark.parametrize("alive", [True, False])
def test_a_table_that_gave_up_is_stopped_also_after_its_driver(alive: bool) -> None:
    run = recorded(RunState.STOPPED, alive=alive, reason="a worker died", kind=FailureKind.OTHER)
    found = combined(run)
    assert (found.state, found.since_ms) == (State.STOPPED, NOW_MS - 9_000)
    assert found.reason is not None
    assert found.reason.startswith("a worker died; ")


def test_a_loss_that_was_resolved_is_gone_with_its_driver() -> None:
    loss = {"reason": "lost", "kind": FailureKind.DATA_LOSS}
    assert combined(recorded(RunState.STOPPED, alive=False, **loss)) == READY  # type: ignore[arg-type]
    live = combined(recorded(RunState.STOPPED, **loss))  # type: ignore[arg-type]
    assert live.state is State.STOPPED
    assert live.reason is not None
    assert "restart it" in live.reason


def test_a_query_that_lacks_a_column_is_stopped_also_after_its_driver() -> None:
    run = recorded(
        RunState.STOPPED, alive=False, reason="no column `b`", kind=FailureKind.NOT_FOUND
    )
    assert combined(run) == READY, "the topic of a landed table exists by now"
    found = combined_state(READY, None, [run], NOW_MS, is_query=True)
    assert found[:2] == (State.STOPPED, "no column `b`; a run tries again")


def test_the_checks_of_a_run_are_believed_first() -> None:
    stopped = TableState(State.STOPPED, "the topic is gone")
    found = combined(recorded(RunState.RUNNING), checked=stopped)
    assert (found.state, found.reason, found.since_ms) == (State.STOPPED, "the topic is gone", None)
    found = combined(recorded(RunState.STOPPED, reason="older"), checked=stopped)
    assert (found.reason, found.since_ms) == ("the topic is gone", NOW_MS - 9_000)


def test_a_recorded_stop_is_known_without_brokers() -> None:
    unknown = TableState(State.UNKNOWN, "no broker answers")
    run = recorded(RunState.STOPPED, alive=False, reason="lost", kind=FailureKind.DATA_LOSS)
    assert combined(run, checked=unknown).state is State.STOPPED
    assert combined(recorded(RunState.RUNNING), checked=unknown).state is State.UNKNOWN


def test_a_waiting_table_tells_why_and_since_when() -> None:
    found = combined(recorded(RunState.WAITING, reason="no space; waiting for space"))
    assert found[:3] == (State.WAITING, "no space; waiting for space", NOW_MS - 9_000)
    assert combined(recorded(RunState.STARTING)).state is State.WAITING


def test_two_drivers_of_a_table_are_named() -> None:
    found = combined(recorded(RunState.RUNNING), recorded(RunState.RUNNING))
    assert found.state is State.RUNNING
    assert found.reason is not None
    assert found.reason.startswith("2 drivers run it (host, process 7; host, process 7)")
    ended = combined(recorded(RunState.ENDED), recorded(RunState.RUNNING))
    assert ended.reason is None


def test_a_driver_that_died_counts_before_one_that_ended_earlier() -> None:
    died = new_record("died", ["t"], 0)
    died = replace(died, machine="another", tables={"t": TableRun(RunState.RUNNING)})
    ended = replace(died, id="ended", ended_ms=1, tables={"t": TableRun(RunState.ENDED)})
    for heard_ms, last in ((NOW_MS - 5_000, RunState.RUNNING), (NOW_MS - 90_000, RunState.ENDED)):
        drivers = [SeenDriver(died, heard_ms), SeenDriver(ended, NOW_MS)]
        runs = recorded_runs(drivers, "t", NOW_MS + SILENT_MS)
        assert runs[-1].run.state is last
        assert not any(recorded.is_alive for recorded in runs)
