"""The part of a SparkContext that landings use, with tasks in threads of this process.

Tests of the scheduler's own decisions use it; that Spark runs the same tasks is tested elsewhere.
"""

from collections.abc import Callable, Sequence
from typing import Any


class LocalContext:
    """`before_job` is called with the tasks of each job; an exception fails the job."""

    def __init__(self, before_job: Callable[[Sequence[Any]], None] = lambda _: None) -> None:
        self.master = "local[2]"
        self.defaultParallelism = 2
        self._before_job = before_job

    def getConf(self) -> dict[str, str]:  # noqa: N802
        """No setting has another value than its default."""
        return {}

    def setJobGroup(self, *_: object, **__: object) -> None:  # noqa: N802
        """Jobs have no groups."""

    def setLocalProperty(self, *_: object) -> None:  # noqa: N802
        """Jobs have no pools."""

    def cancelJobGroup(self, _: str) -> None:  # noqa: N802
        """A job is over when its threads are."""

    def parallelize(self, values: Sequence[Any], _: int) -> "_Distributed":
        return _Distributed(self._before_job, list(values))


class _Distributed:
    def __init__(self, before_job: Callable[[Sequence[Any]], None], values: list[Any]) -> None:
        self._before_job = before_job
        self._values = values
        self._work: Callable[[Any], Any] = lambda value: value

    def map(self, work: Callable[[Any], Any]) -> "_Distributed":
        self._work = work
        return self

    def collect(self) -> list[Any]:
        self._before_job(self._values)
        return [self._work(value) for value in self._values]
