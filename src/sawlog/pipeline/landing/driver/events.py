"""Events of a running pipeline, for progress output."""

from typing import NamedTuple, Protocol

from sawlog.core.ids import TopicPartition
from sawlog.pipeline.landing.driver.driver_records import RunState
from sawlog.pipeline.landing.failures import LandingFailure
from sawlog.pipeline.landing.planning.batch_progress import BatchProgress


class LandedBatch(NamedTuple):
    """A batch that was committed as one version."""

    version: int
    rows: int
    bad_rows: int
    fetched_bytes: int
    files: int
    file_bytes: int
    seconds: float
    ends: dict[TopicPartition, int]


class Events(Protocol):
    """The receiver of events; called from the threads of all tables."""

    def report(self, table: str, text: str) -> None:
        """Report a wait, a restart or a stop."""

    def batch_progressed(self, table: str, progress: BatchProgress) -> None:
        """Report how far a batch is that is not committed yet, twice a second."""

    def batch_landed(self, table: str, batch: LandedBatch, done: int) -> None:
        """Report a committed batch; the table now has `done` offsets of the topic."""

    def progress_measured(self, table: str, done: int, ends: int) -> None:
        """Report how many offsets of the topic the table has, and how many exist."""

    def state_changed(
        self, table: str, state: RunState, failure: LandingFailure | None = None
    ) -> None:
        """Report a state, with the failure for which the table waits or is stopped."""


class EventForwarder:
    """Implements Events: passes all of them on. A subclass listens to some."""

    def __init__(self, events: Events) -> None:
        self._events = events

    def report(self, table: str, text: str) -> None:
        self._events.report(table, text)

    def batch_progressed(self, table: str, progress: BatchProgress) -> None:
        self._events.batch_progressed(table, progress)

    def batch_landed(self, table: str, batch: LandedBatch, done: int) -> None:
        self._events.batch_landed(table, batch, done)

    def progress_measured(self, table: str, done: int, ends: int) -> None:
        self._events.progress_measured(table, done, ends)

    def state_changed(
        self, table: str, state: RunState, failure: LandingFailure | None = None
    ) -> None:
        self._events.state_changed(table, state, failure)
