"""One life of a query: the batches the driver commits in it, and its end between two of them."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


class Stopped(Exception):
    """What ends a batch that came too late, where Spark must not take it for done."""


class Commits(ABC):
    """What `foreachBatch` calls. `take` commits under `turn`, and only where it `takes_more`."""

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.takes_more = True
        self.failure: BaseException | None = None
        self.rows = 0

    def __call__(self, frame: "DataFrame", batch_id: int) -> None:
        try:
            self.take(frame, batch_id)
        except BaseException as error:
            self.failure = error
            raise

    @abstractmethod
    def take(self, frame: "DataFrame", batch_id: int) -> None:
        """One batch becomes a version of the table."""

    def refuse_more(self) -> None:
        """Returns when no commit is under way, and none will be."""
        with self.turn:
            self.takes_more = False


class QueryRun:
    """A `Run` of a step; `ended` is called last, whatever became of the query."""

    def __init__(
        self, query: "StreamingQuery", commits: Commits, ended: Callable[[], None] | None = None
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
        self._commits.refuse_more()
        try:
            self.query.stop()
        finally:
            if self._ended is not None:
                self._ended()
