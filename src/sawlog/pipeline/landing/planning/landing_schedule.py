"""Which tables land next, and which share a Spark job. Pure; time is passed in."""

import math
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from sawlog.pipeline.landing.configuration.pipeline_config import CommitBounds
from sawlog.pipeline.landing.planning.batch_trigger import BatchTrigger
from sawlog.pipeline.landing.planning.task_split import MIN_TASK_ROWS

TABLES_PER_CORE = 4  # of a narrow job; its tables are committed when all its tasks have ended


class Lane(Enum):
    """A kind of jobs.

    Tables whose batch is one task share narrow jobs, so that a hundred small tables need a dozen
    jobs. Larger batches are wide, so that backlogs do not occupy the jobs of small tables. A table
    that failed since its last landed batch is suspect and has a job to itself: if its tasks hang or
    kill their worker, that delays and fails no other table.
    """

    NARROW = "narrow"
    WIDE = "wide"
    SUSPECT = "suspect"


JOBS = {Lane.NARROW: 2, Lane.WIDE: 1, Lane.SUSPECT: 1}
"""The number of jobs of each lane. Two of the narrow one, so that cores do not wait for the driver
between two jobs.
"""


class Job(NamedTuple):
    lane: Lane
    tables: tuple[str, ...]


@dataclass(slots=True)
class _Table:
    trigger: BatchTrigger
    max_rows: int
    at_once: bool
    rows: int = 0
    weight: float = 0.0
    due_since_s: float | None = None
    is_in_flight: bool = False


class LandingSchedule:
    """The tables of a pipeline and the jobs in flight.

    A table has at most one batch in flight, and a lane at most `JOBS` jobs. Within a lane the table
    that has been due for longest is first. A table with a backlog is due again at the end of its
    batch, behind all tables that were due before, so it cannot starve them.
    """

    def __init__(self, cores: int) -> None:
        assert cores > 0, cores
        self._cores = cores
        self._tables: dict[str, _Table] = {}
        self._jobs = dict.fromkeys(Lane, 0)
        self._suspects: set[str] = set()

    def add(self, table: str, bounds: CommitBounds, *, at_once: bool) -> None:
        """Add a table without a backlog. With `at_once` a batch never waits for `every`."""
        assert table not in self._tables, table
        self._tables[table] = _Table(BatchTrigger(bounds), bounds.rows, at_once)

    def remove(self, table: str) -> None:
        """Forget a table; the job of its batch, if there is one, still occupies its lane."""
        self._tables.pop(table, None)

    def measured(self, table: str, rows: int, weight: float, now_s: float) -> None:
        """Set the backlog of a table: offsets, and their estimated bytes."""
        known = self._tables[table]
        known.rows, known.weight = rows, weight
        self._mark_due(known, now_s)

    def next_job(self, now_s: float) -> Job | None:
        """Start the next job: its tables are in flight from now on. None: nothing can start."""
        for table in self._tables.values():
            self._mark_due(table, now_s)
        for lane in (Lane.SUSPECT, Lane.NARROW, Lane.WIDE):
            if self._jobs[lane] < JOBS[lane] and (names := self._of_lane(lane)):
                self._jobs[lane] += 1
                for name in names:
                    table = self._tables[name]
                    table.is_in_flight = True
                    table.due_since_s = None
                    table.trigger.started(now_s)
                return Job(lane, tuple(names))
        return None

    def job_ended(self, job: Job) -> None:
        assert self._jobs[job.lane] > 0, job
        self._jobs[job.lane] -= 1

    def batch_ended(self, table: str) -> None:
        """The batch was committed, or was not started; `measured` sets what is left."""
        known = self._tables[table]
        known.is_in_flight = False
        known.rows, known.weight = 0, 0.0

    def is_in_flight(self, table: str) -> bool:
        return self._tables[table].is_in_flight

    def failed(self, table: str) -> None:
        """Let the table run by itself until it lands a batch."""
        self._suspects.add(table)

    def landed(self, table: str) -> None:
        self._suspects.discard(table)

    def wait_s(self, now_s: float) -> float:
        """The time until the next batch that waits for `every` is due; infinity without one."""
        waiting = [
            table.trigger.remaining_s(now_s)
            for table in self._tables.values()
            if table.rows > 0 and not table.is_in_flight and table.due_since_s is None
        ]
        return min(waiting, default=math.inf)

    def _mark_due(self, table: _Table, now_s: float) -> None:
        if table.is_in_flight:
            return
        is_due = table.rows > 0 and (
            table.at_once or table.trigger.is_due(table.rows, table.weight, now_s)
        )
        if not is_due:
            table.due_since_s = None
        elif table.due_since_s is None:
            table.due_since_s = now_s

    def _of_lane(self, lane: Lane) -> list[str]:
        """The tables of the next job of a lane, the one that is due for longest first."""
        due = [
            (table.due_since_s, name)
            for name, table in self._tables.items()
            if table.due_since_s is not None and self._lane(name) is lane
        ]
        names = [name for _, name in sorted(due)]
        if lane is Lane.SUSPECT:
            return names[:1]
        if lane is Lane.NARROW:
            return names[: TABLES_PER_CORE * self._cores]
        rows, count = 0, 0
        while count < len(names) and rows < self._cores * MIN_TASK_ROWS:
            rows += self._batch_rows(names[count])
            count += 1
        return names[:count]

    def _lane(self, name: str) -> Lane:
        if name in self._suspects:
            return Lane.SUSPECT
        return Lane.NARROW if self._batch_rows(name) <= MIN_TASK_ROWS else Lane.WIDE

    def _batch_rows(self, name: str) -> int:
        table = self._tables[name]
        return min(table.rows, table.max_rows)
