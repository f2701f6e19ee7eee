"""Lands all tables of a pipeline: one process plans for all, and tables share Spark jobs.

One thread owns the state: `LandingSchedule` and the runs. Other threads do what may take long and
hand their results to it: the poll of the topics, the set-up of tables, Spark jobs
(`landing_jobs.py`) and commits. A table that fails ends only its own run, which the supervisor
restarts.
"""

import contextlib
import queue
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Self

from sawlog.client.errors import ClientError
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of
from sawlog.client.net.metadata import Topic
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicName
from sawlog.pipeline.landing.configuration.pipeline_config import LandedTable, PipelineConfig
from sawlog.pipeline.landing.driver.events import Events, LandedBatch
from sawlog.pipeline.landing.driver.group_commits import GroupCommits
from sawlog.pipeline.landing.driver.landed_tables import may_exist
from sawlog.pipeline.landing.driver.landing_jobs import Batch, BatchResult, JobResult, LandingJobs
from sawlog.pipeline.landing.driver.landing_run import (
    LandingRun,
    PreparedLanding,
    planner_of,
    set_up,
)
from sawlog.pipeline.landing.driver.pipeline_cluster import pipeline_cluster
from sawlog.pipeline.landing.driver.progress_receiver import ProgressReceiver
from sawlog.pipeline.landing.driver.query_supervisor import SPARK_GONE_ERRORS
from sawlog.pipeline.landing.driver.spark_session import in_own_pool
from sawlog.pipeline.landing.driver.table_setup import no_topics
from sawlog.pipeline.landing.failures import FATAL, FailureKind, LandingFailure, classify
from sawlog.pipeline.landing.planning.held_back_records import (
    count_held_back,
    describe_held_back,
)
from sawlog.pipeline.landing.planning.landing_schedule import LandingSchedule
from sawlog.pipeline.landing.planning.topic_poller import TIMEOUT_MS, PolledTopics, TopicPoller
from sawlog.pipeline.landing.topic_check import check_topic_id, topic_deleted
from sawlog.pipeline.source.offset_json import Offsets

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark import SparkContext

    from sawlog.pipeline.landing.configuration.topic_selection import TopicSelection

MISSING_S = 10.0  # how long a starting cluster may not know a topic
_POLL_S = 0.2
_POLL_ONCE_S = 1.0  # only for the display: the ends of a run with `--once` are fixed
_PROGRESS_S = 1.0
_CHECK_SPARK_S = 1.0
_SET_UPS = 4
_COMMITS = 4
_MERGES = 2  # commits of keyed tables, which take longer and must not delay the others
_SET_UP_TIMEOUT_MS = 10_000
_LAST_WAIT_S = 5.0
_SUSPICIOUS = frozenset({FailureKind.OTHER, FailureKind.UNREACHABLE})


class LandingScheduler:
    """Lands tables while the block lasts. At its end the commits in progress finish, and jobs are
    cancelled.
    """

    def __init__(
        self,
        context: "SparkContext",
        pipeline: PipelineConfig,
        events: Events,
        stop: threading.Event,
    ) -> None:
        self._context = context
        self._pipeline = pipeline
        self._events = events
        self._stop = stop
        self._schedule = LandingSchedule(max(1, context.defaultParallelism))
        self._runs: dict[str, LandingRun] = {}
        self._watched: dict[str, LandedTable] = {}  # tables that may run again
        self._offsets: dict[str, Offsets] = {}  # the newest known, also between two runs
        self._missing_since_s: dict[str, float] = {}
        self._new_topics: dict[str, set[str]] = {}  # those that were reported
        self._held_back: dict[str, Offsets] = {}  # the last stable offsets that were reported
        self._polled: PolledTopics | None = None
        self._are_brokers_silent = False
        self._progress_at_s = self._check_at_s = 0.0
        self._error: BaseException | None = None
        self._acts: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._clusters = _ClusterPerThread(pipeline.brokers)
        self._groups = GroupCommits(pipeline.brokers)

    def __enter__(self) -> Self:
        self._groups.__enter__()
        self._progress = ProgressReceiver.of(self._context, self._events).__enter__()
        self._jobs = LandingJobs(
            self._context,
            self._pipeline.brokers,
            self._progress,
            lambda result: self._acts.put(partial(self._job_ended, result)),
        )
        self._set_ups = ThreadPoolExecutor(_SET_UPS, "sawlog-set-up")
        self._commits = ThreadPoolExecutor(_COMMITS, "sawlog-commit")
        self._merges = ThreadPoolExecutor(_MERGES, "sawlog-merge")
        self._threads = [
            threading.Thread(target=self._guarded, args=(loop,), name=name, daemon=True)
            for name, loop in (
                ("sawlog-landings", self._run_loop),
                ("sawlog-poll", self._poll_loop),
            )
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        for run in list(self._runs.values()):
            run.stop()
        self._acts.put(lambda: None)
        for pool in (self._set_ups, self._commits, self._merges):
            pool.shutdown(wait=True, cancel_futures=True)
        self._jobs.close()
        for thread in self._threads:
            thread.join(_LAST_WAIT_S)
        self._progress.__exit__()
        self._groups.__exit__()
        self._clusters.close()

    def start(self, config: LandedTable, *, once: bool) -> LandingRun:
        """Start a run of this table; its last run has ended."""
        run = LandingRun(config, self._check, once=once)
        self._acts.put(partial(self._started, run))
        return run

    def _check(self) -> None:
        """Raise the error for which no table can continue."""
        if self._error is not None:
            raise self._error

    def _guarded(self, loop: "Callable[[], None]") -> None:
        """Run the loop of a thread, without which no table can continue."""
        try:
            loop()
        except BaseException as error:
            self._error = error

    # In the thread that owns the state

    def _run_loop(self) -> None:
        while not self._closing.is_set():
            wait_s = min(_CHECK_SPARK_S, self._schedule.wait_s(time.monotonic()))
            with contextlib.suppress(queue.Empty):
                self._acts.get(timeout=max(0.0, wait_s))()
                while True:
                    self._acts.get_nowait()()
            self._drop_stopped_runs()
            self._start_jobs()
            self._check_spark()

    def _check_spark(self) -> None:
        """Notice a JVM that exited while no job runs. Raises SPARK_GONE_ERRORS."""
        now_s = time.monotonic()
        if now_s >= self._check_at_s and not self._stop.is_set():
            self._check_at_s = now_s + _CHECK_SPARK_S
            _ = self._context.defaultParallelism

    def _started(self, run: LandingRun) -> None:
        config = run.config
        self._runs[config.name] = run
        self._watched[config.name] = config
        missing = None if self._polled is None else _missing_failure(config, self._polled)
        if missing is not None and not may_exist(config):
            self._fail(run, missing)  # known without a request of its own
        else:
            self._set_ups.submit(self._set_up, run)

    def _prepared(self, run: LandingRun, landing: PreparedLanding) -> None:
        config = run.config
        if run.has_ended:
            return
        run.prepared(
            landing,
            partial(self._groups.commit, config.group),
            partial(self._landed, config.name),
        )
        self._offsets[config.name] = run.offsets
        self._missing_since_s.pop(config.name, None)
        self._schedule.add(config.name, config.commit, at_once=run.once)
        if self._polled is not None and not run.once:
            self._take_ends(run, self._polled)
        if not run.has_ended:
            self._measure(run)

    def _measure(self, run: LandingRun) -> None:
        """Schedule what is left, or end a run with `--once` that has landed all."""
        rows, weight = run.backlog()
        if run.once and rows == 0:
            if run.landing is not None and run.landing.held_back:
                text = describe_held_back(run.landing.held_back)
                self._events.report(run.config.name, f"not landed, since {text}")
            self._end(run, None)
        else:
            self._schedule.measured(run.config.name, rows, weight, time.monotonic())

    def _start_jobs(self) -> None:
        while (job := self._schedule.next_job(time.monotonic())) is not None:
            batches = {}
            for name in job.tables:
                run = self._runs[name]
                assert run.landing is not None, name
                batches[name] = Batch(
                    run.landing, dict(run.offsets), dict(run.ends), waits_for_brokers=not run.once
                )
            self._jobs.submit(job, batches)

    def _job_ended(self, result: JobResult) -> None:
        self._schedule.job_ended(result.job)
        if result.spark_gone is not None:
            self._lost_spark(result.spark_gone)
            return
        for name, batch in result.batches.items():
            run = self._runs.get(name)
            if run is None or run.has_ended or not batch.reports:
                self._progress.ended(name)
            if run is None or run.has_ended:
                continue
            run.measured_sizes(batch.record_bytes)
            if batch.failure is not None:
                self._fail(run, batch.failure)
            elif batch.reports:
                pool = self._commits if run.config.upsert is None else self._merges
                self._progress.all_read(name)
                pool.submit(self._commit, run, batch, result.began_s)
            else:  # no broker answered: wait for the next poll
                self._schedule.batch_ended(name)

    def _committed(self, run: LandingRun, ends: Offsets) -> None:
        name = run.config.name
        if run.has_ended:
            return
        run.advanced(ends)
        self._schedule.landed(name)
        self._schedule.batch_ended(name)
        if self._polled is not None and not run.once:
            self._take_ends(run, self._polled)
        if not run.has_ended:
            self._measure(run)

    def _fail_if_active(self, run: LandingRun, failure: LandingFailure) -> None:
        if not run.has_ended:
            self._fail(run, failure)

    def _lost_spark(self, error: BaseException) -> None:
        if not self._stop.is_set():
            raise error

    def _fail(self, run: LandingRun, failure: LandingFailure) -> None:
        name = run.config.name
        if failure.kind in _SUSPICIOUS:
            self._schedule.failed(name)
        if failure.kind in FATAL:
            self._watched.pop(name, None)
        self._end(run, failure)

    def _end(self, run: LandingRun, failure: LandingFailure | None) -> None:
        self._schedule.remove(run.config.name)
        self._runs.pop(run.config.name, None)
        run.end(failure)

    def _drop_stopped_runs(self) -> None:
        for name in [name for name, run in self._runs.items() if run.has_ended]:
            del self._runs[name]
            self._schedule.remove(name)

    def _took_poll(self, polled: PolledTopics) -> None:
        self._polled = polled
        if self._offsets:
            self._report_brokers(polled.is_answered)
        for run in list(self._runs.values()):
            if run.landing is None or run.once or self._schedule.is_in_flight(run.config.name):
                continue
            self._take_ends(run, polled)
            if not run.has_ended and not self._add_topics(run, polled):
                self._measure(run)
        if polled.held_back:
            self._report_held_back(polled)
        if time.monotonic() >= self._progress_at_s:
            self._progress_at_s = time.monotonic() + _PROGRESS_S
            self._report_progress(polled)

    def _take_ends(self, run: LandingRun, polled: PolledTopics) -> None:
        """Take the end offsets of a poll, or end the run if it cannot continue with its topics."""
        assert run.landing is not None, run.config.name
        name, selection = run.config.name, run.config.selection
        topics: list[Topic] = []
        missing: list[str] = []
        for topic_name in map(TopicName, run.landing.parameters.topics):
            refusal = polled.errors.get(topic_name)
            if topic_name in polled.topics:
                topics.append(polled.topics[topic_name])
            elif refusal is None:
                if selection.pattern and polled.is_answered:
                    missing.append(topic_name)
            elif refusal.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                missing.append(topic_name)
            elif not refusal.is_retriable:
                self._fail(run, classify(refusal))
                return
        if not missing:
            self._missing_since_s.pop(name, None)
        elif self._is_gone_for_good(name):
            self._fail(run, topic_deleted(missing[0], is_one=selection.is_one))
            return
        try:
            run.found_ends(self._checked_ends(run, topics, polled))
        except LandingFailure as failure:
            self._fail(run, failure)
        except (KafkaError, ClientError):
            pass  # the next poll tells more

    def _add_topics(self, run: LandingRun, polled: PolledTopics) -> bool:
        """Set a table up again if there are new topics for it; False if there are none."""
        assert run.landing is not None, run.config.name
        new = [
            topic.name
            for topic in run.config.selection.among(polled.topics.values())
            if topic.name not in run.landing.parameters.topics
        ]
        if new:
            if unreported := set(new) - self._new_topics.get(run.config.name, set()):
                self._new_topics.setdefault(run.config.name, set()).update(unreported)
                names = ", ".join(sorted(unreported))
                self._events.report(run.config.name, f"lands new topics too: {names}")
            self._schedule.remove(run.config.name)
            run.prepare_again()
            self._set_ups.submit(self._set_up, run)
        return bool(new)

    def _checked_ends(
        self, run: LandingRun, topics: Iterable[Topic], polled: PolledTopics
    ) -> Offsets:
        """The polled ends of the topics. Raises LandingFailure if one is not as it landed."""
        assert run.landing is not None, run.config.name
        parameters = run.landing.parameters
        ends: Offsets = {}
        found = polled.ends.get(parameters.read_committed, {})
        for topic in topics:
            check_topic_id(topic.name, parameters.topics[topic.name], topic.id)
            partitions = [partition_of(topic.name, index) for index in topic.partitions]
            ends |= {partition: found[partition] for partition in partitions if partition in found}
        if any(end < run.offsets.get(partition, 0) for partition, end in ends.items()):
            # The topic may have been created again after its metadata was polled.
            return planner_of(self._clusters.mine(), parameters).check_ends(run.offsets)
        return ends

    def _is_gone_for_good(self, name: str) -> bool:
        """False while a starting broker may not yet know the topic."""
        now_s = time.monotonic()
        return now_s - self._missing_since_s.setdefault(name, now_s) > MISSING_S

    def _report_brokers(self, is_answered: bool) -> None:
        if is_answered is self._are_brokers_silent:
            text = (
                "the brokers answer again" if is_answered else "no broker answers; waiting for one"
            )
            self._events.report("brokers", text)
        self._are_brokers_silent = not is_answered

    def _report_held_back(self, polled: PolledTopics) -> None:
        """Report each last stable offset that does not move once."""
        for name, offsets in self._offsets.items():
            config = self._watched.get(name)
            if config is None or not config.read_committed:
                continue
            reported = self._held_back.setdefault(name, {})
            held = [
                records
                for partition, records in sorted(polled.held_back.items())
                if partition in offsets and reported.get(partition) != records.start
            ]
            if held:
                reported |= {records.partition: records.start for records in held}
                self._events.report(name, describe_held_back(held))

    def _report_progress(self, polled: PolledTopics) -> None:
        """Report the offsets of each table and the ends of its logs, as far as they are known."""
        for name, offsets in self._offsets.items():
            config = self._watched.get(name)
            ends = {} if config is None else polled.ends.get(config.read_committed, {})
            if config is not None and all(partition in ends for partition in offsets):
                end = sum(ends[partition] for partition in offsets)
                if config.read_committed:
                    end += count_held_back(polled.held_back, offsets)
                self._events.progress_measured(name, sum(offsets.values()), end)

    # In other threads

    def _poll_loop(self) -> None:
        with pipeline_cluster(self._pipeline.brokers, TIMEOUT_MS) as cluster:
            poller = TopicPoller(cluster)
            while not self._closing.wait(self._poll_every_s()):
                wanted: dict[TopicSelection, frozenset[bool]] = {}
                for config in list(self._watched.values()):
                    known = wanted.get(config.selection, frozenset())
                    wanted[config.selection] = known | {config.read_committed}
                if wanted:
                    self._acts.put(partial(self._took_poll, poller.poll(wanted)))

    def _poll_every_s(self) -> float:
        return _POLL_ONCE_S if all(run.once for run in list(self._runs.values())) else _POLL_S

    def _set_up(self, run: LandingRun) -> None:
        try:
            landing = set_up(self._clusters.mine(), self._pipeline, run.config, once=run.once)
        except Exception as error:
            self._acts.put(partial(self._fail_if_active, run, classify(error)))
        else:
            self._acts.put(partial(self._prepared, run, landing))

    def _commit(self, run: LandingRun, batch: BatchResult, began_s: float) -> None:
        try:
            is_committed = self._try_commit(run, batch, began_s)
        except SPARK_GONE_ERRORS as error:
            self._acts.put(partial(self._lost_spark, error))
        except Exception as error:
            self._acts.put(partial(self._fail_if_active, run, classify(error)))
        else:
            if is_committed:
                self._acts.put(partial(self._committed, run, batch.ends))

    def _try_commit(self, run: LandingRun, batch: BatchResult, began_s: float) -> bool:
        try:
            if self._stop.is_set():
                return False
            in_own_pool(self._context, "landings wide")  # for merges, and ranges parsed again
            return run.commit(self._context, batch.reports, began_s)
        finally:
            self._progress.ended(run.config.name)

    def _landed(self, name: str, batch: LandedBatch) -> None:
        self._progress.ended(name)
        offsets = {**self._offsets[name], **batch.ends}
        self._events.batch_landed(name, batch, sum(offsets.values()))


def _missing_failure(config: LandedTable, polled: PolledTopics) -> LandingFailure | None:
    """The failure of a table none of whose topics exists by the last poll; else None."""
    selection = config.selection
    if selection.pattern:
        there = selection.among(polled.topics.values())
        return no_topics(config) if polled.is_answered and not there else None
    refusals = [polled.errors.get(TopicName(name)) for name in selection.names]
    if any(
        refusal is None or refusal.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for refusal in refusals
    ):
        return None
    if selection.is_one and refusals[0] is not None:
        return LandingFailure(FailureKind.NOT_FOUND, refusals[0].message)
    return no_topics(config)


class _ClusterPerThread:
    """A client for each thread that asks for one: a Cluster is for one thread."""

    def __init__(self, brokers: str) -> None:
        self._brokers = brokers
        self._local = threading.local()
        self._all: list[Cluster] = []

    def mine(self) -> Cluster:
        found: Cluster | None = getattr(self._local, "cluster", None)
        if found is None:
            found = pipeline_cluster(self._brokers, _SET_UP_TIMEOUT_MS)
            self._local.cluster = found
            self._all.append(found)
        return found

    def close(self) -> None:
        for cluster in self._all:
            cluster.close()
