"""Events of a run: passed on one by one, counted, and never stopped by the callback."""

import logging

import pytest

from sawlog.pipeline.landing.driver.driver_records import RunState
from sawlog.pipeline.landing.driver.events import LandedBatch
from sawlog.pipeline.landing.driver.query_supervisor import Outcome
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure
from sawlog.pipeline.landing.planning.batch_progress import BatchProgress as ProgressOfBatch
from sawlog.pipeline.pipeline_events import (
    BatchLanded,
    BatchProgress,
    Message,
    PipelineEvent,
    PipelineFailed,
    Progress,
    RunEvents,
    StateChanged,
    log_event,
)

BATCH = LandedBatch(4, 1_000, 2, 9_000, 1, 8_000, 0.5, {})


def test_events_reach_the_callback_and_are_counted() -> None:
    seen: list[PipelineEvent] = []
    events = RunEvents(["a", "b"], seen.append)
    events.report("a", "waits")
    events.batch_progressed("a", ProgressOfBatch(500, 1_002, 0.25, 2_000.0))
    events.batch_landed("a", BATCH, 1_002)
    events.batch_landed("a", BATCH._replace(version=5, rows=1), 1_003)
    events.progress_measured("b", 7, 10)
    events.state_changed("b", RunState.STOPPED, LandingFailure(FailureKind.DATA_LOSS, "lost"))
    assert seen == [
        Message("a", "waits"),
        BatchProgress("a", 500, 1_002, 0.25, 2_000.0),
        BatchLanded("a", 4, 1_000, 2, 1, 8_000, 0.5),
        BatchLanded("a", 5, 1, 2, 1, 8_000, 0.5),
        Progress("b", 7, 10),
        StateChanged("b", RunState.STOPPED, "lost"),
    ]
    result = events.finished([Outcome("a", None), Outcome("b", None)])
    assert (result.rows, result.dead_letters) == (1_001, 4)
    assert (result.tables["a"].batches, result.tables["a"].version) == (2, 5)
    assert (result.tables["b"].version, result.failures) == (None, {})


def test_progress_is_passed_on_only_if_it_changed() -> None:
    seen: list[PipelineEvent] = []
    events = RunEvents(["a", "b"], seen.append)
    for table, landed, end in [("a", 0, 3), ("b", 0, 3), ("a", 0, 3), ("a", 3, 3), ("a", 3, 3)]:
        events.progress_measured(table, landed, end)
    assert seen == [Progress("a", 0, 3), Progress("b", 0, 3), Progress("a", 3, 3)]


def test_a_failing_callback_is_logged_and_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_: PipelineEvent) -> None:
        raise RuntimeError("no such channel")

    events = RunEvents(["a"], fail)
    events.batch_landed("a", BATCH, 1_002)
    assert events.result.rows == 1_000
    assert "no such channel" in caplog.text


def test_failures_are_in_the_result_and_its_exception() -> None:
    events = RunEvents(["a", "b"], lambda _: None)
    failure = LandingFailure(FailureKind.DATA_LOSS, "offsets 0 to 9 were deleted")
    result = events.finished([Outcome("a", failure), Outcome("b", None)])
    assert result.failures == {"a": "offsets 0 to 9 were deleted"}
    assert result.tables["a"].failure_kind is FailureKind.DATA_LOSS
    assert str(PipelineFailed(result)) == "a: offsets 0 to 9 were deleted"


def test_without_a_callback_messages_and_batches_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "sawlog.pipeline")
    events = RunEvents(["a"], log_event)
    events.report("a", "waits")
    events.batch_landed("a", BATCH, 1_002)
    events.progress_measured("a", 1_002, 1_002)
    assert [record.message for record in caplog.records] == [
        "a: waits", "a v4: 1,000 rows, 2 dead letters in 0.5 s",
    ]  # fmt: skip
