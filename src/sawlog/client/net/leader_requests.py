"""Sends requests about partitions to their leaders until every partition has a result."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TypeVar

from sawlog.client.net.cluster import Cluster
from sawlog.client.net.connection import Connection
from sawlog.core.errors import KafkaError
from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition

Result = TypeVar("Result")


def send_to_leaders(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    send: Callable[
        [Connection, list[TopicPartition]], Iterable[tuple[TopicPartition, Result | KafkaError]]
    ],
) -> dict[TopicPartition, Result]:
    """Return the result of each partition; KafkaError if one fails for good or too long.

    `send` sends one idempotent request about partitions of one leader.
    """
    wanted = list(partitions)
    found: dict[TopicPartition, Result] = {}

    def attempt() -> None:
        failures: list[KafkaError] = []
        rest = [partition for partition in wanted if partition not in found]
        for node, led in cluster.by_leader(rest).items():
            for partition, result in send(cluster.connection(node), led):
                if isinstance(result, KafkaError):
                    failures.append(result)
                else:
                    found[partition] = result
        if failures:
            raise failures[0]

    cluster.retry(attempt, topics={partition.topic for partition in wanted})
    return {partition: found[partition] for partition in wanted}


def group_by_topic(
    partitions: Iterable[TopicPartition],
) -> dict[TopicName, list[PartitionIndex]]:
    """Return sorted partition indexes by topic, as most requests need them."""
    groups: dict[TopicName, list[PartitionIndex]] = defaultdict(list)
    for topic, index in sorted(partitions):
        groups[topic].append(index)
    return dict(groups)


def partition_of(topic: str, index: int) -> TopicPartition:
    """Make a TopicPartition of a response's plain values."""
    return TopicPartition(TopicName(topic), PartitionIndex(index))
