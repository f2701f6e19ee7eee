"""Metadata of a cluster: its brokers, and topics with the leaders of their partitions."""

from dataclasses import dataclass

from sawlog.client.errors import kafka_error
from sawlog.client.net.addresses import Address
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import (
    NO_TOPIC_ID,
    LeaderEpoch,
    NodeId,
    PartitionIndex,
    TopicId,
    TopicName,
)
from sawlog.protocol.messages.metadata_response import MetadataResponse, MetadataResponseTopic


@dataclass(frozen=True, slots=True)
class Node:
    id: NodeId
    address: Address
    rack: str | None


@dataclass(frozen=True, slots=True)
class Partition:
    index: PartitionIndex
    leader: NodeId  # -1: no leader
    leader_epoch: LeaderEpoch
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    name: TopicName
    id: TopicId  # NO_TOPIC_ID from a broker without topic ids
    is_internal: bool
    partitions: dict[PartitionIndex, Partition]

    @property
    def has_id(self) -> bool:
        return self.id != NO_TOPIC_ID


@dataclass(frozen=True, slots=True)
class Metadata:
    """A Metadata response: the requested topics, and the errors of the others."""

    cluster_id: str | None
    controller: NodeId
    nodes: dict[NodeId, Node]
    topics: dict[TopicName, Topic]
    errors: dict[TopicName, KafkaError]


def read_metadata(response: MetadataResponse) -> Metadata:
    nodes = {
        NodeId(broker.node_id): Node(
            NodeId(broker.node_id), Address(broker.host, broker.port), broker.rack
        )
        for broker in response.brokers
    }
    topics: dict[TopicName, Topic] = {}
    errors: dict[TopicName, KafkaError] = {}
    for entry in response.topics:
        name = TopicName(entry.name or "")
        if entry.error_code:
            refused = topic_error(name, entry.error_code, None)
            text = refused.message or f"the topic {name!r} is not ready: {refused.code.name}"
            errors[name] = KafkaError(refused.code, text)
        else:
            topics[name] = _topic(name, entry)
    return Metadata(response.cluster_id, NodeId(response.controller_id), nodes, topics, errors)


def _topic(name: TopicName, entry: MetadataResponseTopic) -> Topic:
    partitions = {
        PartitionIndex(partition.partition_index): Partition(
            PartitionIndex(partition.partition_index),
            NodeId(partition.leader_id),
            LeaderEpoch(partition.leader_epoch),
            tuple(partition.replica_nodes),
            tuple(partition.isr_nodes),
            tuple(partition.offline_replicas),
        )
        for partition in sorted(entry.partitions, key=lambda partition: partition.partition_index)
    }
    return Topic(name, TopicId(entry.topic_id), entry.is_internal, partitions)


def topic_error(name: str, error_code: int, message: str | None) -> KafkaError:
    """Make the error of a response about a topic, with a text that names the topic."""
    refused = kafka_error(error_code, message)
    if message and refused.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return refused
    return KafkaError(refused.code, _topic_text(name, refused.code))


def _topic_text(name: str, code: ErrorCode) -> str:
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return f"there is no topic {name!r}; create it first, or check the name"
    if code is ErrorCode.INVALID_TOPIC_EXCEPTION:
        return (
            f"{name!r} is not a valid topic name: 1 to 249 of letters, digits, '.', '_' and '-',"
            " not '.' or '..'"
        )
    if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return f"no permission to see the topic {name!r}"
    return ""
