"""Produce, versions 0 to 13 in name and 3 to 13 in truth (KIP-896); topic ids from 13 (KIP-516).

Every partition is answered for itself. acks=1 is answered after the write, acks=all when the
watermark has passed the batch or the time is up, acks=0 never: there an error closes the
connection, so that the client looks for a leader again. Record errors: KIP-467. Topics in which
the brokers keep their own state are written by the brokers.
"""

from typing import TYPE_CHECKING

from sawlog.broker.batch_validation import InvalidRecords, prepare
from sawlog.cluster.metadata_image import INTERNAL_TOPICS
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
    from sawlog.broker.broker import Broker
    from sawlog.broker.request import Request
    from sawlog.core.ports import TimerHandle
    from sawlog.protocol.messages.produce_request import PartitionProduceData, ProduceRequest
    from sawlog.protocol.schema import Records
    from sawlog.replication.partition import Partition

ACKS_ALL = -1
ADMIN_CLIENT_ID = "__admin_client"
"""As in Kafka, who comes under this name may write to internal topics: repair tools do."""

FIRST_VERSION_WITH_ZSTD = 7
FIRST_VERSION_WITH_CURRENT_LEADER = 10
FIRST_VERSION_WITH_TOPIC_IDS = 13
FLUSH_MS = 1_000
"""Who has no time to wait for replicas still has the time that a flush takes: Kafka, which waits
for no flush, would answer such a producer at once."""
_ZSTD = 4
_NO_OFFSET = -1


def produce(
    broker: "Broker", request: "Request", message: "ProduceRequest"
) -> ProduceResponse | None:
    version = request.api_version
    acks = message.acks
    pending: list[_Pending] = []
    responses = []
    failed = False
    for topic in message.topic_data:
        answers = []
        name: str | None = topic.name
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if version >= FIRST_VERSION_WITH_TOPIC_IDS:
            name = broker.topic_name(topic.topic_id)
            missing = ErrorCode.UNKNOWN_TOPIC_ID
        is_closed = name in INTERNAL_TOPICS and request.client_id != ADMIN_CLIENT_ID
        for data in topic.partition_data:
            try:
                replica = broker.leading(name, data.index, missing)
                if is_closed:
                    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
                answer, required = _append(broker, replica, data, version, acks, message)
                if acks == ACKS_ALL and replica.high_watermark < required:
                    pending.append(_Pending(replica, required, answer))
            except KafkaError as error:
                failed = True
                answer = _refusal(broker, name, data.index, error, version)
            answers.append(answer)
        responses.append(TopicProduceResponse(topic.name, topic.topic_id, answers))
    response = ProduceResponse(responses)
    if acks == 0:
        if failed:
            request.close("a Produce request with acks=0 failed")
        else:
            request.reply_nothing()
        return None
    if not pending:
        return response
    _Parked(request, response, pending).park(broker, message.timeout_ms)
    return None


def _append(
    broker: "Broker",
    replica: "Partition",
    data: "PartitionProduceData",
    version: int,
    acks: int,
    message: "ProduceRequest",
) -> tuple[PartitionProduceResponse, int]:
    """Appends one partition's batch; its answer and the watermark that commits it."""
    if acks not in (0, 1, ACKS_ALL):
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
    log = replica.log
    batch, header = _checked(data.records, version, log.config.max_message_bytes)
    if header.is_transactional or message.transactional_id is not None:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, "This broker has no transactions yet.")
    if acks == ACKS_ALL and len(replica.in_sync) < log.config.min_insync_replicas:
        raise KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"The size of the current ISR {len(replica.in_sync)} is insufficient to satisfy the "
            f"min.isr requirement of {log.config.min_insync_replicas} for partition {replica.name}",
        )
    config = log.config
    if config.compression_type != "producer" or "compact" in config.cleanup_policy:
        batch, header = prepare(batch, header, config)
    appended = replica.append(batch, header, is_awaited=acks == ACKS_ALL)
    broker.metrics.appended(header.count, len(batch))
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


def _refusal(
    broker: "Broker", name: str | None, index: int, error: KafkaError, version: int
) -> PartitionProduceResponse:
    replica = None if name is None else broker.partitions.get((name, index))
    if error.code is ErrorCode.INVALID_TOPIC_EXCEPTION:
        replica = None  # of a topic that clients do not write they are not told more
    answer = PartitionProduceResponse(
        index, int(error.code), _NO_OFFSET, -1, replica.log.start_offset if replica else -1
    )
    answer.error_message = error.message or None
    if isinstance(error, InvalidRecords):
        answer.record_errors = [
            BatchIndexAndErrorMessage(position, reason) for position, reason in error.records
        ]
    elif (
        error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        and version >= FIRST_VERSION_WITH_CURRENT_LEADER
    ):
        leader, epoch = broker.current_leader(name, index)
        answer.current_leader = LeaderIdAndEpoch(leader, epoch)
    return answer


class _Pending:
    """One partition of a parked request: told once, committed or not."""

    __slots__ = ("answer", "is_settled", "parked", "replica", "required")

    def __init__(
        self, replica: "Partition", required: int, answer: PartitionProduceResponse
    ) -> None:
        self.replica = replica
        self.required = required
        self.answer = answer
        self.is_settled = False
        self.parked: _Parked | None = None

    def committed(self, error: KafkaError | None) -> None:
        if self.is_settled:
            return
        self.is_settled = True
        if error is not None:
            self.fail(error.code, error.message)
        assert self.parked is not None
        self.parked.one_settled()

    def fail(self, code: ErrorCode, message: str) -> None:
        self.answer.error_code = int(code)
        self.answer.error_message = message or None
        self.answer.base_offset = _NO_OFFSET
        self.answer.log_append_time_ms = -1


class _Parked:
    """A Produce request with acks=all between the write and the watermark."""

    __slots__ = ("_deadline", "_left", "_pending", "_request", "_response")

    def __init__(
        self, request: "Request", response: ProduceResponse, pending: list[_Pending]
    ) -> None:
        self._request = request
        self._response = response
        self._pending = pending
        self._left = len(pending)
        self._deadline: TimerHandle | None = None

    def park(self, broker: "Broker", timeout_ms: int) -> None:
        self._deadline = broker.timer.after(max(timeout_ms, FLUSH_MS), self._time_is_up)
        for pending in self._pending:
            pending.parked = self
            pending.replica.when_committed(pending.required, pending.committed)

    def one_settled(self) -> None:
        self._left -= 1
        if self._left == 0:
            if self._deadline is not None:
                self._deadline.cancel()
            self._request.reply(self._response)

    def _time_is_up(self) -> None:
        self._deadline = None
        for pending in self._pending:
            if not pending.is_settled:
                pending.is_settled = True
                pending.fail(ErrorCode.REQUEST_TIMED_OUT, "")
        self._left = 0
        self._request.reply(self._response)
