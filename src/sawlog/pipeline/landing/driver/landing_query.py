"""The streaming query that fills one landed table, on a temporary checkpoint."""

import json
import shutil
import tempfile
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

from sawlog.client.net.cluster import Cluster
from sawlog.core.ids import TopicPartition
from sawlog.pipeline.delta.configured_sources import register_source
from sawlog.pipeline.delta.table_path import table_path
from sawlog.pipeline.landing.configuration.pipeline_config import LandedTable, Pipeline
from sawlog.pipeline.landing.driver.batch_commit import LandingCommitter
from sawlog.pipeline.landing.driver.events import Events, LandedBatch
from sawlog.pipeline.landing.driver.query_run import QueryRun
from sawlog.pipeline.landing.driver.spark_session import in_own_pool
from sawlog.pipeline.landing.driver.table_setup import PreparedTable, prepare
from sawlog.pipeline.landing.failures import FailureKind
from sawlog.pipeline.landing.planning.landing_source import LandingSource
from sawlog.pipeline.landing.task.landing_task import landing_parameters
from sawlog.pipeline.source.group_progress import COMMIT_TIMEOUT_MS, GroupProgress
from sawlog.pipeline.source.offset_json import write_offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_PREPARE_TIMEOUT_MS = 10_000


class LandingQuery:
    def __init__(
        self, spark: "SparkSession", pipeline: Pipeline, config: LandedTable, events: Events
    ) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._config = config
        self._events = events
        self._offsets: dict[TopicPartition, int] = {}
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return self._config.name

    def landed_offsets(self) -> dict[TopicPartition, int]:
        with self._lock:
            return dict(self._offsets)

    def start(self, *, once: bool) -> QueryRun:
        config = self._config
        with Cluster(
            self._pipeline.brokers,
            client_id=config.group,
            timeout_ms=_PREPARE_TIMEOUT_MS,
            request_timeout_ms=_PREPARE_TIMEOUT_MS,
        ) as cluster:
            ready = prepare(cluster, config)
        self._moved(ready.starts)
        with ExitStack() as cleanup:
            query, committer = self._start(ready, cleanup, once=once)
            return QueryRun(query, committer, cleanup.pop_all().close)

    def _start(
        self, ready: PreparedTable, cleanup: ExitStack, *, once: bool
    ) -> tuple["StreamingQuery", LandingCommitter]:
        """Start the query and register the release of its resources in `cleanup`.

        The checkpoint is deleted too: the table has the offsets.
        """
        config = self._config
        parameters = landing_parameters(self._pipeline, config, ready.topic_id)
        checkpoint = tempfile.mkdtemp(prefix="sawlog-landing-")
        cleanup.callback(shutil.rmtree, checkpoint, ignore_errors=True)
        monitoring = cleanup.enter_context(
            Cluster(
                self._pipeline.brokers,
                client_id=config.group,
                timeout_ms=COMMIT_TIMEOUT_MS,
                request_timeout_ms=COMMIT_TIMEOUT_MS,
            )
        )
        committer = LandingCommitter(
            parameters,
            ready,
            landed=self._landed,
            commit_to_group=GroupProgress(monitoring, config.group).commit,
        )
        stream = (
            self._spark.readStream.format(
                register_source(self._spark, LandingSource, table_path(self._pipeline.lake).options)
            )
            .option("parameters", parameters.to_json())
            .option("starts", json.dumps(write_offsets(ready.starts)))
            .option("tasks", str(max(1, self._spark.sparkContext.defaultParallelism)))
            .load()
        )
        writer = (
            stream.writeStream.queryName(f"landing {config.name}")
            .option("checkpointLocation", f"file://{checkpoint}")
            .foreachBatch(committer)
        )
        in_own_pool(self._spark, config.name)
        return (writer.trigger(availableNow=True) if once else writer).start(), committer

    def reset(self, why: FailureKind) -> None:
        """Nothing to do: every start begins from the offsets in the table."""

    def _landed(self, batch: LandedBatch) -> None:
        self._moved(batch.ends)
        self._events.batch_landed(self.name, batch, sum(self.landed_offsets().values()))

    def _moved(self, offsets: dict[TopicPartition, int]) -> None:
        with self._lock:
            self._offsets.update(offsets)
