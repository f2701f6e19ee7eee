"""What a run tells its callback: messages, landed batches, and how far the tables are."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from sawlog.core.event_logger import EventLogger
from sawlog.pipeline.landing.driver.driver_records import RunState
from sawlog.pipeline.landing.driver.events import LandedBatch
from sawlog.pipeline.landing.driver.query_supervisor import Outcome
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure
from sawlog.pipeline.landing.planning.batch_progress import BatchProgress as ProgressOfBatch

logger = EventLogger("sawlog.pipeline")


@dataclass(frozen=True, slots=True)
class Message:
    """A wait, a restart or a stop of a table, in a sentence; `table` may be `spark` or `sawlog`."""

    table: str
    text: str


@dataclass(frozen=True, slots=True)
class BatchLanded:
    """A batch that was committed as one version of the table."""

    table: str
    version: int
    rows: int
    dead_letters: int
    files: int
    file_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """How many records of a batch are read; twice a second, and when all are.

    With `read == planned` the batch is being written, merged or committed. Records are counted by
    offsets. The rate is 0 while no task has reported.
    """

    table: str
    read: int
    planned: int
    seconds: float
    records_per_s: float


@dataclass(frozen=True, slots=True)
class Progress:
    """How many offsets of its topic a table has, and how many there are."""

    table: str
    landed: int
    end: int

    @property
    def lag(self) -> int:
        return max(0, self.end - self.landed)


@dataclass(frozen=True, slots=True)
class StateChanged:
    """A table runs, waits, is stopped or has ended; `reason` is why it waits or is stopped."""

    table: str
    state: RunState
    reason: str | None = None


PipelineEvent = Message | BatchProgress | BatchLanded | Progress | StateChanged
OnEvent = Callable[[PipelineEvent], object]


@dataclass(slots=True)
class TableResult:
    """What a run did for one table."""

    rows: int = 0
    dead_letters: int = 0
    batches: int = 0
    version: int | None = None  # None: nothing was committed
    failure: str | None = None  # why the table stopped, and what to do
    failure_kind: FailureKind | None = None


@dataclass(slots=True)
class RunResult:
    """What a run did, by table."""

    tables: dict[str, TableResult] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables.values())

    @property
    def dead_letters(self) -> int:
        return sum(table.dead_letters for table in self.tables.values())

    @property
    def failures(self) -> dict[str, str]:
        """The reasons of tables that failed for good."""
        return {
            name: table.failure for name, table in self.tables.items() if table.failure is not None
        }


class PipelineFailed(Exception):
    """Tables failed for good; the others landed. `result` has both."""

    def __init__(self, result: RunResult) -> None:
        super().__init__("; ".join(f"{name}: {why}" for name, why in result.failures.items()))
        self.result = result


def log_event(event: PipelineEvent) -> None:
    """Write messages and batches to the logger `sawlog.pipeline`; the callback if none is given."""
    if isinstance(event, Message):
        logger.info(f"{event.table}: {event.text}")
    elif isinstance(event, BatchLanded):
        bad = f", {event.dead_letters:,} dead letters" if event.dead_letters else ""
        logger.info(
            f"{event.table} v{event.version}: {event.rows:,} rows{bad} in {event.seconds:.1f} s"
        )


class RunEvents:
    """Passes the events of a run to a callback, one at a time, and counts what landed.

    Progress is passed on only if it changed. An exception of the callback is logged and changes
    nothing about the run.
    """

    def __init__(self, tables: list[str], on_event: OnEvent) -> None:
        self.result = RunResult({name: TableResult() for name in tables})
        self._on_event = on_event
        self._progress: dict[str, Progress] = {}
        self._lock = threading.RLock()

    def report(self, table: str, text: str) -> None:
        self._pass_on(Message(table, text))

    def batch_progressed(self, table: str, progress: ProgressOfBatch) -> None:
        self._pass_on(BatchProgress(table, *progress))

    def batch_landed(self, table: str, batch: LandedBatch, done: int) -> None:  # noqa: ARG002
        with self._lock:
            counted = self.result.tables[table]
            counted.rows += batch.rows
            counted.dead_letters += batch.bad_rows
            counted.batches += 1
            counted.version = batch.version
        self._pass_on(
            BatchLanded(
                table, batch.version, batch.rows, batch.bad_rows, batch.files, batch.file_bytes,
                batch.seconds,
            )
        )  # fmt: skip

    def progress_measured(self, table: str, done: int, ends: int) -> None:
        measured = Progress(table, done, ends)
        with self._lock:
            if self._progress.get(table) != measured:
                self._progress[table] = measured
                self._pass_on(measured)

    def state_changed(
        self, table: str, state: RunState, failure: LandingFailure | None = None
    ) -> None:
        self._pass_on(StateChanged(table, state, None if failure is None else failure.message))

    def finished(self, outcomes: list[Outcome]) -> RunResult:
        """Add how the tables ended."""
        for name, failure in outcomes:
            if failure is not None:
                self.result.tables[name].failure = failure.message
                self.result.tables[name].failure_kind = failure.kind
        return self.result

    def _pass_on(self, event: PipelineEvent) -> None:
        with self._lock:
            try:
                self._on_event(event)
            except Exception:
                logger.exception("the callback for pipeline events failed", table=event.table)
