"""One run of a streaming query: its batch committer, and a stop between two commits."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

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
    """A running query; `ended` is called after it stopped, whatever the reason."""

    def __init__(
        self,
        query: "StreamingQuery",
        commits: BatchCommitter,
        ended: Callable[[], None] | None = None,
    ) -> None:
        self.query = query
        self._commits = commits
        self._ended = ended

    @property
    def failure(self) -> BaseException | None:
        return self._commits.failure

    @property
    def rows(self) -> int:
        return self._commits.rows

    def stop(self) -> None:
        self._commits.stop_accepting()
        try:
            self.query.stop()
        finally:
            if self._ended is not None:
                self._ended()
