"""DescribeProducers, version 0 (KIP-664): the producers of a partition and their transactions.

Every replica of the partition answers from its own log. The last timestamp is the time of the last
append by the broker's clock: a producer may copy old timestamps, and this one shows a transaction
that hangs.
"""

from typing import TYPE_CHECKING, Protocol

from sawlog.cluster.topic_names import check_name
from sawlog.core.errors import KafkaError
from sawlog.protocol.messages.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from sawlog.broker.replicas import Replicas
    from sawlog.broker.request import Request
    from sawlog.protocol.messages.describe_producers_request import DescribeProducersRequest

    class DescribeProducersContext(Protocol):
        replicas: Replicas


def describe_producers(
    context: "DescribeProducersContext", _: "Request", message: "DescribeProducersRequest"
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                topic.name,
                [_partition(context, topic.name, index) for index in topic.partition_indexes],
            )
            for topic in message.topics
        ]
    )


def _partition(context: "DescribeProducersContext", topic: str, index: int) -> PartitionResponse:
    response = PartitionResponse(index)
    try:
        check_name(topic)
        states = context.replicas.readable(topic, index).log.producer_states
    except KafkaError as error:
        response.error_code = int(error.code)
        reason = f"This broker has no replica of partition {index} of topic '{topic}'."
        response.error_message = error.message or reason
        return response
    response.active_producers = [
        ProducerState(
            producer_id=producer_id,
            producer_epoch=state.epoch,
            last_sequence=state.batches[-1].last_sequence if state.batches else -1,
            last_timestamp=state.seen_ms,
            coordinator_epoch=state.coordinator_epoch,
            current_txn_start_offset=state.current_txn_first_offset,
        )
        for producer_id, state in states.states.items()
    ]
    return response
