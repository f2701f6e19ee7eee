"""ListOffsets: the first or last offset of partitions, or that at a time."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sawlog.client.errors import ClientError, kafka_error
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.connection import Connection
from sawlog.client.net.leader_requests import group_by_topic, partition_of, send_to_leaders
from sawlog.core.errors import ErrorCode, KafkaError
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
        request = _request(cluster, partitions, wanted, read_committed=read_committed)
        return _results(connection.request(request, ListOffsetsResponse))

    return send_to_leaders(cluster, wanted, send)


def poll_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
) -> dict[TopicPartition, FoundOffset | KafkaError | ClientError]:
    """Return each partition's offset or its error, from one request per leader without a retry.

    The leaders are those of the cached metadata. A partition without one has
    LEADER_NOT_AVAILABLE, and one whose leader does not answer has that error, so that the trouble
    of one topic or broker does not delay the offsets of the others.
    """
    found: dict[TopicPartition, FoundOffset | KafkaError | ClientError] = {}
    for node, partitions in cluster.by_known_leader(wanted).items():
        if node is None:
            found |= {
                partition: KafkaError(
                    ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader now"
                )
                for partition in partitions
            }
            continue
        request = _request(cluster, partitions, wanted, read_committed=read_committed)
        try:
            response = cluster.connection(node).request(request, ListOffsetsResponse)
        except (KafkaError, ClientError) as error:
            found |= dict.fromkeys(partitions, error)
        else:
            found |= dict(_results(response))
    return found


def _request(
    cluster: Cluster,
    partitions: list[TopicPartition],
    wanted: Mapping[TopicPartition, int],
    *,
    read_committed: bool,
) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=CONSUMER,
        isolation_level=int(read_committed),
        topics=_topics(partitions, wanted),
        timeout_ms=int(cluster.request_timeout_ms),
    )


def _results(
    response: ListOffsetsResponse,
) -> Iterator[tuple[TopicPartition, FoundOffset | KafkaError]]:
    for topic in response.topics:
        for entry in topic.partitions:
            partition = partition_of(topic.name, entry.partition_index)
            if entry.error_code:
                text = f"the offset of {partition} was not returned"
                yield partition, kafka_error(entry.error_code, text)
            else:
                found = FoundOffset(entry.offset, entry.timestamp, entry.leader_epoch)
                yield partition, found


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
