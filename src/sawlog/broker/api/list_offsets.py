"""ListOffsets, versions 1 to 11, and OffsetForLeaderEpoch, versions 2 to 4 (KIP-101, 279, 320).

On a sole replica ListOffsets waits for the flush that covers the log end it found, so that a client
which flushed its producer sees what it sent. The negative timestamps ask for: -1 latest,
-2 earliest, -3 the largest timestamp (KIP-734), -4 earliest local, -5 latest tiered (KIP-405, 1005)
and -6 earliest pending upload (KIP-1023); nothing is tiered here.
"""

from collections import Counter
from typing import TYPE_CHECKING, Protocol

from sawlog.broker.purgatory import reply_after_commit
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from sawlog.protocol.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from sawlog.broker.purgatory import Purgatory
    from sawlog.broker.replicas import Replicas
    from sawlog.broker.request import Request
    from sawlog.protocol.messages.list_offsets_request import (
        ListOffsetsPartition,
        ListOffsetsRequest,
    )
    from sawlog.protocol.messages.offset_for_leader_epoch_request import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderPartition,
    )

    class OffsetsContext(Protocol):
        replicas: Replicas
        purgatory: Purgatory


LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
_FIRST_VERSION = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
FIRST_VERSION_WITH_LEADER_EPOCH = 4
_UNKNOWN = -1


def list_offsets(
    context: "OffsetsContext", request: "Request", message: "ListOffsetsRequest"
) -> None:
    """Waits until what is written now is committed, unless only the earliest is asked for."""
    reply_after_commit(
        context,
        (
            (topic.name, asked.partition_index)
            for topic in message.topics
            for asked in topic.partitions
            if asked.timestamp not in (EARLIEST, EARLIEST_LOCAL)
        ),
        request,
        lambda: _answer(context, request, message),
    )


def _answer(
    context: "OffsetsContext", request: "Request", message: "ListOffsetsRequest"
) -> ListOffsetsResponse:
    asked_for = Counter(
        (topic.name, asked.partition_index)
        for topic in message.topics
        for asked in topic.partitions
    )
    topics = []
    for topic in message.topics:
        answers = []
        for asked in topic.partitions:
            answer = ListOffsetsPartitionResponse(asked.partition_index)
            try:
                if asked_for[topic.name, asked.partition_index] > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST)
                offset, timestamp, epoch = _find(context, topic.name, asked, request.api_version)
                answer.offset, answer.timestamp = offset, timestamp
                if request.api_version >= FIRST_VERSION_WITH_LEADER_EPOCH:
                    answer.leader_epoch = epoch
            except KafkaError as error:
                answer.error_code = int(error.code)
            answers.append(answer)
        topics.append(ListOffsetsTopicResponse(topic.name, answers))
    return ListOffsetsResponse(topics=topics)


def _find(
    context: "OffsetsContext", topic: str, asked: "ListOffsetsPartition", version: int
) -> tuple[int, int, int]:
    """Offset, timestamp and leader epoch of what was asked for, each -1 where there is none."""
    if asked.timestamp < 0 and version < _FIRST_VERSION.get(asked.timestamp, 2**15):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    replica = context.replicas.leader(topic, asked.partition_index)
    replica.check_epoch(asked.current_leader_epoch)
    log = replica.log
    if asked.timestamp == LATEST:
        return replica.high_watermark, _UNKNOWN, log.epochs.latest
    if asked.timestamp in (EARLIEST, EARLIEST_LOCAL):
        return log.start_offset, _UNKNOWN, log.epochs.epoch_at(log.start_offset)
    if asked.timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _UNKNOWN, _UNKNOWN, _UNKNOWN
    if asked.timestamp == MAX_TIMESTAMP:
        found = log.offset_of_max_timestamp(replica.high_watermark)
    else:
        found = log.offset_for_timestamp(asked.timestamp, replica.high_watermark)
    if found is None:
        return _UNKNOWN, _UNKNOWN, _UNKNOWN
    if not log.start_offset <= found.offset < replica.high_watermark:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"A record claims the offset {found.offset}.")
    return found.offset, found.timestamp, found.leader_epoch


def offset_for_leader_epoch(
    context: "OffsetsContext",
    request: "Request",  # noqa: ARG001 - every handler has the same shape
    message: "OffsetForLeaderEpochRequest",
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic.topic, [_epoch_end(context, topic.topic, asked) for asked in topic.partitions]
            )
            for topic in message.topics
        ]
    )


def _epoch_end(
    context: "OffsetsContext", topic: str, asked: "OffsetForLeaderPartition"
) -> EpochEndOffset:
    answer = EpochEndOffset(partition=asked.partition)
    try:
        replica = context.replicas.leader(topic, asked.partition)
        replica.check_epoch(asked.current_leader_epoch)
        epoch, end = replica.log.end_offset_for_epoch(asked.leader_epoch)
        answer.leader_epoch, answer.end_offset = epoch, end
    except KafkaError as error:
        answer.error_code = int(error.code)
    return answer
