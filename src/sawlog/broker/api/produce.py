"""Produce, versions 3 to 13; ApiVersions lists 0 to 13 (KIP-896). Topic ids from 13 (KIP-516).

Each partition succeeds or fails on its own. acks=1 is answered after the write; acks=all when the
high watermark has passed the batch, or at the timeout; acks=0 never: there an error closes the
connection, so that the client looks for the leader again. Record errors: KIP-467. Clients cannot
write to internal topics.
"""

from functools import partial
from typing import TYPE_CHECKING, Protocol

from sawlog.broker.batch_validation import InvalidRecords, prepare
from sawlog.cluster.internal_topics import is_internal
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.messages.produce_response import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from sawlog.protocol.record_batch import BatchHeader, check_produced

if TYPE_CHECKING:
    from sawlog.broker.metadata_cache import MetadataCache
    from sawlog.broker.metrics import BrokerMetrics
    from sawlog.broker.purgatory import Purgatory
    from sawlog.broker.replicas import Replicas
    from sawlog.broker.request import Request
    from sawlog.core.ports import Clock
    from sawlog.protocol.messages.produce_request import PartitionProduceData, ProduceRequest
    from sawlog.protocol.schema import Records
    from sawlog.replication.replica import Replica

    class ProduceContext(Protocol):
        metadata: MetadataCache
        replicas: Replicas
        metrics: BrokerMetrics
        purgatory: Purgatory
        clock: Clock

    Uncommitted = tuple[Replica, int, PartitionProduceResponse]
    """A replica, the high watermark that commits the batch, and the response."""

ACKS_ALL = -1
ADMIN_CLIENT_ID = "__admin_client"
"""As in Kafka, a client of this name may write to internal topics, for repair tools."""

FIRST_VERSION_WITH_ZSTD = 7
FIRST_VERSION_WITH_CURRENT_LEADER = 10
FIRST_VERSION_WITH_TOPIC_IDS = 13
MIN_COMMIT_WAIT_MS = 1_000
"""Minimum wait for acks=all: a short client timeout must still cover one fsync. Kafka waits for no
fsync, so it would answer such a client at once."""
_ZSTD = 4
_NO_OFFSET = -1


def produce(
    context: "ProduceContext", request: "Request", message: "ProduceRequest"
) -> ProduceResponse | None:
    version = request.api_version
    acks = message.acks
    uncommitted: list[Uncommitted | None] = []
    topics = []
    failed = False
    for topic in message.topic_data:
        partitions = []
        name: str | None = topic.name
        if version >= FIRST_VERSION_WITH_TOPIC_IDS:
            name = context.metadata.topic_name(topic.topic_id)
        is_read_only = is_internal(name) and request.client_id != ADMIN_CLIENT_ID
        for data in topic.partition_data:
            try:
                if name is None:
                    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
                replica = context.replicas.leader(name, data.index)
                if is_read_only:
                    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
                partition, required = _append(context, replica, data, version, acks, message)
                if acks == ACKS_ALL and replica.log.high_watermark < required:
                    uncommitted.append((replica, required, partition))
            except KafkaError as error:
                failed = True
                partition = _error(context, name, data.index, error, version)
            partitions.append(partition)
        topics.append(TopicProduceResponse(topic.name, topic.topic_id, partitions))
    response = ProduceResponse(topics)
    if acks == 0:
        if failed:
            request.close("a Produce request with acks=0 failed")
        else:
            request.reply_nothing()
        return None
    if not uncommitted:
        return response
    _DelayedProduce(context.purgatory, request, response, uncommitted).park(message.timeout_ms)
    return None


def _append(
    context: "ProduceContext",
    replica: "Replica",
    data: "PartitionProduceData",
    version: int,
    acks: int,
    message: "ProduceRequest",
) -> tuple[PartitionProduceResponse, int]:
    """Append the batch of one partition; return its response and the watermark that commits it."""
    if acks not in (0, 1, ACKS_ALL):
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
    log = replica.log
    config = log.config
    batch, header = _checked(data.records, version, config.max_message_bytes)
    if header.is_transactional or message.transactional_id is not None:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, "This broker has no transactions yet.")
    if acks == ACKS_ALL:
        replica.check_min_in_sync()
    now_ms = context.clock.now_ms()
    timestamp = header.max_timestamp
    if (
        config.reads_records
        or timestamp - now_ms > config.timestamp_after_max_ms
        or timestamp < header.base_timestamp  # the first record's, so the maximum is wrong
    ):
        batch, header = prepare(batch, header, config, now_ms)
    appended = replica.append(batch, header, is_awaited=acks == ACKS_ALL)
    context.metrics.appended(header.count, len(batch))
    return (
        PartitionProduceResponse(
            data.index, 0, appended.base_offset, appended.append_time_ms, log.start_offset
        ),
        appended.base_offset + header.last_offset_delta + 1,
    )


def _checked(
    records: "Records", version: int, max_batch_bytes: int
) -> tuple[memoryview, BatchHeader]:
    if not isinstance(records, memoryview) or len(records) == 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"Produce requests with version {version} must have exactly one batch per partition",
        )
    header = check_produced(records, max_batch_bytes=max_batch_bytes)
    if header.codec == _ZSTD and version < FIRST_VERSION_WITH_ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce requests with version {version} are not allowed to use ZStandard compression",
        )
    return records, header


def _error(
    context: "ProduceContext", name: str | None, index: int, error: KafkaError, version: int
) -> PartitionProduceResponse:
    replica = None if name is None else context.replicas.by_partition.get((name, index))
    if error.code is ErrorCode.INVALID_TOPIC_EXCEPTION:
        replica = None  # the response tells nothing of an internal topic
    response = PartitionProduceResponse(
        index, int(error.code), _NO_OFFSET, -1, replica.log.start_offset if replica else -1
    )
    response.error_message = error.message or None
    if isinstance(error, InvalidRecords):
        response.record_errors = [
            BatchIndexAndErrorMessage(position, reason) for position, reason in error.records
        ]
    elif (
        error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        and version >= FIRST_VERSION_WITH_CURRENT_LEADER
    ):
        leader, epoch = context.metadata.current_leader(name, index)
        response.current_leader = LeaderIdAndEpoch(leader, epoch)
    return response


class _DelayedProduce:
    """A Produce request with acks=all whose batches are written and not yet committed.

    Invariant: `_uncommitted` has None for each partition that is settled; `_left` counts the rest.
    """

    __slots__ = ("_client", "_left", "_purgatory", "_request", "_response", "_uncommitted")

    def __init__(
        self,
        purgatory: "Purgatory",
        request: "Request",
        response: ProduceResponse,
        uncommitted: "list[Uncommitted | None]",
    ) -> None:
        self._purgatory = purgatory
        self._request = request
        self._client = request.client
        self._response = response
        self._uncommitted = uncommitted
        self._left = len(uncommitted)

    def park(self, timeout_ms: int) -> None:
        self._purgatory.park(self._client, self, max(timeout_ms, MIN_COMMIT_WAIT_MS))
        for place, partition in enumerate(self._uncommitted):
            assert partition is not None
            replica, required, _ = partition
            replica.when_committed(required, partial(self._settle, place))

    def _settle(self, place: int, error: KafkaError | None) -> None:
        if error is not None:
            partition = self._uncommitted[place]
            assert partition is not None
            _set_error(partition[2], error.code, error.message)
        self._uncommitted[place] = None
        self._left -= 1
        if self._left == 0 and self._purgatory.complete(self._client, self):
            self._request.reply(self._response)

    def expire(self) -> None:
        if self._purgatory.complete(self._client, self):
            for partition in self._uncommitted:
                if partition is not None:
                    _set_error(partition[2], ErrorCode.REQUEST_TIMED_OUT, "")
            self._request.reply(self._response)

    def abandon(self) -> None:
        """`_settle` finds the request gone."""

    def shut_down(self) -> None:
        """Closing the logs flushes them, and so completes the request."""


def _set_error(response: PartitionProduceResponse, code: ErrorCode, message: str) -> None:
    response.error_code = int(code)
    response.error_message = message or None
    response.base_offset = _NO_OFFSET
    response.log_append_time_ms = -1
