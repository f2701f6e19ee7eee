"""Spark streams and the landing read only committed records, up to the last stable offset.

Ranges that end in, or hold only, markers or aborted records finish and are no loss.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sawlog.client.producer.producer import Producer
from support.client.transactional_topic import write_transactions
from support.kafka.shared_brokers import (
    EITHER_BROKER,
    QUICK_GROUPS,
    Server,
    SharedBrokers,
)
from support.pipeline.landing import land_here, pipeline_of, rows_of
from support.pipeline.topics import Topics, making

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

WAIT_S = 120
COMMITTED = {"kafka.isolation.level": "read_committed"}


@pytest.fixture(scope="module", params=EITHER_BROKER)
def transactional(request: pytest.FixtureRequest, shared_brokers: SharedBrokers) -> Server:
    return shared_brokers.get(request.param, QUICK_GROUPS)


@pytest.fixture
def topics(transactional: Server) -> "Iterator[Topics]":
    with making(transactional.bootstrap) as found:
        yield found


def numbers(rows: "DataFrame") -> list[int]:
    return sorted(int(row.value) for row in rows.select("value").collect())


@pytest.mark.parametrize("limit", [2, 1_000])
def test_a_stream_reads_committed_records_and_passes_markers(
    spark: "SparkSession",
    transactional: Server,
    topics: Topics,
    topic: str,
    tmp_path: Path,
    limit: int,
) -> None:
    topics.create(topic)
    expected = write_transactions(topics.cluster, topic, 4)
    batches: list[list[int]] = []

    def run() -> list[int]:
        batches.clear()
        reader = spark.readStream.format("sawlog").options(**COMMITTED, subscribe=topic)
        query = (
            reader.option("kafka.bootstrap.servers", transactional.bootstrap)
            .options(startingOffsets="earliest", maxOffsetsPerTrigger=limit)
            .load()
            .writeStream.foreachBatch(lambda rows, _: batches.append(numbers(rows)))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(WAIT_S)
        finally:
            query.stop()
        return sorted(number for batch in batches for number in batch)

    assert run() == expected
    assert run() == []
    with Producer(topics.cluster, transactional_id=topic) as producer:
        producer.begin()
        producer.send(topic, b"99").result()
        topics.write(topic, 1, first=100)  # after the beginning of the open transaction
        assert run() == []
        producer.commit()
    more = write_transactions(topics.cluster, topic, 2, first=200)
    assert run() == [99, 100, *more]


def test_a_batch_query_ends_at_the_last_stable_offset(
    spark: "SparkSession", transactional: Server, topics: Topics, topic: str
) -> None:
    topics.create(topic)
    expected = write_transactions(topics.cluster, topic, 3)
    with Producer(topics.cluster, transactional_id=topic) as producer:
        producer.begin()
        producer.send(topic, b"99").result()
        reader = spark.read.format("sawlog").option("subscribe", topic)
        reader = reader.option("kafka.bootstrap.servers", transactional.bootstrap)
        assert numbers(reader.options(**COMMITTED).load()) == expected
        everything = reader.option("kafka.isolation.level", "read_uncommitted")
        assert numbers(everything.load()) == [*range(6), 99]
        producer.abort()
    # One record of an aborted transaction, its end, and a marker alone.
    for start, end in ((3, 4), (4, 6), (5, 6), (3, 6)):
        some = reader.options(
            startingOffsets=f'{{"{topic}": {{"0": {start}}}}}',
            endingOffsets=f'{{"{topic}": {{"0": {end}}}}}',
            **COMMITTED,
        )
        assert numbers(some.load()) == []


@pytest.mark.parametrize("rows_per_commit", [1, 100])
def test_a_landed_table_has_the_committed_records_only(
    transactional: Server, topics: Topics, topic: str, tmp_path: Path, rows_per_commit: int
) -> None:
    topics.create(topic)
    expected = write_transactions(topics.cluster, topic, 5)
    table = f"  t: {{topic: {topic}, commit: {{rows: {rows_per_commit}}}}}\n"
    pipeline = pipeline_of(tmp_path, transactional.bootstrap, table)
    land_here(pipeline)

    def landed() -> list[int]:
        return sorted(int(row["value"]) for row in rows_of(pipeline.landed[0].path))

    assert landed() == expected
    with Producer(topics.cluster, transactional_id=topic) as producer:
        producer.begin()
        producer.send(topic, b"99").result()
        assert land_here(pipeline) == []
        assert landed() == expected
        producer.commit()
    more = write_transactions(topics.cluster, topic, 2, first=200)
    land_here(pipeline)
    assert landed() == [*expected, 99, *more]
