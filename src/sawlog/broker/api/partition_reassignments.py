"""AlterPartitionReassignments 0 to 1 and ListPartitionReassignments 0 (KIP-455, 860).

Any broker writes the plan of a reassignment; the controller completes it. The response is sent when
this broker's image shows the plan.
"""

from functools import partial
from typing import TYPE_CHECKING, Protocol

from sawlog.cluster.reassignments import ongoing
from sawlog.core.errors import KafkaError
from sawlog.protocol.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from sawlog.protocol.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sawlog.broker.metadata_cache import MetadataCache
    from sawlog.broker.request import Request
    from sawlog.cluster.metadata_image import MetadataImage
    from sawlog.cluster.reassignments import Errors, Reassignments
    from sawlog.protocol.messages.alter_partition_reassignments_request import (
        AlterPartitionReassignmentsRequest,
        ReassignableTopic,
    )
    from sawlog.protocol.messages.list_partition_reassignments_request import (
        ListPartitionReassignmentsRequest,
    )

    class ReassignmentContext(Protocol):
        metadata: MetadataCache
        reassignments: Reassignments


def alter_partition_reassignments(
    context: "ReassignmentContext",
    request: "Request",
    message: "AlterPartitionReassignmentsRequest",
) -> AlterPartitionReassignmentsResponse | None:
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=message.allow_replication_factor_change,
        error_message=None,
        responses=[ReassignableTopicResponse(name=topic.name) for topic in message.topics],
    )
    left = len(message.topics)

    def altered(
        topic: "ReassignableTopic", result: ReassignableTopicResponse, errors: "Errors"
    ) -> None:
        nonlocal left
        result.partitions = [
            _partition_response(partition.partition_index, errors[partition.partition_index])
            for partition in topic.partitions
        ]
        left -= 1
        if left == 0:
            request.reply(response)

    if not message.topics:
        return AlterPartitionReassignmentsResponse()  # with Kafka's empty message, not null
    for topic, result in zip(message.topics, response.responses, strict=True):
        context.reassignments.alter(
            topic.name,
            {each.partition_index: each.replicas for each in topic.partitions},
            message.timeout_ms,
            partial(altered, topic, result),
            may_change_factor=message.allow_replication_factor_change,
        )
    return None


def _partition_response(index: int, error: KafkaError | None) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(
        partition_index=index,
        error_code=0 if error is None else int(error.code),
        error_message=None if error is None else error.message or None,
    )


def list_partition_reassignments(
    context: "ReassignmentContext", _: "Request", message: "ListPartitionReassignmentsRequest"
) -> ListPartitionReassignmentsResponse:
    image = context.metadata.image
    wanted: Sequence[tuple[str, Iterable[int]]]
    if message.topics is None:
        topics = sorted(image.topics.items())
        wanted = [(name, range(len(topic.partitions))) for name, topic in topics]
    else:
        wanted = [(topic.name, topic.partition_indexes) for topic in message.topics]
    found = [
        OngoingTopicReassignment(name=name, partitions=_ongoing_of(image, name, indexes))
        for name, indexes in wanted
    ]
    return ListPartitionReassignmentsResponse(
        error_message=None, topics=[topic for topic in found if topic.partitions]
    )


def _ongoing_of(
    image: "MetadataImage", name: str, indexes: "Iterable[int]"
) -> list[OngoingPartitionReassignment]:
    found = ((index, ongoing(image, name, index)) for index in indexes)
    return [
        OngoingPartitionReassignment(
            partition_index=index,
            replicas=list(partition.replicas),
            adding_replicas=list(partition.adding),
            removing_replicas=list(partition.removing),
        )
        for index, partition in found
        if partition is not None
    ]
