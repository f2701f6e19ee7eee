"""Topics for tests of sources and sinks: created, filled, truncated and counted."""

import contextlib
from collections.abc import Iterable, Iterator

from sawlog.client.admin.admin import Admin, NewTopic
from sawlog.client.admin.list_offsets import EARLIEST, LATEST
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of
from sawlog.client.producer.producer import Producer
from sawlog.protocol.records import Record


@contextlib.contextmanager
def making(bootstrap: str) -> Iterator["Topics"]:
    with Cluster(bootstrap) as cluster:
        yield Topics(cluster)


class Topics:
    """Operations on a running broker that a test needs besides what it tests."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.admin = Admin(cluster)

    def create(self, topic: str, partitions: int = 1, **configs: str) -> str:
        named = {name.replace("_", "."): value for name, value in configs.items()}
        refused = self.admin.create_topics([NewTopic(topic, partitions, 1, configs=named)])
        assert not refused, refused
        return topic

    def delete(self, topic: str) -> None:
        refused = self.admin.delete_topics([topic])
        assert not refused, refused

    def grow(self, topic: str, partitions: int) -> None:
        refused = self.admin.create_partitions({topic: partitions})
        assert not refused, refused

    def fill(self, topic: str, records: Iterable[Record], partition: int = 0) -> None:
        """Append records; their offsets are ignored."""
        with Producer(self.cluster) as producer:
            for record in records:
                producer.send(
                    topic,
                    record.value,
                    record.key,
                    headers=record.headers,
                    partition=partition,
                    timestamp_ms=record.timestamp,
                )

    def write(self, topic: str, count: int, partition: int = 0, *, first: int = 0) -> None:
        """Write numbers as values, each with its own timestamp."""
        self.fill(topic, numbered(count, first), partition)

    def cut(self, topic: str, before: int, partition: int = 0) -> None:
        self.admin.delete_records({partition_of(topic, partition): before})

    def bounds(self, topic: str, partition: int = 0) -> tuple[int, int]:
        where = partition_of(topic, partition)
        first, end = (self.admin.list_offsets({where: mark})[where] for mark in (EARLIEST, LATEST))
        return first.offset, end.offset


def numbered(count: int, first: int = 0) -> list[Record]:
    return [
        Record(0, 1_000_000 + number, b"k%d" % (number % 7), b"%d" % number)
        for number in range(first, first + count)
    ]
