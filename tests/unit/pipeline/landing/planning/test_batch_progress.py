"""How far batches in flight are, from the reports of their tasks."""

from sawlog.pipeline.landing.planning.batch_progress import BatchesInFlight, BatchProgress


def test_reports_of_tasks_add_up_and_the_rate_counts_from_the_first() -> None:
    batches = BatchesInFlight()
    batches.began("t", {1: 600, 2: 400}, now_s=10.0)
    assert batches.progress(12.0) == {"t": BatchProgress(0, 1_000, 2.0, 0.0)}
    batches.reported(1, 0, now_s=14.0)
    batches.reported(1, 100, now_s=15.0)
    batches.reported(2, 300, now_s=15.0)
    assert batches.progress(16.0) == {"t": BatchProgress(400, 1_000, 6.0, 200.0)}


def test_a_task_that_starts_again_counts_with_its_newest_report() -> None:
    batches = BatchesInFlight()
    batches.began("t", {1: 600}, now_s=0.0)
    batches.reported(1, 500, now_s=1.0)
    batches.reported(1, 0, now_s=2.0)
    assert batches.progress(3.0)["t"].read == 0


def test_a_batch_that_was_read_is_complete_whatever_was_reported() -> None:
    batches = BatchesInFlight()
    batches.began("t", {1: 600}, now_s=0.0)
    batches.reported(1, 100, now_s=1.0)
    batches.all_read("t", now_s=3.0)
    assert batches.progress(9.0) == {"t": BatchProgress(600, 600, 9.0, 300.0)}


def test_reports_of_tasks_that_are_not_in_flight_are_ignored() -> None:
    batches = BatchesInFlight()
    batches.began("t", {1: 600}, now_s=0.0)
    batches.ended("t")
    batches.ended("t")
    batches.reported(1, 600, now_s=1.0)
    assert batches.progress(2.0) == {}
    batches.began("t", {2: 50}, now_s=3.0)
    batches.reported(1, 600, now_s=4.0)
    batches.reported(2, 70, now_s=4.0)  # more than planned: no report of ours
    assert batches.progress(5.0)["t"].read == 50
