"""Reassignments of replicas to other brokers (KIP-455), and elections of leaders (KIP-460)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from sawlog.client.errors import kafka_error
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import group_by_topic, partition_of
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicPartition
from sawlog.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from sawlog.protocol.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
)
from sawlog.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from sawlog.protocol.messages.elect_leaders_response import ElectLeadersResponse
from sawlog.protocol.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from sawlog.protocol.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
)

_GRACE_MS = 1_000  # so that the broker's own timeout is reported before ours


class ElectionType(IntEnum):
    """PREFERRED elects the first replica if it is in sync; UNCLEAN elects any live replica of a
    partition that has no leader, and may lose records."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class OngoingReassignment:
    """`replicas` has the replicas that are being added and those that will be removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(node for node in self.replicas if node not in self.removing)


def alter_partition_reassignments(
    cluster: Cluster, targets: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, KafkaError]:
    """Begin to move each partition to these replicas, or cancel its reassignment (None).

    Returns the errors; a partition without one has begun, not ended.
    """
    if not targets:
        return {}
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=int(cluster.request_timeout_ms),
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[
                    ReassignablePartition(
                        partition_index=index,
                        replicas=_listed(targets[TopicPartition(name, index)]),
                    )
                    for index in indexes
                ],
            )
            for name, indexes in group_by_topic(targets).items()
        ],
    )
    connection = cluster.retry(cluster.any_connection)
    response = connection.request(
        request,
        AlterPartitionReassignmentsResponse,
        timeout_ms=cluster.request_timeout_ms + _GRACE_MS,
    )
    if response.error_code:
        raise kafka_error(response.error_code, response.error_message)
    cluster.forget({partition.topic for partition in targets})
    return {
        partition_of(topic.name, entry.partition_index): kafka_error(
            entry.error_code, entry.error_message
        )
        for topic in response.responses
        for entry in topic.partitions
        if entry.error_code
    }


def list_partition_reassignments(
    cluster: Cluster, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, OngoingReassignment]:
    """Return the ongoing reassignments of these partitions, or all."""
    request = ListPartitionReassignmentsRequest(timeout_ms=int(cluster.request_timeout_ms))
    if partitions is not None:
        request.topics = [
            ListPartitionReassignmentsTopics(name=name, partition_indexes=[*indexes])
            for name, indexes in group_by_topic(partitions).items()
        ]
    response = cluster.request_any(request, ListPartitionReassignmentsResponse)
    if response.error_code:
        raise kafka_error(response.error_code, response.error_message)
    return {
        partition_of(topic.name, entry.partition_index): OngoingReassignment(
            tuple(entry.replicas), tuple(entry.adding_replicas), tuple(entry.removing_replicas)
        )
        for topic in response.topics
        for entry in topic.partitions
    }


def elect_leaders(
    cluster: Cluster, kind: ElectionType, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, KafkaError | None]:
    """Elect the leaders of these partitions, or of all that need it; None is success.

    A partition that needs no election is left out, as it is if none is named.
    """
    request = ElectLeadersRequest(
        election_type=kind, topic_partitions=None, timeout_ms=int(cluster.request_timeout_ms)
    )
    if partitions is not None:
        request.topic_partitions = [
            TopicPartitions(topic=name, partitions=[*indexes])
            for name, indexes in group_by_topic(partitions).items()
        ]
    connection = cluster.retry(cluster.any_connection)
    response = connection.request(
        request, ElectLeadersResponse, timeout_ms=cluster.request_timeout_ms + _GRACE_MS
    )
    if response.error_code:
        raise kafka_error(response.error_code, "the election was refused")
    cluster.forget([result.topic for result in response.replica_election_results])
    return {
        partition_of(result.topic, entry.partition_id): kafka_error(
            entry.error_code, entry.error_message
        )
        if entry.error_code
        else None
        for result in response.replica_election_results
        for entry in result.partition_result
        if entry.error_code != ErrorCode.ELECTION_NOT_NEEDED
    }


def _listed(replicas: Sequence[int] | None) -> list[int] | None:
    return None if replicas is None else list(replicas)
