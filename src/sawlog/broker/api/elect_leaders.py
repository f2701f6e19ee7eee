"""ElectLeaders 0 to 2 (KIP-183, 460): preferred and unclean elections.

Any broker carries them out. The response is sent when this broker's image shows the new leaders.
"""

from functools import partial
from typing import TYPE_CHECKING, Protocol

from sawlog.cluster.ordered_elections import ElectionType
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.messages.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from sawlog.broker.metadata_cache import MetadataCache
    from sawlog.broker.request import Request
    from sawlog.cluster.ordered_elections import OrderedElections
    from sawlog.protocol.messages.elect_leaders_request import ElectLeadersRequest

    class ElectionContext(Protocol):
        elections: OrderedElections
        metadata: MetadataCache


def elect_leaders(
    context: "ElectionContext", request: "Request", message: "ElectLeadersRequest"
) -> ElectLeadersResponse | None:
    try:
        kind = ElectionType(message.election_type)
    except ValueError:
        return _unknown_type(message)
    results = _wanted(context, kind, message)
    orders = [(result.topic, order) for result in results for order in result.partition_result]
    left = len(orders)

    def answered(order: PartitionResult, error: KafkaError | None) -> None:
        nonlocal left
        order.error_code = 0 if error is None else int(error.code)
        order.error_message = None if error is None else error.message or _text(error.code)
        left -= 1
        if left == 0:
            request.reply(ElectLeadersResponse(replica_election_results=results))

    if not orders:
        return ElectLeadersResponse(replica_election_results=results)
    for topic, order in orders:
        done = partial(answered, order)
        context.elections.elect(kind, topic, order.partition_id, message.timeout_ms, done)
    return None


def _wanted(
    context: "ElectionContext", kind: ElectionType, message: "ElectLeadersRequest"
) -> list[ReplicaElectionResult]:
    """Return a result for each named partition, or for all that need an election."""
    if message.topic_partitions is not None:
        return [
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[PartitionResult(partition_id=i) for i in topic.partitions],
            )
            for topic in message.topic_partitions
        ]
    results = []
    for name, topic in sorted(context.metadata.image.topics.items()):
        needed = [
            PartitionResult(partition_id=index)
            for index in range(len(topic.partitions))
            if context.elections.obstacle(kind, name, index) is None
        ]
        results.append(ReplicaElectionResult(topic=name, partition_result=needed))
    return results


def _unknown_type(message: "ElectLeadersRequest") -> ElectLeadersResponse:
    """The whole request fails, and each of its partitions."""
    code, text = int(ErrorCode.INVALID_REQUEST), f"Unknown election type {message.election_type}"
    results = [
        ReplicaElectionResult(
            topic=topic.topic,
            partition_result=[
                PartitionResult(partition_id=index, error_code=code, error_message=text)
                for index in topic.partitions
            ],
        )
        for topic in message.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=code, replica_election_results=results)


def _text(code: ErrorCode) -> str | None:
    return _TEXTS.get(code)


_TEXTS = {
    ErrorCode.ELECTION_NOT_NEEDED: "Leader election not needed for topic partition.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader was not available.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: (
        "Eligible topic partition leaders are not available."
    ),
}
"""Kafka's words for these codes."""
