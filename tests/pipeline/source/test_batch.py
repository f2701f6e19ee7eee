"""Batch queries over topics of a running broker, in Spark."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from conftest import Server
from sawlog.protocol.records import Record
from support.pipeline.topics import Topics, making

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def topics(broker: Server) -> Iterator[Topics]:
    with making(broker.bootstrap) as found:
        yield found


def read(spark: "SparkSession", broker: Server, **options: Any) -> "DataFrame":
    reader = spark.read.format("sawlog").option("kafka.bootstrap.servers", broker.bootstrap)
    return reader.options(**options).load()


def test_every_column_of_every_record_comes_back(
    spark: "SparkSession", broker: Server, topics: Topics, topic: str
) -> None:
    topics.create(topic, 2, message_timestamp_after_max_ms=str((1 << 63) - 1))
    topics.fill(
        topic,
        [
            Record(0, 1_700_000_000_123, b"k", b"v", (("a", b"1"), ("a", None))),
            Record(0, 1_700_000_000_124, None, None),
        ],
    )
    topics.fill(topic, [Record(0, (1 << 62), b"", b"\xff" * 1_000)], 1)
    found = read(spark, broker, subscribe=topic, includeHeaders=True)
    rows = [tuple(row) for row in found.orderBy("partition", "offset").collect()]
    assert [(*row[:5], row[6], row[7]) for row in rows] == [
        (b"k", b"v", topic, 0, 0, 0, [("a", b"1"), ("a", None)]),
        (None, None, topic, 0, 1, 0, []),
        (b"", b"\xff" * 1_000, topic, 1, 0, 0, []),
    ]
    millis = found.orderBy("partition", "offset").selectExpr("unix_millis(timestamp)").collect()
    assert [row[0] for row in millis] == [
        1_700_000_000_123,
        1_700_000_000_124,
        253_402_300_799_999,  # the last time that Spark can represent
    ]


def test_a_range_is_cut_into_tasks_and_columns(
    spark: "SparkSession", broker: Server, topics: Topics, topic: str
) -> None:
    topics.create(topic)
    topics.write(topic, 100)
    found = read(
        spark,
        broker,
        subscribe=topic,
        startingOffsets=f'{{"{topic}": {{"0": 10}}}}',
        endingOffsets=f'{{"{topic}": {{"0": 90}}}}',
        minPartitions=4,
        columns="offset, value",
    )
    assert found.columns == ["offset", "value"]
    assert found.rdd.getNumPartitions() == 4
    assert sorted((row.offset, int(row.value)) for row in found.collect()) == [
        (number, number) for number in range(10, 90)
    ]


def test_an_empty_topic_is_an_empty_frame(
    spark: "SparkSession", broker: Server, topics: Topics, topic: str
) -> None:
    topics.create(topic, 3)
    assert read(spark, broker, subscribe=topic).collect() == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"subscribe": "a", "maxOffsetPerTrigger": 5}, "did you mean 'maxOffsetsPerTrigger'"),
        ({"assign": '{"no-such": [0]}'}, "there is no topic 'no-such'"),
    ],
)
def test_errors_are_raised_through_spark(
    spark: "SparkSession", broker: Server, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(PySparkException) as caught:
        read(spark, broker, **options).collect()
    first = str(caught.value).splitlines()[0]
    assert ": sawlog.SourceError: " in first
    assert reason in first
    assert "Traceback" not in str(caught.value)
