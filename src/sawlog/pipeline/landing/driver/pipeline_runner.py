"""Runs a pipeline file: landings, then queries, or all at once if it runs until stopped."""

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sawlog.pipeline.landing.configuration.pipeline_config import Pipeline, QueryTable
from sawlog.pipeline.landing.driver.broker_monitor import BrokerMonitor
from sawlog.pipeline.landing.driver.events import Events
from sawlog.pipeline.landing.driver.landing_query import LandingQuery
from sawlog.pipeline.landing.driver.query_supervisor import Outcome, run_queries
from sawlog.pipeline.landing.driver.sql_query import SqlQuery
from sawlog.pipeline.landing.driver.vacuum_schedule import VacuumSchedule
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure
from sawlog.pipeline.source.executor_check import ExecutorDiffers, check_executors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_pipeline(
    spark: "SparkSession",
    pipeline: Pipeline,
    events: Events,
    stop: threading.Event,
    *,
    once: bool,
) -> list[Outcome]:
    """Run all tables and return their outcomes.

    With `once` it lands what is available now; otherwise it runs until `stop` is set or no table
    can continue.
    """
    is_local = (spark.sparkContext.master or "").startswith("local")
    try:
        if not is_local:  # local tasks run in the driver's Python
            check_executors(spark)
    except ExecutorDiffers as error:
        failure = LandingFailure(FailureKind.INVALID, str(error))
        events.report("spark", failure.message)
        return [Outcome(table.name, failure) for table in pipeline.tables]
    landings = [LandingQuery(spark, pipeline, table, events) for table in pipeline.landed]
    queries = [
        SqlQuery(spark, pipeline, table, events) for table in dependency_order(pipeline.queries)
    ]
    with VacuumSchedule(pipeline, events), BrokerMonitor(pipeline.brokers, landings, events):
        if not once:
            return run_queries([*landings, *queries], events, stop, once=False)
        outcomes = run_queries(landings, events, stop, once=True)
        for query in queries:  # each sees all rows of the queries before it
            if stop.is_set():
                break
            outcomes += run_queries([query], events, stop, once=True)
        return outcomes


def dependency_order(queries: Sequence[QueryTable]) -> list[QueryTable]:
    """Order queries so that each comes after those that it reads; there are no cycles."""
    by_name = {query.name: query for query in queries}
    ordered: dict[str, QueryTable] = {}

    def add(query: QueryTable) -> None:
        for name in query.tables:
            if name in by_name and name not in ordered:
                add(by_name[name])
        ordered[query.name] = query

    for query in queries:
        if query.name not in ordered:
            add(query)
    return list(ordered.values())
