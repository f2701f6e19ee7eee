"""Which tables land next and share a job: due, packed, fair, and failing ones by themselves."""

import math

import pytest

from sawlog.pipeline.landing.configuration.pipeline_config import CommitBounds
from sawlog.pipeline.landing.planning.landing_schedule import (
    JOBS,
    TABLES_PER_CORE,
    Job,
    LandingSchedule,
    Lane,
)
from sawlog.pipeline.landing.planning.task_split import MIN_TASK_ROWS

CORES = 2
NARROW_TABLES = TABLES_PER_CORE * CORES
BOUNDS = CommitBounds(every_s=10.0, rows=1_000_000, fetched_bytes=1_000_000_000)
LARGE = 500_000


def schedule_of(*tables: str, at_once: bool = False) -> LandingSchedule:
    made = LandingSchedule(CORES)
    for table in tables:
        made.add(table, BOUNDS, at_once=at_once)
    return made


def names(count: int, first: int = 0) -> list[str]:
    return [f"t{number:03}" for number in range(first, first + count)]


def end(schedule: LandingSchedule, job: Job, left: int = 0, now_s: float = 0.0) -> None:
    """The job ends and all its tables are committed; `left` rows wait in each."""
    schedule.job_ended(job)
    for table in job.tables:
        schedule.landed(table)
        schedule.batch_ended(table)
        schedule.measured(table, left, 0.0, now_s)


def test_tables_without_a_backlog_start_no_job() -> None:
    schedule = schedule_of("a", "b")
    schedule.measured("a", 0, 0.0, 1.0)
    assert schedule.next_job(1.0) is None
    assert schedule.wait_s(1.0) == math.inf


def test_small_tables_share_jobs() -> None:
    schedule = schedule_of(*names(20))
    for table in names(20):
        schedule.measured(table, 1_000, 0.0, 0.0)
    jobs = [schedule.next_job(0.0) for _ in range(JOBS[Lane.NARROW])]
    assert jobs == [
        Job(Lane.NARROW, tuple(names(NARROW_TABLES))),
        Job(Lane.NARROW, tuple(names(NARROW_TABLES, NARROW_TABLES))),
    ]
    assert schedule.next_job(0.0) is None, "all jobs of the lane run"
    end(schedule, jobs[0])  # type: ignore[arg-type]
    assert schedule.next_job(0.0) == Job(Lane.NARROW, tuple(names(4, 16)))


def test_a_table_has_one_batch_in_flight() -> None:
    schedule = schedule_of("a")
    schedule.measured("a", 1_000, 0.0, 0.0)
    job = schedule.next_job(0.0)
    schedule.measured("a", 2_000, 0.0, 20.0)
    assert schedule.next_job(20.0) is None
    assert job is not None
    end(schedule, job, 2_000, 20.0)
    assert schedule.next_job(20.0) == job


def test_a_small_batch_waits_for_its_interval() -> None:
    schedule = schedule_of("a")
    schedule.measured("a", 10, 0.0, 0.0)
    job = schedule.next_job(0.0)
    assert job is not None
    end(schedule, job, 10, 4.0)
    assert schedule.next_job(4.0) is None
    assert schedule.wait_s(4.0) == 6.0
    assert schedule.next_job(10.0) == job


@pytest.mark.parametrize(("rows", "weight"), [(1_000_000, 0.0), (10, 1e9)])
def test_a_full_batch_does_not_wait(rows: int, weight: float) -> None:
    schedule = schedule_of("a")
    schedule.measured("a", 10, 0.0, 0.0)
    job = schedule.next_job(0.0)
    assert job is not None
    end(schedule, job)
    schedule.measured("a", rows, weight, 1.0)
    assert schedule.next_job(1.0) is not None


def test_a_run_with_once_never_waits() -> None:
    schedule = schedule_of("a", at_once=True)
    for _ in range(3):
        schedule.measured("a", 10, 0.0, 0.0)
        job = schedule.next_job(0.0)
        assert job is not None
        end(schedule, job)


def test_a_backlog_leaves_jobs_to_small_tables() -> None:
    schedule = schedule_of("a", "b", "small")
    for table in ("a", "b"):
        schedule.measured(table, LARGE, 0.0, 0.0)
    assert schedule.next_job(0.0) == Job(Lane.WIDE, ("a",))
    assert schedule.next_job(0.0) is None, "a second backlog waits for the first"
    schedule.measured("small", 10, 0.0, 1.0)
    assert schedule.next_job(1.0) == Job(Lane.NARROW, ("small",))


def test_backlogs_take_turns() -> None:
    schedule = schedule_of("a", "b", "c", at_once=True)
    for table in ("a", "b", "c"):
        schedule.measured(table, LARGE, 0.0, 0.0)
    order = []
    for now_s in range(1, 7):
        job = schedule.next_job(float(now_s))
        assert job is not None
        order += job.tables
        end(schedule, job, LARGE, float(now_s))
    assert order == ["a", "b", "c"] * 2


def test_medium_backlogs_share_a_job_until_all_cores_have_work() -> None:
    rows = MIN_TASK_ROWS + 1
    schedule = LandingSchedule(4)
    for table in names(6):
        schedule.add(table, BOUNDS, at_once=True)
        schedule.measured(table, rows, 0.0, 0.0)
    assert schedule.next_job(0.0) == Job(Lane.WIDE, tuple(names(4)))


def test_the_size_of_a_batch_is_limited_by_its_bounds() -> None:
    schedule = LandingSchedule(CORES)
    schedule.add("a", CommitBounds(rows=100), at_once=True)
    schedule.measured("a", LARGE, 0.0, 0.0)
    assert schedule.next_job(0.0) == Job(Lane.NARROW, ("a",))


def test_a_table_that_failed_runs_by_itself_until_it_lands() -> None:
    schedule = schedule_of(*names(3), at_once=True)
    for table in names(2):
        schedule.failed(table)
    for table in names(3):
        schedule.measured(table, 10, 0.0, 0.0)
    jobs = [schedule.next_job(0.0) for _ in range(3)]
    assert jobs == [Job(Lane.SUSPECT, ("t000",)), Job(Lane.NARROW, ("t002",)), None]
    assert jobs[0] is not None
    end(schedule, jobs[0], 10)
    assert schedule.next_job(0.0) == Job(Lane.SUSPECT, ("t001",))
    assert schedule.next_job(0.0) == Job(Lane.NARROW, ("t000",))


def test_a_removed_table_starts_no_job_and_its_job_still_counts() -> None:
    schedule = schedule_of("a", "b", at_once=True)
    schedule.measured("a", LARGE, 0.0, 0.0)
    job = schedule.next_job(0.0)
    schedule.remove("a")
    schedule.measured("b", LARGE, 0.0, 0.0)
    assert schedule.next_job(0.0) is None
    assert job is not None
    schedule.job_ended(job)
    assert schedule.next_job(0.0) == Job(Lane.WIDE, ("b",))


def test_a_table_that_is_no_longer_due_loses_its_place() -> None:
    """As after a restart of the topic's broker: the ends are unknown until the next poll."""
    schedule = schedule_of("a", "b", at_once=True)
    schedule.measured("a", LARGE, 0.0, 0.0)
    schedule.measured("b", LARGE, 0.0, 1.0)
    schedule.measured("a", 0, 0.0, 2.0)
    schedule.measured("a", LARGE, 0.0, 3.0)
    assert schedule.next_job(3.0) == Job(Lane.WIDE, ("b",))
