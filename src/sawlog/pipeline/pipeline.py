"""The Python API: a pipeline file, or the same content as Python objects, as an object.

from sawlog.pipeline import Pipeline

pipeline = Pipeline.from_file("pipeline.yaml")
result = pipeline.run_once()
print(result.rows, result.dead_letters)
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from sawlog.pipeline.formats.compile_ahead import compiled_meanwhile
from sawlog.pipeline.landing.configuration.pipeline_config import PipelineConfig
from sawlog.pipeline.landing.configuration.pipeline_file import (
    parse_pipeline,
    pipeline_from_objects,
    read_pipeline,
)
from sawlog.pipeline.landing.driver.pipeline_cluster import pipeline_cluster
from sawlog.pipeline.landing.driver.pipeline_runner import run_pipeline
from sawlog.pipeline.landing.driver.pipeline_status import TableStatus, statuses
from sawlog.pipeline.landing.driver.preflight import CheckResult, check_tables, unwritable
from sawlog.pipeline.landing.driver.spark_session import formats_to_compile, spark_context
from sawlog.pipeline.landing.driver.sql_parser import standalone_parser
from sawlog.pipeline.pipeline_events import (
    OnEvent,
    PipelineFailed,
    RunEvents,
    RunResult,
    log_event,
)

if TYPE_CHECKING:
    from pyspark import SparkContext


class PipelineCheck(NamedTuple):
    """What a run that starts now would do, by table."""

    lake_problem: str | None  # why the lake cannot be written to
    tables: dict[str, CheckResult]

    @property
    def is_good(self) -> bool:
        return self.lake_problem is None and all(
            table.problem is None for table in self.tables.values()
        )


class PipelineIsRunning(Exception):
    """A pipeline object has one run at a time."""


class Pipeline:
    """The tables of a file: `check`, `status`, `run_once`, or `start` and `stop`.

    A SparkContext that is active in this process is used, and left as it is; else one is started
    for each run and stopped with it. Signals are left to the caller.
    """

    def __init__(
        self,
        config: PipelineConfig,
        *,
        master: str | None = None,
        on_event: OnEvent | None = None,
    ) -> None:
        """`master` is the Spark master, by default that of the file or all cores of this machine.

        `on_event` is called with each event of a run, from its threads, one at a time; by default
        events are logged.
        """
        self.config = config
        self._master = master
        self._on_event = on_event or log_event
        self._run: _BackgroundRun | None = None

    @classmethod
    def from_file(
        cls, path: str | Path, *, master: str | None = None, on_event: OnEvent | None = None
    ) -> Self:
        """Read a pipeline file. Raises OSError, or BadPipelineFile with all problems."""
        return cls(read_pipeline(str(path)), master=master, on_event=on_event)

    @classmethod
    def from_yaml(
        cls,
        text: str,
        *,
        directory: str | Path = ".",
        master: str | None = None,
        on_event: OnEvent | None = None,
    ) -> Self:
        """Parse the text of a pipeline file; its paths are relative to `directory`."""
        file = str(Path(directory) / "pipeline.yaml")
        return cls(parse_pipeline(file, text), master=master, on_event=on_event)

    @classmethod
    def from_objects(
        cls,
        content: Mapping[str, Any],
        *,
        directory: str | Path = ".",
        master: str | None = None,
        on_event: OnEvent | None = None,
    ) -> Self:
        """Build it from dicts, lists, texts and numbers with the keys of a pipeline file."""
        config = pipeline_from_objects(content, str(directory))
        return cls(config, master=master, on_event=on_event)

    @property
    def tables(self) -> list[str]:
        return [table.name for table in self.config.tables]

    @property
    def is_running(self) -> bool:
        return self._run is not None and self._run.is_alive

    def check(self) -> PipelineCheck:
        """Say what a run would do, and change nothing. Queries need a JVM, for Spark's parser."""
        parser = standalone_parser() if self.config.queries else nullcontext(None)
        with pipeline_cluster(self.config.brokers) as cluster, parser as sql:
            found = check_tables(
                cluster, self.config.tables, (lambda _: None) if sql is None else sql.error
            )
        return PipelineCheck(unwritable(self.config.lake), found)

    def status(self) -> list[TableStatus]:
        """The state, offsets, lag and size of each table, in the order of the file."""
        with pipeline_cluster(self.config.brokers) as cluster:
            return statuses(self.config, cluster, lambda _: None)

    def run_once(self) -> RunResult:
        """Land the records that are available now.

        Raises PipelineFailed if a table failed, and PipelineIsRunning.
        """
        self._check_idle()
        result = self._land(threading.Event(), once=True)
        if result.failures:
            raise PipelineFailed(result)
        return result

    def start(self) -> None:
        """Begin to land in threads of this process, until `stop` or until no table can continue.

        Raises PipelineIsRunning.
        """
        self._check_idle()
        self._run = _BackgroundRun(lambda stop: self._land(stop, once=False))

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end of the run; False if it goes on after `timeout_s`."""
        return self._run is None or self._run.wait(timeout_s)

    def stop(self) -> RunResult:
        """Stop after the commits in progress, and return what the run did.

        Raises what ended the run if that was not a table: Spark did not start, or its JVM exited.
        """
        if self._run is None:
            return RunResult()
        run, self._run = self._run, None
        return run.stop()

    def _check_idle(self) -> None:
        if self.is_running:
            raise PipelineIsRunning("the pipeline runs already; stop() ends that run")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _land(self, stop: threading.Event, *, once: bool) -> RunResult:
        events = RunEvents(self.tables, self._on_event)
        problem = unwritable(self.config.lake)
        if problem is not None:
            raise OSError(problem)
        formats = formats_to_compile(self.config, self._master)
        with compiled_meanwhile(formats) as wait_for_parsers, self._spark() as context:
            wait_for_parsers(stop)
            return events.finished(run_pipeline(context, self.config, events, stop, once=once))

    @contextmanager
    def _spark(self) -> "Iterator[SparkContext]":
        from pyspark import SparkContext

        active = SparkContext._active_spark_context  # noqa: SLF001  # the only way to ask
        if active is not None:
            yield active
            return
        with spark_context(self.config, self._master) as context:
            yield context


class _BackgroundRun:
    """A run in a thread of its own."""

    def __init__(self, land: Callable[[threading.Event], RunResult]) -> None:
        self._run_until = land
        self._stop = threading.Event()
        self._result = RunResult()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._land, name="sawlog-pipeline-run", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def wait(self, timeout_s: float | None) -> bool:
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def stop(self) -> RunResult:
        self._stop.set()
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._result

    def _land(self) -> None:
        try:
            self._result = self._run_until(self._stop)
        except BaseException as error:
            self._error = error
