"""Runs a pipeline file: landings, then queries, or all at once if it runs until stopped."""

import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING

from sawlog.pipeline.landing.configuration.pipeline_config import (
    LandedTable,
    PipelineConfig,
    dependency_order,
)
from sawlog.pipeline.landing.driver.compaction_schedule import CompactionSchedule
from sawlog.pipeline.landing.driver.events import Events
from sawlog.pipeline.landing.driver.landing_run import LandingRun
from sawlog.pipeline.landing.driver.landing_scheduler import LandingScheduler
from sawlog.pipeline.landing.driver.query_supervisor import Outcome, run_queries
from sawlog.pipeline.landing.driver.run_recorder import RunRecorder
from sawlog.pipeline.landing.driver.spark_session import query_session
from sawlog.pipeline.landing.driver.sql_query import SqlQuery
from sawlog.pipeline.landing.driver.vacuum_schedule import VacuumSchedule
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure
from sawlog.pipeline.source.executor_check import ExecutorDiffers, check_executors

if TYPE_CHECKING:
    from pyspark import SparkContext


class _Landing:
    """A landed table as the supervisor sees it."""

    def __init__(self, scheduler: LandingScheduler, config: LandedTable) -> None:
        self._scheduler = scheduler
        self._config = config

    @property
    def name(self) -> str:
        return self._config.name

    def start(self, *, once: bool) -> LandingRun:
        return self._scheduler.start(self._config, once=once)

    def reset(self, why: FailureKind) -> None:
        """Nothing to do: every start begins from the offsets in the table."""


def run_pipeline(
    context: "SparkContext",
    pipeline: PipelineConfig,
    events: Events,
    stop: threading.Event,
    *,
    once: bool,
) -> list[Outcome]:
    """Run all tables and return their outcomes.

    With `once` it lands what is available now; otherwise it runs until `stop` is set or no table
    can continue.
    """
    is_local = (context.master or "").startswith("local")
    try:
        if not is_local:  # local tasks run in the driver's Python
            check_executors(context)
    except ExecutorDiffers as error:
        failure = LandingFailure(FailureKind.INVALID, str(error))
        events.report("spark", failure.message)
        return [Outcome(table.name, failure) for table in pipeline.tables]
    with (
        RunRecorder(pipeline, events) as recorder,
        VacuumSchedule(pipeline, recorder, stop) if pipeline.maintain else nullcontext(),
        CompactionSchedule(pipeline, recorder) as compactions,
        LandingScheduler(context, pipeline, compactions, stop) as scheduler,
    ):
        landings = [_Landing(scheduler, table) for table in pipeline.landed]
        if once:
            outcomes = run_queries(landings, compactions, stop, once=True)
            for query in _queries(context, pipeline, compactions):
                if stop.is_set():  # each sees all rows of the queries before it
                    break
                outcomes += run_queries([query], compactions, stop, once=True)
            if not stop.is_set():
                compactions.finish()
            return outcomes
        queries = _queries(context, pipeline, compactions)
        return run_queries([*landings, *queries], compactions, stop, once=False)


def _queries(context: "SparkContext", pipeline: PipelineConfig, events: Events) -> list[SqlQuery]:
    if not pipeline.queries:
        return []
    spark = query_session(context)
    return [
        SqlQuery(spark, pipeline, table, events) for table in dependency_order(pipeline.queries)
    ]
