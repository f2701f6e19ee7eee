"""Streams over topics of a running broker, in Spark: limits, new partitions, losses, progress."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from conftest import Server
from sawlog.client.admin.groups import GroupAdmin
from sawlog.client.admin.lag import measure
from sawlog.client.net.leader_requests import partition_of
from support.pipeline.topics import Topics, making

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

WAIT_S = 120


@pytest.fixture
def topics(broker: Server) -> Iterator[Topics]:
    with making(broker.bootstrap) as found:
        yield found


class Job:
    """A stream from a topic into lists, one per batch, with its own checkpoint."""

    def __init__(self, spark: "SparkSession", broker: Server, checkpoint: Path) -> None:
        self.spark = spark
        self.broker = broker
        self.checkpoint = checkpoint
        self.batches: list[list[int]] = []
        self.after_batch: Callable[[], None] = lambda: None

    def start(self, **options: Any) -> "StreamingQuery":
        reader = self.spark.readStream.format("sawlog")
        reader = reader.option("kafka.bootstrap.servers", self.broker.bootstrap)
        return (
            reader.options(columns="value", startingOffsets="earliest")
            .options(**options)
            .load()
            .writeStream.foreachBatch(self._take)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )

    def run(self, **options: Any) -> list[list[int]]:
        """Run all available records in batches."""
        self.batches = []
        query = self.start(**options)
        try:
            assert query.awaitTermination(WAIT_S)
        finally:
            query.stop()
        return self.batches

    def _take(self, rows: "DataFrame", _: int) -> None:
        self.batches.append(sorted(int(row.value) for row in rows.collect()))
        self.after_batch()


@pytest.fixture
def job(spark: "SparkSession", broker: Server, tmp_path: Path) -> Job:
    return Job(spark, broker, tmp_path / "checkpoint")


def test_a_stream_continues_from_its_checkpoint_and_finds_new_partitions(
    job: Job, topics: Topics, topic: str
) -> None:
    topics.create(topic)
    topics.write(topic, 10)
    assert job.run(subscribe=topic, maxOffsetsPerTrigger=4) == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9],
    ]
    topics.grow(topic, 2)
    topics.write(topic, 3, 1, first=100)
    topics.write(topic, 2, 0, first=10)
    found = [number for batch in job.run(subscribe=topic) for number in batch]
    assert sorted(found) == [10, 11, 100, 101, 102]
    assert job.run(subscribe=topic) == []


def test_offsets_are_committed_to_the_group_after_every_batch(
    job: Job, topics: Topics, topic: str
) -> None:
    topics.create(topic)
    topics.write(topic, 10)
    lags: list[int | None] = []

    def look() -> None:
        """During a batch the group has the offsets of all batches before it."""
        measured, refused = measure(topics.cluster, GroupAdmin(topics.cluster), [topic])
        assert not refused
        lags.append(measured[topic].positions[partition_of(topic, 0)].lag)

    job.after_batch = look
    job.run(subscribe=topic, maxOffsetsPerTrigger=4, **{"kafka.group.id": topic})
    look()
    assert lags == [10, 6, 2, 0]


def test_records_lost_to_retention_stop_the_job_by_default(
    job: Job, topics: Topics, topic: str
) -> None:
    topics.create(topic)
    topics.write(topic, 5)
    job.run(subscribe=topic)
    topics.write(topic, 10, first=5)
    topics.cut(topic, 8)
    with pytest.raises(StreamingQueryException) as caught:
        job.run(subscribe=topic)
    assert f"{topic}-0 no longer has all of the offsets 5 to 14: it begins at 8" in str(
        caught.value
    )
    assert "failOnDataLoss" in str(caught.value)
    assert job.run(subscribe=topic, failOnDataLoss=False) == [list(range(8, 15))]


def test_a_query_fails_with_the_error_of_its_invalid_option(job: Job) -> None:
    """Not with the error of Spark when it stops a reader that does not exist."""
    with pytest.raises(StreamingQueryException, match="a stream has no end") as caught:
        job.run(subscribe="logs", endingOffsets="latest")
    assert "UnboundLocalError" not in str(caught.value)


def test_spark_reports_where_the_topic_ends(job: Job, topics: Topics, topic: str) -> None:
    topics.create(topic)
    topics.write(topic, 5)
    query = job.start(subscribe=topic, maxOffsetsPerTrigger=3)
    try:
        assert query.awaitTermination(WAIT_S)
        sources = [progress.sources[0] for progress in query.recentProgress]
    finally:
        query.stop()
    assert [json.loads(str(source.latestOffset)) for source in sources] == [{topic: {"0": 5}}] * 2
