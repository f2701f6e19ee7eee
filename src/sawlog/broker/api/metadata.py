"""Metadata 0 to 13, DescribeTopicPartitions 0 (KIP-966), DescribeCluster 0 to 2 (KIP-700, 919).

Metadata returns all topics for a null array, in version 0 for an empty one. It takes topic ids from
version 12 (KIP-516); a request with an id has its names ignored. A topic that is created
automatically is unknown in this response, as in Kafka, and the client retries. The image has only
live brokers, so DescribeCluster never shows a fenced one (KIP-1073).
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from sawlog.cluster.internal_topics import is_internal
from sawlog.cluster.metadata_image import NO_NODE, PartitionImage, TopicImage
from sawlog.cluster.topic_names import name_problem
from sawlog.core.errors import ErrorCode
from sawlog.core.ids import NO_TOPIC_ID, TopicName
from sawlog.protocol.messages.describe_cluster_response import (
    DescribeClusterBroker,
    DescribeClusterResponse,
)
from sawlog.protocol.messages.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from sawlog.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from sawlog.broker.metadata_cache import MetadataCache
    from sawlog.broker.request import Request
    from sawlog.cluster.topics import Topics
    from sawlog.core.config_dynamic import DynamicBrokerConfig
    from sawlog.protocol.messages.describe_cluster_request import DescribeClusterRequest
    from sawlog.protocol.messages.describe_topic_partitions_request import (
        DescribeTopicPartitionsRequest,
    )
    from sawlog.protocol.messages.metadata_request import MetadataRequest

    class MetadataContext(Protocol):
        config: DynamicBrokerConfig
        metadata: MetadataCache
        topics: Topics


FIRST_VERSION_WITH_TOPIC_IDS = 12
TOPIC_OPERATIONS = 0b1101_1111_1000
"""All operations on a topic: read, write, create, delete, alter, describe, describe and alter
configs; the bit numbers are those of Kafka's AclOperation."""
BROKER_ENDPOINT = 1
CONTROLLER_ENDPOINT = 2
CLUSTER_OPERATIONS = 0b1_1111_1010_0000
"""Create, alter, describe, cluster action, describe and alter configs, idempotent write."""


def metadata(
    context: "MetadataContext", request: "Request", message: "MetadataRequest"
) -> MetadataResponse:
    requested = message.topics
    is_all = requested is None or (not requested and request.api_version == 0)
    if not is_all and _is_malformed(request, message):
        return _malformed(message)
    if is_all:
        topics = [
            _topic(context, request, topic) for topic in context.metadata.image.topics.values()
        ]
    else:
        assert requested is not None
        ids = dict.fromkeys(t.topic_id for t in requested if t.topic_id != NO_TOPIC_ID)
        if ids:
            topics = [_topic_by_id(context, request, topic_id) for topic_id in ids]
        else:
            names = dict.fromkeys(t.name or "" for t in requested)
            may_create = message.allow_auto_topic_creation
            topics = _topics_by_name(context, request, names, may_create=may_create)
    if message.include_topic_authorized_operations:
        for topic in topics:
            if topic.name is not None:
                topic.topic_authorized_operations = TOPIC_OPERATIONS
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=b.id, host=b.host, port=b.port, rack=b.rack)
            for b in context.metadata.image.brokers.values()
        ],
        cluster_id=context.metadata.image.cluster_id,
        controller_id=context.metadata.image.controller_id,
        topics=topics,
    )
    if message.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def _is_malformed(request: "Request", message: "MetadataRequest") -> bool:
    """Whether a topic has no name and no id, or an id in a version without ids."""
    if request.api_version < FIRST_VERSION_WITH_TOPIC_IDS:
        return any(t.name is None or t.topic_id != NO_TOPIC_ID for t in message.topics or ())
    return any(t.name is None and t.topic_id == NO_TOPIC_ID for t in message.topics or ())


def _malformed(message: "MetadataRequest") -> MetadataResponse:
    code = int(ErrorCode.INVALID_REQUEST)
    topics = [
        MetadataResponseTopic(error_code=code, name=t.name or "", topic_id=t.topic_id)
        for t in message.topics or ()
    ]
    return MetadataResponse(topics=topics, error_code=code)


def _topic(
    context: "MetadataContext", request: "Request", topic: TopicImage
) -> MetadataResponseTopic:
    # Version 0 leaves out dead brokers and sets REPLICA_NOT_AVAILABLE.
    only_live = request.api_version == 0
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[
            _partition(context, index, partition, only_live=only_live)
            for index, partition in enumerate(topic.partitions)
        ],
    )


def _partition(
    context: "MetadataContext", index: int, partition: PartitionImage, *, only_live: bool
) -> MetadataResponsePartition:
    brokers = context.metadata.image.brokers
    replicas: list[int] = [n for n in partition.replicas if not only_live or n in brokers]
    in_sync: list[int] = [n for n in partition.isr if not only_live or n in brokers]
    code = ErrorCode.NONE
    if partition.leader == NO_NODE:
        code = ErrorCode.LEADER_NOT_AVAILABLE
    elif len(replicas) < len(partition.replicas) or len(in_sync) < len(partition.isr):
        code = ErrorCode.REPLICA_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=int(code),
        partition_index=index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=in_sync,
        offline_replicas=[node for node in partition.replicas if node not in brokers],
    )


def _topic_by_id(
    context: "MetadataContext", request: "Request", topic_id: bytes
) -> MetadataResponseTopic:
    topic = context.metadata.image.topic_by_id(topic_id)
    if topic is not None:
        return _topic(context, request, topic)
    code = int(ErrorCode.UNKNOWN_TOPIC_ID)
    return MetadataResponseTopic(error_code=code, name=None, topic_id=topic_id)


def _topics_by_name(
    context: "MetadataContext", request: "Request", names: Iterable[str], *, may_create: bool
) -> list[MetadataResponseTopic]:
    """Return existing topics first, as Kafka does."""
    found: list[MetadataResponseTopic] = []
    missing: list[MetadataResponseTopic] = []
    for name in names:
        topic = context.metadata.image.topics.get(TopicName(name))
        if topic is not None:
            found.append(_topic(context, request, topic))
            continue
        code = _missing_code(name)
        missing.append(
            MetadataResponseTopic(error_code=int(code), name=name, is_internal=is_internal(name))
        )
        is_valid = code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if may_create and is_valid and context.config["auto.create.topics.enable"]:
            context.topics.auto_create.create(name)
    return found + missing


def _missing_code(name: str) -> ErrorCode:
    if name_problem(name) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.INVALID_TOPIC_EXCEPTION


def describe_topic_partitions(
    context: "MetadataContext", _: "Request", message: "DescribeTopicPartitionsRequest"
) -> DescribeTopicPartitionsResponse:
    """Return topics in the order of their names from the cursor, up to the partition limit."""
    cursor = message.cursor
    first_topic = cursor.topic_name if cursor is not None else ""
    is_all = not message.topics
    names = (
        set(context.metadata.image.topics) if is_all else {topic.name for topic in message.topics}
    )
    names = {name for name in names if name >= first_topic}
    if cursor is not None and (
        cursor.partition_index < 0 or (not is_all and cursor.topic_name not in names)
    ):
        return _bad_cursor(message)
    limit: int = context.config["max.request.partition.size.limit"]
    left = max(min(limit, message.response_partition_limit), 1)
    response = DescribeTopicPartitionsResponse()
    for name in sorted(names):
        if left == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = context.metadata.image.topics.get(TopicName(name))
        if topic is None:
            if not is_all:
                response.topics.append(_unknown(name))
            continue
        begin = cursor.partition_index if cursor is not None and name == first_topic else 0
        end = min(len(topic.partitions), begin + left)
        response.topics.append(_described(context, topic, begin, end))
        if end < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
        left -= max(0, end - begin)
    return response


def _bad_cursor(message: "DescribeTopicPartitionsRequest") -> DescribeTopicPartitionsResponse:
    code = int(ErrorCode.INVALID_REQUEST)
    topics = [
        DescribeTopicPartitionsResponseTopic(error_code=code, name=topic.name)
        for topic in message.topics
    ]
    return DescribeTopicPartitionsResponse(topics=topics)


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=int(_missing_code(name)),
        name=name,
        is_internal=is_internal(name),
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _described(
    context: "MetadataContext", topic: TopicImage, begin: int, end: int
) -> DescribeTopicPartitionsResponseTopic:
    brokers = context.metadata.image.brokers
    partitions = [
        DescribeTopicPartitionsResponsePartition(
            partition_index=index,
            leader_id=partition.leader,
            leader_epoch=partition.leader_epoch,
            replica_nodes=list(partition.replicas),
            isr_nodes=list(partition.isr),
            eligible_leader_replicas=[],
            last_known_elr=[],
            offline_replicas=[node for node in partition.replicas if node not in brokers],
        )
        for index, partition in enumerate(topic.partitions[begin:end], begin)
    ]
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=partitions,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


# DescribeCluster


def describe_cluster(
    context: "MetadataContext", request: "Request", message: "DescribeClusterRequest"
) -> DescribeClusterResponse:
    kind = message.endpoint_type
    if kind == CONTROLLER_ENDPOINT:
        return DescribeClusterResponse(
            error_code=int(ErrorCode.MISMATCHED_ENDPOINT_TYPE),
            error_message="The request was sent to an endpoint of type BROKER, but we wanted an "
            "endpoint of type CONTROLLER",
        )
    if kind != BROKER_ENDPOINT:
        code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        if request.api_version == 0:
            code = ErrorCode.INVALID_REQUEST
        words = f"Unsupported endpoint type {kind}"
        return DescribeClusterResponse(error_code=int(code), error_message=words)
    image = context.metadata.image
    response = DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        brokers=[
            DescribeClusterBroker(broker_id=b.id, host=b.host, port=b.port, rack=b.rack)
            for b in image.brokers.values()
        ],
    )
    if message.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response
