"""DeleteRecords, versions 0 to 2 (KIP-107): moves the log start offset; -1 means the watermark.

Waits for the flush of records written so far, so that they can be deleted, too. Internal topics and
topics without the cleanup policy `delete` are refused.
"""

from typing import TYPE_CHECKING, Protocol

from sawlog.broker.purgatory import reply_after_commit
from sawlog.cluster.internal_topics import is_internal
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from sawlog.broker.purgatory import Purgatory
    from sawlog.broker.replicas import Replicas
    from sawlog.broker.request import Request
    from sawlog.protocol.messages.delete_records_request import DeleteRecordsRequest

    class DeleteRecordsContext(Protocol):
        replicas: Replicas
        purgatory: Purgatory


def delete_records(
    context: "DeleteRecordsContext", request: "Request", message: "DeleteRecordsRequest"
) -> None:
    reply_after_commit(
        context,
        (
            (topic.name, partition.partition_index)
            for topic in message.topics
            for partition in topic.partitions
        ),
        request,
        lambda: _response(context, message),
    )


def _response(
    context: "DeleteRecordsContext", message: "DeleteRecordsRequest"
) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                topic.name,
                [
                    _delete(context, topic.name, partition.partition_index, partition.offset)
                    for partition in topic.partitions
                ],
            )
            for topic in message.topics
        ]
    )


def _delete(
    context: "DeleteRecordsContext", topic: str, index: int, offset: int
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(index, low_watermark=-1)
    try:
        if is_internal(topic):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        replica = context.replicas.leader(topic, index)
        if "delete" not in replica.log.config.cleanup_policy:
            raise KafkaError(ErrorCode.POLICY_VIOLATION)
        result.low_watermark = replica.delete_before(offset)
    except KafkaError as error:
        result.error_code = int(error.code)
    return result
