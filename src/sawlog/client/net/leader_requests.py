"""Asking the leaders of partitions, each for its own, until every partition has its answer."""

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
    """What is told of each partition; KafkaError where one is refused for good, or for too long.

    `ask` sends one request about partitions of one leader, which may safely happen twice.
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
    """As most requests want them."""
    groups: dict[TopicName, list[PartitionIndex]] = defaultdict(list)
    for topic, index in sorted(partitions):
        groups[topic].append(index)
    return dict(groups)


def partition_of(topic: str, index: int) -> TopicPartition:
    """As an answer names it."""
    return TopicPartition(TopicName(topic), PartitionIndex(index))
