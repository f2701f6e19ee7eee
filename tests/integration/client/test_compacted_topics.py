"""The client on a compacted topic, of which whole batches are empty or gone."""

import pytest

from sawlog.client import AT_EARLIEST, Admin, AtOffset, Cluster, Consumer, Producer, TopicPartition
from sawlog.client.admin.admin import NewTopic
from sawlog.client.arrow.offset_range import read_range
from sawlog.core.ids import PartitionIndex, TopicName
from sawlog.protocol.record_batch import BatchHeader, batches_in
from support.kafka.compaction import active_base_offset
from support.kafka.shared_brokers import Server, SharedBrokers, unique
from support.process import wait_until

PRODUCERS = 30
LAST_RECORDS = 30
END = PRODUCERS + LAST_RECORDS
ONE_BATCH_BYTES = 61
QUICK_CLEANER = {"log.cleaner.backoff.ms": "50"}
CONFIGS = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "1000",
    "min.cleanable.dirty.ratio": "0.01",
}


def headers(server: Server, topic: str) -> list[BatchHeader]:
    """All batches in the files of the partition, read beside the broker."""
    logs = sorted((server.data / f"{topic}-0").glob("*.log"))
    return [header for log in logs for _, header in batches_in(log.read_bytes())]


@pytest.fixture(scope="module")
def server(shared_brokers: SharedBrokers) -> Server:
    return shared_brokers.get("sawlog", QUICK_CLEANER)


@pytest.fixture(scope="module")
def compacted(server: Server) -> TopicPartition:
    """A partition that begins with many empty batches: each holds the last sequence of a producer.
    One record of the closed segments is left, and those of the active one."""
    name = unique("compacted")
    with Admin(server.bootstrap) as admin:
        assert admin.create_topics([NewTopic(name, partitions=1, configs=CONFIGS)]) == {}
    for number in range(PRODUCERS):
        with Producer(server.bootstrap) as producer:
            producer.send(name, b"old %d" % number, key=b"key").result()
    with Producer(server.bootstrap) as producer:
        for number in range(LAST_RECORDS):
            producer.send(name, b"new %d" % number, key=b"key").result()

    def is_compacted() -> bool:
        try:
            found = headers(server, name)
        except FileNotFoundError:  # the cleaner has replaced a file meanwhile
            return False
        closed = [
            header for header in found if header.base_offset < active_base_offset(server, name)
        ]
        return sum(header.count for header in closed) == 1

    wait_until(is_compacted)
    assert sum(header.count == 0 for header in headers(server, name)) >= PRODUCERS
    return TopicPartition(TopicName(name), PartitionIndex(0))


@pytest.fixture(scope="module")
def left(server: Server, compacted: TopicPartition) -> list[int]:
    """The offsets that still have a record."""
    return [header.base_offset for header in headers(server, compacted.topic) if header.count]


@pytest.mark.parametrize("partition_max_bytes", [ONE_BATCH_BYTES, 1 << 20])
def test_a_consumer_reads_past_empty_batches(
    server: Server, compacted: TopicPartition, left: list[int], partition_max_bytes: int
) -> None:
    with Consumer(server.bootstrap, partition_max_bytes=partition_max_bytes) as consumer:
        consumer.assign({compacted: AT_EARLIEST})
        found: list[int] = []

        def has_reached_the_end() -> bool:
            found.extend(record.offset for record in consumer.poll(100))
            return consumer.position(compacted) == END

        wait_until(has_reached_the_end)
    assert found == left


@pytest.mark.parametrize("start", [0, 7, PRODUCERS])
def test_arrow_batches_leave_out_empty_batches(
    server: Server, compacted: TopicPartition, left: list[int], start: int
) -> None:
    with Consumer(server.bootstrap, partition_max_bytes=ONE_BATCH_BYTES) as consumer:
        consumer.assign({compacted: AtOffset(start)})
        found: list[int] = []

        def has_reached_the_end() -> bool:
            batch = consumer.poll_arrow(100)
            if batch is not None:
                found.extend(batch.column("offset").to_pylist())
            return consumer.position(compacted) == END

        wait_until(has_reached_the_end)
    assert found == [offset for offset in left if offset >= start]


@pytest.mark.parametrize(("start", "end"), [(0, END), (0, 10), (3, PRODUCERS), (10, 11)])
def test_a_range_that_ends_in_empty_batches_is_complete(
    server: Server, compacted: TopicPartition, left: list[int], start: int, end: int
) -> None:
    with Cluster(server.bootstrap) as cluster:
        chunks = list(read_range(cluster, compacted, start, end, max_bytes=ONE_BATCH_BYTES))
    found = [offset for chunk in chunks for offset in chunk.batch.column("offset").to_pylist()]
    assert found == [offset for offset in left if start <= offset < end]
