"""Rows written to topics of a running broker, by batch queries and streams."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from conftest import Server
from sawlog.client.consumer.consumer import AT_EARLIEST, Consumer
from sawlog.client.consumer.fetched_records import ConsumedRecord
from sawlog.client.producer.partitioner import partition_for_key
from support.pipeline.topics import Topics, making

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POLL_MS = 10_000
WAIT_S = 120


@pytest.fixture
def topics(broker: Server) -> Iterator[Topics]:
    with making(broker.bootstrap) as found:
        yield found


def write(rows: "DataFrame", broker: Server, **options: Any) -> None:
    writer = rows.write.format("sawlog").option("kafka.bootstrap.servers", broker.bootstrap)
    writer.options(**options).mode("append").save()


def stored(topics: Topics, topic: str, count: int) -> list[ConsumedRecord]:
    """All records of a topic, which has this many."""
    consumer = Consumer(topics.cluster)
    consumer.assign_topic(topic, AT_EARLIEST)
    found: list[ConsumedRecord] = []
    while len(found) < count:
        polled = consumer.poll(POLL_MS)
        assert polled, f"{len(found)} of {count} records"
        found += polled
    ends = [topics.bounds(topic, partition)[1] for partition in consumer_partitions(topics, topic)]
    assert sum(ends) == count
    return found


def consumer_partitions(topics: Topics, topic: str) -> list[int]:
    return list(topics.cluster.topic(topic).partitions)


def test_rows_become_records_with_all_columns(
    spark: "SparkSession", broker: Server, topics: Topics, topic: str
) -> None:
    topics.create(topic, 3)
    other = topics.create(f"{topic}-other")
    rows = spark.createDataFrame(
        [
            (topic, "key", bytearray(b"\xff"), [("a", bytearray(b"1")), ("b", None)], 2),
            (topic, "key", None, None, None),
            (topic, None, bytearray(b""), [], None),
            (other, None, bytearray(b"else"), None, None),
        ],
        "topic string, key string, value binary,"
        " headers array<struct<key:string,value:binary>>, partition int",
    )
    write(rows, broker, **{"kafka.compression.type": "zstd"})
    by_value = {record.value: record for record in stored(topics, topic, 3)}
    first, second, third = by_value[b"\xff"], by_value[None], by_value[b""]
    assert (first.partition, first.key, first.headers) == (2, b"key", (("a", b"1"), ("b", None)))
    assert second.partition == partition_for_key(b"key", 3)
    assert (third.key, third.headers) == (None, ())
    assert [record.value for record in stored(topics, other, 1)] == [b"else"]


def test_a_stream_from_topic_to_topic(
    spark: "SparkSession", broker: Server, topics: Topics, topic: str, tmp_path: Path
) -> None:
    topics.create(topic, 2)
    topics.write(topic, 300)
    topics.write(topic, 200, 1, first=300)
    target = topics.create(f"{topic}-target", 4)
    reader = spark.readStream.format("sawlog").option("kafka.bootstrap.servers", broker.bootstrap)
    query = (
        reader.options(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=250)
        .load()
        .select("key", "value")
        .writeStream.format("sawlog")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("topic", target)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(WAIT_S)
    finally:
        query.stop()
    found = stored(topics, target, 500)
    assert sorted(int(record.value or b"") for record in found) == list(range(500))
    assert all(record.partition == partition_for_key(record.key or b"", 4) for record in found)


@pytest.mark.parametrize(
    ("schema", "row", "options", "reason"),
    [
        ("value int", (1,), {}, "the column 'value' is int; it must be string or binary"),
        ("v string", ("x",), {}, "there is no column 'value'"),
        ("value string", ("x",), {"topic": ""}, "set the option 'topic' or add a column"),
        ("value string", ("x",), {"kafka.ack": "1"}, "did you mean 'kafka.acks'"),
        ("value string, partition int", ("x", 9), {}, "'partition' says 9"),
    ],
)
def test_rows_that_cannot_be_written_fail_in_spark(
    spark: "SparkSession",
    broker: Server,
    topics: Topics,
    topic: str,
    schema: str,
    row: tuple[Any, ...],
    options: dict[str, str],
    reason: str,
) -> None:
    topics.create(topic)
    rows = spark.createDataFrame([row], schema)
    with pytest.raises(PySparkException) as caught:
        write(rows, broker, **{"topic": topic, **options})
    assert reason in str(caught.value)
