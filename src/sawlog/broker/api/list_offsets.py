"""ListOffsets, versions 1 to 11, and OffsetForLeaderEpoch, versions 2 to 4 (KIP-101, 279, 320).

On a sole replica ListOffsets waits for the flush of all records written so far: a client that
flushed its producer then sees its records. With read_committed the last stable offset takes the
place of the high watermark (KIP-98). A follower's request names its replica: latest is the log end,
and Sawlog's tagged field `corrupt_offset` reports a batch that the follower cannot append.
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
from sawlog.replication.isolation_level import IsolationLevel

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
    from sawlog.replication.replica import Replica

    class OffsetsContext(Protocol):
        replicas: Replicas
        purgatory: Purgatory


# Nothing is tiered here, so the last three have constant answers.
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3  # the largest timestamp (KIP-734)
EARLIEST_LOCAL = -4  # KIP-405
LATEST_TIERED = -5  # KIP-1005
EARLIEST_PENDING_UPLOAD = -6  # KIP-1023
_FIRST_VERSION = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
FIRST_VERSION_WITH_LEADER_EPOCH = 4
FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE = 5
_UNKNOWN = -1


def list_offsets(
    context: "OffsetsContext", request: "Request", message: "ListOffsetsRequest"
) -> None:
    reply_after_commit(
        context,
        (
            (topic.name, wanted.partition_index)
            for topic in message.topics
            for wanted in topic.partitions
            if message.replica_id < 0 and wanted.timestamp not in (EARLIEST, EARLIEST_LOCAL)
        ),
        request,
        lambda: _response(context, request, message),
    )


def _response(
    context: "OffsetsContext", request: "Request", message: "ListOffsetsRequest"
) -> ListOffsetsResponse:
    counts = Counter(
        (topic.name, wanted.partition_index)
        for topic in message.topics
        for wanted in topic.partitions
    )
    topics = []
    for topic in message.topics:
        responses = []
        for wanted in topic.partitions:
            response = ListOffsetsPartitionResponse(wanted.partition_index)
            try:
                if counts[topic.name, wanted.partition_index] > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST)
                offset, timestamp, epoch = _find(
                    context,
                    topic.name,
                    wanted,
                    request.api_version,
                    IsolationLevel.of(message.isolation_level),
                    is_replica=message.replica_id >= 0,
                )
                response.offset, response.timestamp = offset, timestamp
                if request.api_version >= FIRST_VERSION_WITH_LEADER_EPOCH:
                    response.leader_epoch = epoch
            except KafkaError as error:
                response.error_code = int(error.code)
            responses.append(response)
        topics.append(ListOffsetsTopicResponse(topic.name, responses))
    return ListOffsetsResponse(topics=topics)


def _find(
    context: "OffsetsContext",
    topic: str,
    wanted: "ListOffsetsPartition",
    version: int,
    isolation: IsolationLevel,
    *,
    is_replica: bool,
) -> tuple[int, int, int]:
    """Return offset, timestamp and leader epoch; each is -1 if unknown."""
    if wanted.timestamp < 0 and version < _FIRST_VERSION.get(wanted.timestamp, 2**15):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    replica = context.replicas.leader(topic, wanted.partition_index)
    replica.check_epoch(wanted.current_leader_epoch)
    log = replica.log
    if is_replica and wanted.corrupt_offset >= 0:
        context.replicas.corruption_reported(replica, wanted.corrupt_offset)
    if wanted.timestamp == LATEST:
        if is_replica:
            return log.end_offset, _UNKNOWN, log.epochs.latest
        _check_available(replica, version)
        return replica.readable_end(isolation), _UNKNOWN, log.epochs.latest
    if wanted.timestamp in (EARLIEST, EARLIEST_LOCAL):
        return log.start_offset, _UNKNOWN, log.epochs.epoch_at(log.start_offset)
    if wanted.timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _UNKNOWN, _UNKNOWN, _UNKNOWN
    end_offset = replica.readable_end(isolation)
    if wanted.timestamp == MAX_TIMESTAMP:
        found = log.offset_of_max_timestamp(end_offset)
    else:
        found = log.offset_for_timestamp(wanted.timestamp, end_offset)
    if found is None:
        if not is_replica:
            _check_available(replica, version)
        return _UNKNOWN, _UNKNOWN, _UNKNOWN
    if not log.start_offset <= found.offset < end_offset:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"A record in the log has the invalid offset {found.offset}."
        )
    return found.offset, found.timestamp, found.leader_epoch


def _check_available(replica: "Replica", version: int) -> None:
    """Reject the request of a client while the high watermark is below the start of the leader's
    epoch: offsets that a former leader told could go back (KIP-207)."""
    if not replica.has_current_watermark:
        raise KafkaError(
            ErrorCode.OFFSET_NOT_AVAILABLE
            if version >= FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE
            else ErrorCode.LEADER_NOT_AVAILABLE
        )


def offset_for_leader_epoch(
    context: "OffsetsContext",
    _: "Request",
    message: "OffsetForLeaderEpochRequest",
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic.topic,
                [_epoch_end(context, topic.topic, wanted) for wanted in topic.partitions],
            )
            for topic in message.topics
        ]
    )


def _epoch_end(
    context: "OffsetsContext", topic: str, wanted: "OffsetForLeaderPartition"
) -> EpochEndOffset:
    response = EpochEndOffset(partition=wanted.partition)
    try:
        replica = context.replicas.leader(topic, wanted.partition)
        replica.check_epoch(wanted.current_leader_epoch)
        epoch, end = replica.log.end_offset_for_epoch(wanted.leader_epoch)
        response.leader_epoch, response.end_offset = epoch, end
    except KafkaError as error:
        response.error_code = int(error.code)
    return response
