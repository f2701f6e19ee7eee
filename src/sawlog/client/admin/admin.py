"""The admin client: topics, replicas, configs, records, brokers, log directories and groups.

Calls that change several things return the errors by name; no errors is success. A change is never
sent twice: if its response is lost, ConnectionLost or RequestTimedOut is raised.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from sawlog.client.admin.configs import (
    Change,
    ConfigEntry,
    Resource,
    alter_configs,
    describe_configs,
    list_config_resources,
)
from sawlog.client.admin.groups import GroupAdmin
from sawlog.client.admin.list_offsets import FoundOffset, list_offsets
from sawlog.client.admin.log_dirs import LogDir, describe_log_dirs
from sawlog.client.admin.reassignments import (
    ElectionType,
    OngoingReassignment,
    alter_partition_reassignments,
    elect_leaders,
    list_partition_reassignments,
)
from sawlog.client.admin.transactions import TransactionAdmin
from sawlog.client.errors import ErrorsByName, kafka_error
from sawlog.client.net.addresses import Address
from sawlog.client.net.cluster import Cluster, as_cluster
from sawlog.client.net.connection import Connection, Response
from sawlog.client.net.leader_requests import group_by_topic, partition_of, send_to_leaders
from sawlog.client.net.metadata import Node, Topic, topic_error
from sawlog.client.net.retries import Deadline
from sawlog.core.config_api import ResourceType
from sawlog.core.errors import KafkaError
from sawlog.core.ids import NodeId, TopicName, TopicPartition
from sawlog.protocol.messages.create_partitions_request import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from sawlog.protocol.messages.create_partitions_response import CreatePartitionsResponse
from sawlog.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from sawlog.protocol.messages.create_topics_response import CreateTopicsResponse
from sawlog.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from sawlog.protocol.messages.delete_records_response import DeleteRecordsResponse
from sawlog.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from sawlog.protocol.messages.delete_topics_response import DeleteTopicsResponse
from sawlog.protocol.messages.describe_cluster_request import DescribeClusterRequest
from sawlog.protocol.messages.describe_cluster_response import DescribeClusterResponse
from sawlog.protocol.schema import Message

_GRACE_MS = 1_000  # so that the broker's own timeout is reported before ours


@dataclass(frozen=True, slots=True)
class NewTopic:
    """-1 is the broker's default. `assignments` (node ids by partition) replaces both numbers."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str
    controller: NodeId
    nodes: list[Node]


class Admin(GroupAdmin):
    """The admin client, for one thread; GroupAdmin has the calls about groups, and `transactions`
    those about transactions.

    `cluster` is a Cluster, or addresses of brokers, whose connections are closed with the Admin.
    """

    def __init__(self, cluster: Cluster | str | Sequence[str]) -> None:
        super().__init__(as_cluster(cluster))
        self._owns_cluster = self._cluster is not cluster

    @property
    def transactions(self) -> TransactionAdmin:
        """The calls about transactions."""
        return TransactionAdmin(self._cluster)

    def close(self) -> None:
        if self._owns_cluster:
            self._cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> ErrorsByName:
        """Create topics and wait until their partitions have leaders."""
        wanted = list(topics)
        deadline = self._cluster.deadline()
        request = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in wanted],
            timeout_ms=int(self._cluster.request_timeout_ms),
            validate_only=validate_only,
        )
        response = self._change(request, CreateTopicsResponse)
        errors = {
            result.name: topic_error(result.name, result.error_code, result.error_message)
            for result in response.topics
            if result.error_code
        }
        if not validate_only:
            self._wait_for([topic.name for topic in wanted if topic.name not in errors], deadline)
        return errors

    def delete_topics(self, names: Iterable[str]) -> ErrorsByName:
        wanted = list(names)
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in wanted],
            topic_names=wanted,
            timeout_ms=int(self._cluster.request_timeout_ms),
        )
        response = self._change(request, DeleteTopicsResponse)
        self._cluster.forget(wanted)
        return {
            result.name or "": topic_error(
                result.name or "", result.error_code, result.error_message
            )
            for result in response.responses
            if result.error_code
        }

    def create_partitions(
        self, counts: Mapping[str, int], *, validate_only: bool = False
    ) -> ErrorsByName:
        """Increase each topic to this total number of partitions; it cannot be decreased."""
        request = CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(name=name, count=count, assignments=None)
                for name, count in counts.items()
            ],
            timeout_ms=int(self._cluster.request_timeout_ms),
            validate_only=validate_only,
        )
        response = self._change(request, CreatePartitionsResponse)
        self._cluster.forget(counts)
        return {
            result.name: topic_error(result.name, result.error_code, result.error_message)
            for result in response.results
            if result.error_code
        }

    def list_topics(self, *, include_internal: bool = False) -> list[Topic]:
        metadata = self._cluster.retry(lambda: self._cluster.fetch_metadata(None))
        topics = sorted(metadata.topics.values(), key=lambda topic: topic.name)
        return [topic for topic in topics if include_internal or not topic.is_internal]

    def describe_topics(self, names: Iterable[str]) -> tuple[list[Topic], ErrorsByName]:
        """Return the topics that exist, in the given order, and the errors of the others."""
        wanted = list(dict.fromkeys(names))
        metadata = self._cluster.retry(lambda: self._cluster.fetch_metadata(wanted))
        found = [metadata.topics[TopicName(n)] for n in wanted if n in metadata.topics]
        return found, {str(name): error for name, error in metadata.errors.items()}

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, FoundOffset]:
        return list_offsets(self._cluster, wanted, read_committed=read_committed)

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete the records before each offset (-1: all); returns the new log start offsets.

        Idempotent, so it is retried until the timeout.
        """

        def send(
            connection: Connection, partitions: list[TopicPartition]
        ) -> Iterator[tuple[TopicPartition, int | KafkaError]]:
            request = DeleteRecordsRequest(
                topics=_records_to_delete(partitions, before),
                timeout_ms=int(self._cluster.request_timeout_ms),
            )
            for topic in connection.request(request, DeleteRecordsResponse).topics:
                for entry in topic.partitions:
                    partition = partition_of(topic.name, entry.partition_index)
                    if entry.error_code:
                        text = f"the records of {partition} were not deleted"
                        yield partition, kafka_error(entry.error_code, text)
                    else:
                        yield partition, entry.low_watermark

        return send_to_leaders(self._cluster, before, send)

    def describe_cluster(self) -> ClusterDescription:
        response = self._cluster.request_any(DescribeClusterRequest(), DescribeClusterResponse)
        if response.error_code:
            raise kafka_error(response.error_code, response.error_message)
        nodes = [
            Node(NodeId(broker.broker_id), Address(broker.host, broker.port), broker.rack)
            for broker in sorted(response.brokers, key=lambda broker: broker.broker_id)
        ]
        return ClusterDescription(response.cluster_id, NodeId(response.controller_id), nodes)

    def describe_log_dirs(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[NodeId, list[LogDir]]:
        """Return the log directories of every broker, with all replicas or those of `partitions`.

        Partitions without a replica are left out. KafkaError if a broker refuses the request.
        """
        return describe_log_dirs(self._cluster, partitions)

    def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, KafkaError]:
        """Begin to move each partition to these replicas, or cancel its reassignment (None).

        Returns the errors; a partition without one has begun, not ended.
        """
        return alter_partition_reassignments(self._cluster, targets)

    def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OngoingReassignment]:
        """Return the ongoing reassignments of these partitions, or all."""
        return list_partition_reassignments(self._cluster, partitions)

    def elect_leaders(
        self, kind: ElectionType, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elect the leaders of these partitions, or of all that need it; None is success.

        A partition that needs no election is left out.
        """
        return elect_leaders(self._cluster, kind, partitions)

    def describe_configs(
        self,
        resources: Iterable[Resource],
        *,
        names: Sequence[str] | None = None,
        synonyms: bool = False,
        documentation: bool = False,
    ) -> dict[Resource, list[ConfigEntry]]:
        """Return all configs of each resource, or those in `names`; KafkaError if one fails."""
        return describe_configs(
            self._cluster, resources, names=names, synonyms=synonyms, documentation=documentation
        )

    def alter_configs(
        self, changes: Mapping[Resource, Sequence[Change]], *, validate_only: bool = False
    ) -> dict[Resource, KafkaError]:
        return alter_configs(self._cluster, changes, validate_only=validate_only)

    def list_config_resources(self, types: Iterable[ResourceType] = ()) -> list[Resource]:
        """Return the resources of these types that can have configs, of all types by default."""
        return list_config_resources(self._cluster, types)

    def _change(self, request: Message, response_class: type[Response]) -> Response:
        connection = self._cluster.retry(self._cluster.any_connection)
        return connection.request(
            request, response_class, timeout_ms=self._cluster.request_timeout_ms + _GRACE_MS
        )

    def _wait_for(self, names: list[str], deadline: Deadline) -> None:
        """Wait until the topics have leaders: brokers respond before their metadata has them."""

        def attempt() -> None:
            metadata = self._cluster.fetch_metadata(names)
            for error in metadata.errors.values():
                raise error
            for topic in metadata.topics.values():
                for partition in topic.partitions.values():
                    self._cluster.leader(TopicPartition(topic.name, partition.index))

        if names:
            self._cluster.retry(attempt, topics=names, deadline=deadline)


def _creatable(topic: NewTopic) -> CreatableTopic:
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=list(nodes))
        for index, nodes in sorted(topic.assignments.items())
    ]
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if assignments else topic.partitions,
        replication_factor=-1 if assignments else topic.replication_factor,
        assignments=assignments,
        configs=[
            CreatableTopicConfig(name=name, value=value)
            for name, value in sorted(topic.configs.items())
        ],
    )


def _records_to_delete(
    partitions: list[TopicPartition], before: Mapping[TopicPartition, int]
) -> list[DeleteRecordsTopic]:
    return [
        DeleteRecordsTopic(
            name=name,
            partitions=[
                DeleteRecordsPartition(
                    partition_index=index, offset=before[TopicPartition(name, index)]
                )
                for index in indexes
            ],
        )
        for name, indexes in group_by_topic(partitions).items()
    ]
