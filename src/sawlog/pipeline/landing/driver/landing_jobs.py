"""Runs the Spark jobs of landings: plans the batches of a job, runs their tasks, sorts the results.

A few threads run one job each. Each has its own connections, so that a broker that does not answer
delays only the tables of one job.
"""

import contextlib
import itertools
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from sawlog.client.errors import UNANSWERED
from sawlog.client.net.cluster import Cluster
from sawlog.core.errors import KafkaError
from sawlog.core.ids import TopicPartition
from sawlog.pipeline.landing.driver.landing_run import PreparedLanding, planner_of
from sawlog.pipeline.landing.driver.pipeline_cluster import pipeline_cluster
from sawlog.pipeline.landing.driver.progress_receiver import ProgressReceiver
from sawlog.pipeline.landing.driver.query_supervisor import SPARK_GONE_ERRORS
from sawlog.pipeline.landing.driver.spark_session import in_own_pool
from sawlog.pipeline.landing.failures import LandingFailure, classify, parse_failure
from sawlog.pipeline.landing.planning.landing_schedule import JOBS, Job, Lane
from sawlog.pipeline.landing.planning.task_split import split_into_tasks
from sawlog.pipeline.landing.task.landing_task import columns_text
from sawlog.pipeline.landing.task.table_task import TableTask, TaskOptions, TaskResult, run_task
from sawlog.pipeline.landing.task.task_report import TaskReport
from sawlog.pipeline.source.batch_planning import OffsetRange
from sawlog.pipeline.source.offset_json import Offsets

if TYPE_CHECKING:
    from pyspark import SparkContext

_LAST_WAIT_S = 10.0


class Batch(NamedTuple):
    """What a table may land next: the offsets of its table, and the ends of its topic."""

    landing: PreparedLanding
    offsets: Offsets
    ends: Offsets
    waits_for_brokers: bool  # else a broker that does not answer is a failure


class BatchResult(NamedTuple):
    """The reports of a batch up to `ends`, or its failure; neither if nothing was planned."""

    ends: Offsets
    reports: tuple[TaskReport, ...] = ()
    failure: LandingFailure | None = None
    record_bytes: dict[TopicPartition, float] = {}  # noqa: RUF012


class JobResult(NamedTuple):
    """The results by table; `spark_gone` is the error if Spark's JVM exited."""

    job: Job
    began_s: float
    batches: dict[str, BatchResult]
    spark_gone: BaseException | None = None


class LandingJobs:
    """The threads that run jobs; `ended` is called in them after each job."""

    def __init__(
        self,
        context: "SparkContext",
        brokers: str,
        progress: ProgressReceiver,
        ended: Callable[[JobResult], None],
    ) -> None:
        self._context = context
        self._brokers = brokers
        self._progress = progress
        self._ended = ended
        self._task_numbers = itertools.count()
        self._cores = max(1, context.defaultParallelism)
        self._queue: queue.SimpleQueue[tuple[Job, dict[str, Batch]] | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._name = f"sawlog-landing-{uuid4().hex[:8]}"  # other runs may share the context
        self._threads = [
            threading.Thread(target=self._work, args=(number,), name="sawlog-job", daemon=True)
            for number in range(sum(JOBS.values()))
        ]
        for thread in self._threads:
            thread.start()

    def _group(self, number: int) -> str:
        """The job group of a thread."""
        return f"{self._name}-{number}"

    def submit(self, job: Job, batches: dict[str, Batch]) -> None:
        self._queue.put((job, batches))

    def close(self) -> None:
        """Cancel the jobs in flight."""
        self._stopping.set()
        for number in range(len(self._threads)):
            self._queue.put(None)
            with contextlib.suppress(Exception):  # the JVM has exited
                self._context.cancelJobGroup(self._group(number))
        for thread in self._threads:
            thread.join(_LAST_WAIT_S)

    def _work(self, number: int) -> None:
        with pipeline_cluster(self._brokers) as cluster:
            while (wanted := self._queue.get()) is not None and not self._stopping.is_set():
                self._ended(self._run(number, cluster, *wanted))

    def _run(self, number: int, cluster: Cluster, job: Job, batches: dict[str, Batch]) -> JobResult:
        """Run one job. Each failure is a result: the thread runs other jobs after this one."""
        began_s = time.monotonic()
        results: dict[str, BatchResult] = {}
        tasks: dict[str, list[TableTask]] = {}
        for name, batch in batches.items():
            results[name], planned = self._plan(cluster, name, batch)
            if planned:
                tasks[name] = planned
        if not tasks:
            return JobResult(job, began_s, results)
        for name, planned in tasks.items():
            self._progress.began(name, {task.number: task.planned for task in planned})
        try:
            options = _task_options(batches)._replace(progress=self._progress.address)
            found = self._run_tasks(number, job.lane, tasks, options)
            for name in tasks:
                of_table = [result.read() for result in found if result.table == name]
                assert len(of_table) == len(tasks[name]), name
                results[name] = _with_tasks(results[name], of_table)
        except SPARK_GONE_ERRORS as error:
            return JobResult(job, began_s, results, error)
        except Exception as error:
            failure = parse_failure(str(error))
            results |= {name: results[name]._replace(failure=failure) for name in tasks}
        return JobResult(job, began_s, results)

    def _plan(
        self, cluster: Cluster, name: str, batch: Batch
    ) -> tuple[BatchResult, list[TableTask]]:
        """Plan one batch; a failure is a result."""
        landing = batch.landing
        try:
            planner = planner_of(cluster, landing.parameters)
            ends = planner.bounded(batch.offsets, batch.ends)
            ranges = [OffsetRange(tp, batch.offsets.get(tp, 0), end) for tp, end in ends.items()]
            columns = landing.parameters.columns
            if columns is None:  # inferred: those of the table by now
                landing.ready.table.refresh()
                columns = columns_text(landing.ready.table.schema)
            parameters = landing.parameters.to_json()
            shares = split_into_tasks(ranges, self._cores)
        except Exception as error:
            is_transient = isinstance(error, UNANSWERED) or (
                isinstance(error, KafkaError) and error.is_retriable
            )
            failure = None if is_transient and batch.waits_for_brokers else classify(error)
            return BatchResult({}, failure=failure), []
        tasks = [
            TableTask(name, parameters, columns, share, next(self._task_numbers))
            for share in shares
        ]
        return BatchResult(ends, record_bytes=planner.record_bytes), tasks

    def _run_tasks(
        self,
        number: int,
        lane: Lane,
        tasks: Mapping[str, Sequence[TableTask]],
        options: TaskOptions,
    ) -> list[TaskResult]:
        context, names = self._context, sorted(tasks)
        what = f"landing {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")
        context.setJobGroup(self._group(number), what, interruptOnCancel=True)
        in_own_pool(context, f"landings {lane.value}")
        # Options are part of the function: PySpark writes the tasks to a temporary file.
        work = partial(run_task, options=options)
        in_order = [task for of_table in tasks.values() for task in of_table]
        return context.parallelize(in_order, len(in_order)).map(work).collect()


def _task_options(batches: Mapping[str, Batch]) -> TaskOptions:
    """The options of the lake, which all tables of a pipeline share, and of registries."""
    lakes = {batch.landing.parameters.path.options for batch in batches.values()}
    assert len(lakes) == 1, lakes
    registries = {
        name: registry.options
        for name, batch in batches.items()
        if (registry := batch.landing.parameters.format.any_registry) is not None
    }
    return TaskOptions(lakes.pop(), registries)


def _with_tasks(planned: BatchResult, found: Sequence[TaskReport | LandingFailure]) -> BatchResult:
    failures = [result for result in found if isinstance(result, LandingFailure)]
    if failures:
        return planned._replace(failure=failures[0])
    return planned._replace(
        reports=tuple(result for result in found if isinstance(result, TaskReport))
    )
