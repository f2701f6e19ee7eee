"""One run of a streaming query: its batch committer, and a stop between two commits."""

import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from sawlog.pipeline.landing.failures import LandingFailure, classify, parse_failure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


class LateBatch(Exception):
    """Raised for a batch after the stop, so that Spark does not record it as done."""


class BatchCommitter(ABC):
    """The callable for `foreachBatch`: commits one batch at a time, until it is told to stop.

    `commit_batch` holds `commit_lock` while it commits, and commits only while `accepts_batches`.
    """

    def __init__(self) -> None:
        self.commit_lock = threading.Lock()
        self.accepts_batches = True
        self.failure: BaseException | None = None
        self.rows = 0

    def __call__(self, frame: "DataFrame", batch_id: int) -> None:
        try:
            self.commit_batch(frame, batch_id)
        except BaseException as error:
            self.failure = error
            raise

    @abstractmethod
    def commit_batch(self, frame: "DataFrame", batch_id: int) -> None:
        """Commit one batch as a version of the table."""

    def stop_accepting(self) -> None:
        """Wait for the commit in progress; no other follows."""
        with self.commit_lock:
            self.accepts_batches = False


class QueryRun:
    """A running query."""

    def __init__(self, query: "StreamingQuery", commits: BatchCommitter) -> None:
        self.query = query
        self._commits = commits

    @property
    def is_active(self) -> bool:
        return self.query.isActive

    @property
    def is_set_up(self) -> bool:
        return True

    @property
    def failure(self) -> LandingFailure | None:
        """Why the query ended: the exception of our own code is preferred to Spark's text."""
        exception = self.query.exception()
        if exception is None:
            return None
        if self._commits.failure is not None:
            return classify(self._commits.failure)
        return parse_failure(str(exception))

    @property
    def rows(self) -> int:
        return self._commits.rows

    def stop(self) -> None:
        self._commits.stop_accepting()
        self.query.stop()
