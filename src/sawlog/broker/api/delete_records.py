"""DeleteRecords, versions 0 to 2 (KIP-107): moves the log start offset; -1 means the watermark.

Waits for the flush of records written so far, so that they can be deleted, too, and then until all
live replicas have deleted them, or for the timeout. Internal topics and topics without the cleanup
policy `delete` are refused.
"""

from functools import partial
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
    from sawlog.replication.replica import Replica

    Waiting = tuple[Replica, int, DeleteRecordsPartitionResult]
    """A replica, the log start offset that all replicas have to reach, and the result."""

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
        lambda: _respond(context, request, message),
    )


def _respond(
    context: "DeleteRecordsContext", request: "Request", message: "DeleteRecordsRequest"
) -> DeleteRecordsResponse | None:
    waiting: list[Waiting] = []
    response = _response(context, message, waiting)
    if not waiting:
        return response
    _DelayedDelete(context.purgatory, request, response, waiting).park(message.timeout_ms)
    return None


def _response(
    context: "DeleteRecordsContext", message: "DeleteRecordsRequest", waiting: "list[Waiting]"
) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                topic.name,
                [
                    _delete(
                        context, topic.name, partition.partition_index, partition.offset, waiting
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in message.topics
        ]
    )


def _delete(
    context: "DeleteRecordsContext",
    topic: str,
    index: int,
    offset: int,
    waiting: "list[Waiting]",
) -> DeleteRecordsPartitionResult:
    """Delete in one partition; it joins `waiting` if other replicas have to follow."""
    result = DeleteRecordsPartitionResult(index, low_watermark=-1)
    try:
        if is_internal(topic):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        replica = context.replicas.leader(topic, index)
        if "delete" not in replica.log.config.cleanup_policy:
            raise KafkaError(ErrorCode.POLICY_VIOLATION)
        start_offset = replica.delete_before(offset)
        result.low_watermark = replica.low_watermark
        if result.low_watermark < start_offset:
            waiting.append((replica, start_offset, result))
    except KafkaError as error:
        result.error_code = int(error.code)
    return result


class _DelayedDelete:
    """A DeleteRecords request whose followers have not deleted all records yet.

    Invariant: `_left` has the partitions that are not settled, by their place.
    """

    __slots__ = ("_left", "_purgatory", "_request", "_response")

    def __init__(
        self,
        purgatory: "Purgatory",
        request: "Request",
        response: DeleteRecordsResponse,
        waiting: "list[Waiting]",
    ) -> None:
        self._purgatory = purgatory
        self._request = request
        self._response = response
        self._left = dict(enumerate(waiting))

    def park(self, timeout_ms: int) -> None:
        self._purgatory.park(self._request.client, self, max(timeout_ms, 0))
        for place, (replica, offset, _) in list(self._left.items()):
            replica.when_deleted(offset, partial(self._settle, place))

    def _settle(self, place: int, error: KafkaError | None) -> None:
        replica, _, result = self._left.pop(place)
        if error is None:
            _set(result, ErrorCode.NONE, replica.low_watermark)
        else:
            _set(result, error.code, -1)
        if not self._left and self._purgatory.complete(self._request.client, self):
            self._request.reply(self._response)

    def expire(self) -> None:
        if self._purgatory.complete(self._request.client, self):
            for replica, _, result in self._left.values():
                _set(result, ErrorCode.REQUEST_TIMED_OUT, replica.low_watermark)
            self._request.reply(self._response)

    def abandon(self) -> None:
        """`_settle` finds the request gone."""

    def shut_down(self) -> None:
        """Reply with what the followers have deleted so far."""
        self.expire()


def _set(result: DeleteRecordsPartitionResult, code: ErrorCode, low_watermark: int) -> None:
    result.error_code = int(code)
    result.low_watermark = low_watermark
