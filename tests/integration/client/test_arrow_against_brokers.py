"""Arrow batches from a running broker: Sawlog, and Apache Kafka if Java is installed."""

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer as ConfluentProducer

from sawlog.client.admin.admin import Admin, NewTopic
from sawlog.client.admin.list_offsets import EARLIEST, LATEST, list_offsets
from sawlog.client.arrow.offset_range import OffsetsLost, TopicReplaced, read_range
from sawlog.client.arrow.record_columns import ALL_FIELDS
from sawlog.client.consumer.consumer import AT_EARLIEST, AtOffset, Consumer
from sawlog.client.consumer.fetched_records import ConsumedRecord
from sawlog.client.net.cluster import Cluster
from sawlog.client.producer.producer import Producer
from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition
from sawlog.protocol.compression import Codec
from support.client.arrow_rows import Row, rows_of
from support.kafka.shared_brokers import (
    EITHER_BROKER,
    QUICK_GROUPS,
    START,
    Server,
    SharedBrokers,
    unique,
)

POLL_MS = 10_000
MEGABYTE = 1 << 20


@pytest.fixture(scope="module", params=EITHER_BROKER)
def server(request: pytest.FixtureRequest, shared_brokers: SharedBrokers) -> Server:
    return shared_brokers.get(request.param, QUICK_GROUPS)


@pytest.fixture
def cluster(server: Server) -> Iterator[Cluster]:
    with Cluster(server.bootstrap) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """A new, empty topic with two partitions."""
    name = unique("topic-")
    assert Admin(cluster).create_topics([NewTopic(name, partitions=2)]) == {}
    return name


def part(topic: str, index: int) -> TopicPartition:
    return TopicPartition(TopicName(topic), PartitionIndex(index))


def fill(cluster: Cluster, topic: str, count: int, codec: Codec = Codec.NONE) -> None:
    with Producer(cluster, codec=codec, batch_bytes=4_000) as producer:
        for number in range(count):
            producer.send(
                topic,
                None if number % 10 == 3 else b"value %d" % number,
                b"key %d" % number if number % 3 else None,
                headers=(("number", b"%d" % number), ("nothing", None)) if number % 7 == 0 else (),
                partition=number % 2,
                timestamp_ms=1_700_000_000_000 + number,
            )


def row_of(record: ConsumedRecord) -> Row:
    values = record._asdict()
    del values["leader_epoch"]
    return Row(**values)


def polled(cluster: Cluster, topic: str, count: int) -> list[Row]:
    consumer = Consumer(cluster)
    consumer.assign_topic(topic, AT_EARLIEST)
    rows: list[Row] = []
    while len(rows) < count:
        records = consumer.poll(POLL_MS)
        assert records, f"{len(rows)} of {count} records came"
        rows += map(row_of, records)
    return sorted(rows)


@pytest.mark.parametrize("codec", Codec)
def test_columns_equal_the_records(cluster: Cluster, topic: str, codec: Codec) -> None:
    fill(cluster, topic, 500, codec)
    expected = polled(cluster, topic, 500)
    consumer = Consumer(cluster)
    consumer.assign_topic(topic, AT_EARLIEST)
    in_columns: list[Row] = []
    while len(in_columns) < 500:
        batch = consumer.poll_arrow(POLL_MS, max_bytes=5_000)
        assert batch.num_rows, f"{len(in_columns)} of 500 rows came"
        in_columns += rows_of(batch)
    assert sorted(in_columns) == expected
    assert consumer.positions == {part(topic, 0): 250, part(topic, 1): 250}
    assert consumer.poll_arrow(0).num_rows == 0
    assert consumer.poll_arrow().num_rows == 0  # waits for the default timeout
    in_ranges: list[Row] = []
    for index, (start, end) in itertools.product(range(2), [(0, 101), (101, 250)]):
        for chunk in read_range(
            cluster, part(topic, index), start, end, columns=ALL_FIELDS.names, max_bytes=5_000
        ):
            in_ranges += rows_of(chunk.batch)
    assert sorted(in_ranges) == expected


def test_poll_and_poll_arrow_share_positions(cluster: Cluster, topic: str) -> None:
    fill(cluster, topic, 300)
    consumer = Consumer(cluster)
    consumer.assign_topic(topic, AT_EARLIEST)
    rows: list[Row] = []
    while len(rows) < 300:
        one_by_one = [row_of(record) for record in consumer.poll(POLL_MS, max_records=7)]
        rows += one_by_one
        at_once = rows_of(consumer.poll_arrow(POLL_MS if len(rows) < 300 else 0, max_bytes=1))
        rows += at_once
        assert one_by_one or at_once, f"{len(rows)} of 300 came"
    assert sorted(rows) == polled(cluster, topic, 300)


def test_poll_arrow_of_an_empty_topic_has_no_rows(cluster: Cluster, topic: str) -> None:
    consumer = Consumer(cluster)
    consumer.assign_topic(topic, AT_EARLIEST)
    batch = consumer.poll_arrow(50, columns=("value",))
    assert (batch.num_rows, batch.schema.names) == (0, ["value"])


def test_deleted_records_raise_offsets_lost(cluster: Cluster, topic: str) -> None:
    fill(cluster, topic, 200)
    where, admin = part(topic, 0), Admin(cluster)
    admin.delete_records({where: 40})
    assert admin.list_offsets({where: EARLIEST})[where].offset == 40
    with pytest.raises(OffsetsLost, match="begins at 40 and ends before 100"):
        list(read_range(cluster, where, 0, 100))
    assert sum(c.batch.num_rows for c in read_range(cluster, where, 40, 100)) == 60
    with pytest.raises(OffsetsLost, match="ends before 100"):
        list(read_range(cluster, where, 40, 101, max_wait_ms=10))


def test_a_recreated_topic_raises_topic_replaced(cluster: Cluster, topic: str) -> None:
    fill(cluster, topic, 2_000)
    where, admin = part(topic, 0), Admin(cluster)
    chunks = read_range(cluster, where, 0, 1_000, max_bytes=1_000)
    next(chunks)
    first_id = cluster.topic(topic).id
    with Cluster(str(cluster.any_connection().address)) as other:
        assert Admin(other).delete_topics([topic]) == {}
        assert Admin(other).create_topics([NewTopic(topic, partitions=2)]) == {}
        fill(other, topic, 2_000)
    with pytest.raises(TopicReplaced):
        list(chunks)
    assert admin.list_offsets({where: LATEST})[where].offset == 1_000
    with pytest.raises(TopicReplaced):
        next(read_range(cluster, where, 0, 1_000, topic_id=first_id))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_memory_depends_on_max_bytes_not_on_the_backlog(
    cluster: Cluster, topic: str, codec: Codec
) -> None:
    """The records are compressed a hundredfold, so one response holds them all."""
    with Producer(cluster, codec=codec, batch_bytes=MEGABYTE // 4) as producer:
        for number in range(3_000):
            producer.send(topic, b"%d" % number * 2_500, partition=0)
    before = pa.total_allocated_bytes()
    most = rows = 0
    for chunk in read_range(cluster, part(topic, 0), 0, 3_000, max_bytes=MEGABYTE):
        rows += chunk.batch.num_rows
        most = max(most, pa.total_allocated_bytes() - before)
        assert chunk.batch.nbytes <= 1.5 * MEGABYTE
        del chunk
    assert rows == 3_000
    assert most <= 4 * MEGABYTE


@pytest.mark.parametrize("kind", EITHER_BROKER)
def test_reading_survives_a_broker_restart(kind: str, tmp_path: Path) -> None:
    offsets: list[int] = []
    with START[kind](tmp_path) as server, Cluster(server.bootstrap) as cluster:
        assert Admin(cluster).create_topics([NewTopic("logs", partitions=2)]) == {}
        fill(cluster, "logs", 4_000)
        where = part("logs", 1)
        for number, chunk in enumerate(read_range(cluster, where, 0, 2_000, max_bytes=5_000)):
            offsets += chunk.batch.column("offset").to_pylist()
            if number in (1, 3):
                server.kill()
                server.start()
    assert offsets == [*range(2_000)]


@pytest.mark.long
def test_aborted_transactions_are_left_out(shared_brokers: SharedBrokers) -> None:
    kafka = shared_brokers.get("kafka", QUICK_GROUPS)
    topic = unique("logs-")
    with Cluster(kafka.bootstrap) as cluster:
        assert Admin(cluster).create_topics([NewTopic(topic, partitions=1)]) == {}
        producer = ConfluentProducer(
            {"bootstrap.servers": kafka.bootstrap, "transactional.id": topic, "log_level": 2}
        )
        producer.init_transactions(30)
        for number in range(4):
            producer.begin_transaction()
            for letter in "abc":
                producer.produce(topic, f"{letter}{number}", partition=0)
            assert producer.flush(30) == 0  # an abort drops records that were not sent
            (producer.abort_transaction if number % 2 else producer.commit_transaction)(30)
        where = part(topic, 0)
        end, deadline = 0, time.monotonic() + 30
        while end < 16:  # three records and a marker each; Kafka responds before it writes the last
            end = list_offsets(cluster, {where: LATEST})[where].offset
            assert time.monotonic() < deadline, f"the log ends at {end}"
        assert end == 16
        found = {
            read_committed: [
                value
                for chunk in read_range(cluster, where, 1, end, read_committed=read_committed)
                for value in chunk.batch.column("value").to_pylist()
            ]
            for read_committed in (False, True)
        }
        assert found[True] == [b"b0", b"c0", b"a2", b"b2", b"c2"]
        assert len(found[False]) == 11
        consumer = Consumer(cluster, isolation="read_committed")
        consumer.assign({where: AtOffset(1)})
        assert consumer.poll_arrow(POLL_MS).column("value").to_pylist() == found[True]
