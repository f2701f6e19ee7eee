"""ListOffsets: the first or last offset of partitions, or that at a time."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sawlog.client.errors import kafka_error
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.connection import Connection
from sawlog.client.net.leader_requests import group_by_topic, partition_of, send_to_leaders
from sawlog.core.errors import KafkaError
from sawlog.core.ids import TopicPartition
from sawlog.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from sawlog.protocol.messages.list_offsets_response import ListOffsetsResponse

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3  # the offset of the record with the highest timestamp (KIP-734)
EARLIEST_LOCAL = -4  # the first in local storage (KIP-405)

CONSUMER = -1  # the replica id of a consumer


@dataclass(frozen=True, slots=True)
class FoundOffset:
    offset: int  # -1: no record has that time or a later one
    timestamp: int  # of the record, if looked up by time; else -1
    leader_epoch: int


def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
) -> dict[TopicPartition, FoundOffset]:
    """Return each partition's offset at a time in ms, or at one of the constants above."""

    def send(
        connection: Connection, partitions: list[TopicPartition]
    ) -> Iterator[tuple[TopicPartition, FoundOffset | KafkaError]]:
        request = ListOffsetsRequest(
            replica_id=CONSUMER,
            isolation_level=int(read_committed),
            topics=_topics(partitions, wanted),
            timeout_ms=int(cluster.request_timeout_ms),
        )
        for topic in connection.request(request, ListOffsetsResponse).topics:
            for entry in topic.partitions:
                partition = partition_of(topic.name, entry.partition_index)
                if entry.error_code:
                    text = f"the offset of {partition} was not returned"
                    yield partition, kafka_error(entry.error_code, text)
                else:
                    found = FoundOffset(entry.offset, entry.timestamp, entry.leader_epoch)
                    yield partition, found

    return send_to_leaders(cluster, wanted, send)


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
