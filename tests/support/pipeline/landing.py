"""Topics, pipeline files and tables for tests of the landing."""

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sawlog.client.admin.admin import Admin, NewTopic
from sawlog.client.admin.list_offsets import LATEST, list_offsets
from sawlog.client.consumer.consumer import AT_EARLIEST, Consumer
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of
from sawlog.client.producer.producer import Producer
from sawlog.pipeline.delta.file_scan import scan_file
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.delta.table_path import NO_OPTIONS, TablePath
from sawlog.pipeline.landing.configuration.pipeline_config import PipelineConfig
from sawlog.pipeline.landing.configuration.pipeline_file import read_pipeline
from sawlog.pipeline.landing.driver.batch_commit import LandingCommitter
from sawlog.pipeline.landing.driver.driver_records import RunState
from sawlog.pipeline.landing.driver.events import LandedBatch
from sawlog.pipeline.landing.driver.pipeline_runner import run_pipeline
from sawlog.pipeline.landing.driver.query_supervisor import Outcome
from sawlog.pipeline.landing.driver.spark_session import register
from sawlog.pipeline.landing.driver.table_setup import prepare
from sawlog.pipeline.landing.failures import LandingFailure
from sawlog.pipeline.landing.planning.batch_planner import BatchPlanner
from sawlog.pipeline.landing.planning.batch_progress import BatchProgress
from sawlog.pipeline.landing.planning.task_split import split_into_tasks
from sawlog.pipeline.landing.task.landing_task import (
    columns_text,
    land_ranges,
    landing_parameters,
    read_parameters,
)
from sawlog.pipeline.landing.task.task_report import read_report
from sawlog.pipeline.source.batch_planning import OffsetRange
from support.pipeline.iceberg_tables import embedded_ref, iceberg_rows, is_iceberg

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Place = tuple[int, int]  # partition, offset


class RecordedEvents:
    """Records events."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.states: list[tuple[str, RunState, LandingFailure | None]] = []
        self.batches: list[tuple[str, LandedBatch]] = []
        self.progress: list[tuple[str, BatchProgress]] = []
        self.measured: list[tuple[str, int, int]] = []

    def report(self, table: str, text: str) -> None:
        self.lines.append(f"{table}: {text}")

    def batch_progressed(self, table: str, progress: BatchProgress) -> None:
        self.progress.append((table, progress))

    def batch_landed(self, table: str, batch: LandedBatch, done: int) -> None:
        self.batches.append((table, batch))

    def progress_measured(self, table: str, done: int, ends: int) -> None:
        self.measured.append((table, done, ends))

    def state_changed(
        self, table: str, state: RunState, failure: LandingFailure | None = None
    ) -> None:
        self.states.append((table, state, failure))


def create_topic(bootstrap: str, topic: str, partitions: int = 2) -> None:
    with Cluster(bootstrap) as cluster:
        assert not Admin(cluster).create_topics([NewTopic(topic, partitions)])


def send(bootstrap: str, topic: str, values: Iterable[bytes | Mapping[str, Any] | None]) -> None:
    """Send to all partitions in turn; a mapping as JSON."""
    with Cluster(bootstrap) as cluster:
        partitions = len(cluster.topic(topic).partitions)
        with Producer(cluster, max_request_bytes=16 * 1024 * 1024) as producer:
            for number, value in enumerate(values):
                told = json.dumps(value).encode() if isinstance(value, Mapping) else value
                producer.send(topic, told, partition=number % partitions)


def pipeline_file(
    directory: Path, bootstrap: str, tables: str, more: str = "", lake: TablePath | None = None
) -> Path:
    """Write a pipeline file; the lake is a directory beside it unless `lake` is given."""
    file = directory / "pipeline.yaml"
    place = "./lake"
    if lake is not None:
        place = f"{lake}\nlake_options: {json.dumps(dict(lake.options))}\ncheckpoints: ./state"
    file.write_text(f"brokers: {bootstrap}\nlake: {place}\ntables:\n{tables}{more}")
    return file


def pipeline_of(
    directory: Path, bootstrap: str, tables: str, lake: TablePath | None = None
) -> PipelineConfig:
    return read_pipeline(str(pipeline_file(directory, bootstrap, tables, lake=lake)))


def run_once(
    spark: "SparkSession", pipeline: PipelineConfig
) -> tuple[list[Outcome], RecordedEvents]:
    register(spark)
    events = RecordedEvents()
    return run_pipeline(spark.sparkContext, pipeline, events, threading.Event(), once=True), events


def land(spark: "SparkSession", pipeline: PipelineConfig) -> RecordedEvents:
    """Run once; all tables must succeed."""
    outcomes, events = run_once(spark, pipeline)
    assert [outcome for outcome in outcomes if outcome.failure] == [], events.lines
    return events


def rows_of(path: str) -> list[dict[str, Any]]:
    """All rows of the newest version of a table; of Iceberg in the catalog beside it."""
    if is_iceberg(path):
        return iceberg_rows(embedded_ref(path))
    table = Table.open(path)
    batches = [
        batch
        for file in table.files()
        for batch in scan_file(table.storage, file.path, table.schema, file.partition_values)
    ]
    return pa.Table.from_batches(batches, table.schema).to_pylist()


def values_in(path: str) -> list[tuple[Place, bytes | None]]:
    """Positions and values of a raw table or of dead letters, sorted, with duplicates."""
    return sorted(
        (((row["partition"], row["offset"]), row["value"]) for row in rows_of(path)),
        key=lambda entry: entry[0],
    )


def records_of(bootstrap: str, topic: str) -> list[tuple[Place, bytes | None]]:
    """All records of the topic, in order."""
    with Cluster(bootstrap) as cluster:
        indexes = cluster.topic(topic).partitions
        partitions = [partition_of(topic, index) for index in indexes]
        ends = list_offsets(cluster, dict.fromkeys(partitions, LATEST))
        consumer = Consumer(cluster, partition_max_bytes=16 * 1024 * 1024)
        consumer.assign(dict.fromkeys(partitions, AT_EARLIEST))
        found: list[tuple[Place, bytes | None]] = []
        while any(consumer.positions[tp] < ends[tp].offset for tp in partitions):
            for record in consumer.poll(5_000, max_records=100_000):
                value = None if record.value is None else bytes(record.value)
                found.append(((record.partition, record.offset), value))
    return sorted(found, key=lambda entry: entry[0])


def land_here(pipeline: PipelineConfig, *, tasks: int = 2) -> list[LandedBatch]:
    """Land a table in this process, batch by batch, without Spark."""
    landed: list[LandedBatch] = []
    for config in pipeline.landed:
        with Cluster(pipeline.brokers) as cluster:
            ready = prepare(cluster, config)
            parameters = read_parameters(
                landing_parameters(pipeline, config, ready.topics).to_json(),
                pipeline.lake.options,
                config.registry.options if config.registry else NO_OPTIONS,
            )
            committer = LandingCommitter(
                parameters, ready, landed=landed.append, commit_to_group=lambda _: None
            )
            planner = BatchPlanner(cluster, ready.topics, config.commit, read_committed=True)
            at, ends = ready.starts, planner.ends()
            while (end := planner.bounded(at, ends)) != at:
                ranges = [OffsetRange(tp, at.get(tp, 0), last) for tp, last in end.items()]
                ready.table.refresh()
                columns = parameters.columns or columns_text(ready.table.schema)
                reports = [
                    read_report(land_ranges(parameters, columns, share).to_json())
                    for share in split_into_tasks(ranges, tasks)
                ]
                committer.commit(OnlyHere(), reports, 0.0)  # type: ignore[arg-type]
                at = end
    return landed


class OnlyHere:
    """The part of a SparkContext that commits need, in this process."""

    defaultParallelism = 2  # noqa: N815

    def parallelize(self, values: list[Any], _: int) -> "OnlyHere":
        self._values = values
        return self

    def map(self, work: Callable[[Any], Any]) -> "OnlyHere":
        self._values = [work(value) for value in self._values]
        return self

    def collect(self) -> list[Any]:
        return self._values
