"""Fills a topic with committed, aborted and open transactions."""

from sawlog.client.admin.list_offsets import LATEST, list_offsets
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of
from sawlog.client.producer.producer import Producer
from sawlog.core.ids import TopicPartition
from support.process import wait_until


def stable_end(cluster: Cluster, partition: TopicPartition) -> int:
    """Wait until the last stable offset is the high watermark: all markers are written."""

    def offset(*, stable: bool) -> int:
        found = list_offsets(cluster, {partition: LATEST}, read_committed=stable)
        return found[partition].offset

    wait_until(lambda: offset(stable=True) == offset(stable=False))
    return offset(stable=False)


def write_transactions(
    cluster: Cluster, topic: str, transactions: int, *, first: int = 0, size: int = 2
) -> list[int]:
    """Write numbers from `first` on to partition 0; every second transaction is aborted.

    Returns the committed numbers. Each transaction has `size` records and a marker.
    """
    committed: list[int] = []
    with Producer(cluster, transactional_id=f"fills-{topic}") as producer:
        for number in range(transactions):
            values = range(first + number * size, first + (number + 1) * size)
            producer.begin()
            for value in values:
                producer.send(topic, b"%d" % value, partition=0)
            producer.flush()
            if number % 2:
                producer.abort()
            else:
                producer.commit()
                committed += values
    stable_end(cluster, partition_of(topic, 0))
    return committed
