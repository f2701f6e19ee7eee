"""Asking partition leaders for offsets: the first, the last, or the one at a point in time."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sawlog.client.cluster import Cluster
from sawlog.client.errors import refusal
from sawlog.core.errors import KafkaError
from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition
from sawlog.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from sawlog.protocol.messages.list_offsets_response import ListOffsetsResponse

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3  # the offset of the record with the highest timestamp (KIP-734)
EARLIEST_LOCAL = -4  # the first that is not in remote storage alone (KIP-405)

CONSUMER = -1  # the replica id of one that is none


@dataclass(frozen=True, slots=True)
class FoundOffset:
    offset: int  # -1: no record is that late
    timestamp: int  # of the record, where it was looked up by time; else -1
    leader_epoch: int


def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
) -> dict[TopicPartition, FoundOffset]:
    """For each partition the offset at a time in ms, or at one of the marks above."""
    found: dict[TopicPartition, FoundOffset] = {}

    def attempt() -> None:
        failures: list[KafkaError] = []
        rest = [partition for partition in wanted if partition not in found]
        for node, partitions in cluster.by_leader(rest).items():
            request = ListOffsetsRequest(
                replica_id=CONSUMER,
                isolation_level=int(read_committed),
                topics=_topics(partitions, wanted),
                timeout_ms=int(cluster.request_timeout_ms),
            )
            answer = cluster.connection(node).request(request, ListOffsetsResponse)
            failures += _collect(answer, found)
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


def _topics(
    partitions: list[TopicPartition], wanted: Mapping[TopicPartition, int]
) -> list[ListOffsetsTopic]:
    return [
        ListOffsetsTopic(
            name=name,
            partitions=[
                ListOffsetsPartition(
                    partition_index=index, timestamp=wanted[TopicPartition(name, index)]
                )
                for index in indexes
            ],
        )
        for name, indexes in group_by_topic(partitions).items()
    ]


def _collect(
    answer: ListOffsetsResponse, found: dict[TopicPartition, FoundOffset]
) -> list[KafkaError]:
    failures: list[KafkaError] = []
    for topic in answer.topics:
        for entry in topic.partitions:
            partition = TopicPartition(TopicName(topic.name), PartitionIndex(entry.partition_index))
            if entry.error_code:
                text = f"no offset of {partition} was told"
                failures.append(refusal(entry.error_code, text))
            else:
                found[partition] = FoundOffset(entry.offset, entry.timestamp, entry.leader_epoch)
    return failures
