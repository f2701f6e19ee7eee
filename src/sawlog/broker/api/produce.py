"""Produce, versions 3 to 13; ApiVersions lists 0 to 13 (KIP-896). Topic ids from 13 (KIP-516).

Each partition succeeds or fails on its own. acks=1 is answered after the write; acks=all when the
high watermark has passed the batch, or at the timeout; acks=0 never: there an error closes the
connection, so that the client looks for the leader again. Record errors: KIP-467. Clients cannot
write to internal topics. The first batch of a transaction waits for its coordinator (KIP-890).
"""

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from sawlog.broker.batch_validation import InvalidRecords, prepare
from sawlog.broker.transaction_verification import verification_error
from sawlog.cluster.internal_topics import is_internal
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.messages.produce_response import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from sawlog.protocol.record_batch import (
    TRANSACTIONAL,
    BatchHeader,
    check_produced,
    is_transactional,
    read_header,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeGuard

    from sawlog.broker.metadata_cache import MetadataCache
    from sawlog.broker.metrics import BrokerMetrics
    from sawlog.broker.purgatory import Purgatory
    from sawlog.broker.replicas import Replicas
    from sawlog.broker.request import Request
    from sawlog.broker.transaction_verification import TransactionVerifier
    from sawlog.core.config_dynamic import DynamicBrokerConfig
    from sawlog.core.ids import TopicPartition
    from sawlog.core.ports import Clock
    from sawlog.protocol.messages.produce_request import ProduceRequest
    from sawlog.protocol.schema import Records
    from sawlog.replication.replica import Replica
    from sawlog.storage.log_config import LogConfig
    from sawlog.storage.transaction_verification import VerificationGuard

    class ProduceContext(Protocol):
        metadata: MetadataCache
        replicas: Replicas
        metrics: BrokerMetrics
        purgatory: Purgatory
        clock: Clock
        config: DynamicBrokerConfig
        verifier: TransactionVerifier

    Uncommitted = tuple[Replica, int, PartitionProduceResponse]
    """A replica, the high watermark that commits the batch, and the response."""

ACKS_ALL = -1
ADMIN_CLIENT_ID = "__admin_client"
"""As in Kafka, a client of this name may write to internal topics, for repair tools."""

FIRST_VERSION_WITH_ZSTD = 7
FIRST_VERSION_WITH_CURRENT_LEADER = 10
FIRST_VERSION_WITH_ABORTABLE = 11
FIRST_VERSION_THAT_ADDS_PARTITIONS = 12
FIRST_VERSION_WITH_TOPIC_IDS = 13
MIN_COMMIT_WAIT_MS = 1_000
"""Minimum wait for acks=all: a short client timeout must still cover one fsync. Kafka waits for no
fsync, so it would answer such a client at once."""
_ZSTD = 4
_NO_OFFSET = -1
_TO_BE_VERIFIED = PartitionProduceResponse()
"""Stands for the response of a batch until its transaction is verified."""


def produce(
    context: "ProduceContext", request: "Request", message: "ProduceRequest"
) -> ProduceResponse | None:
    refusal = None
    if message.transactional_id is not None or _has_several(message):
        refusal = _refusal(message)
    version = request.api_version
    acks = message.acks
    uncommitted: list[Uncommitted | None] = []
    unverified: list[_Unverified] = []
    topics = []
    failed = False
    for topic in message.topic_data:
        partitions: list[PartitionProduceResponse] = []
        name: str | None = topic.name
        if version >= FIRST_VERSION_WITH_TOPIC_IDS:
            name = context.metadata.topic_name(topic.topic_id)
        is_read_only = is_internal(name) and request.client_id != ADMIN_CLIENT_ID
        for data in topic.partition_data:
            try:
                if refusal is not None:
                    raise refusal
                if name is None:
                    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
                replica = context.replicas.leader(name, data.index)
                if is_read_only:
                    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
                if acks not in (0, 1, ACKS_ALL):
                    raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
                batch, header = _checked(data.records, version, replica.log.config)
                guard = None
                if header.attributes & TRANSACTIONAL:
                    guard = _begin_verification(replica, header, version, message)
                if guard is not None:
                    copy = memoryview(bytearray(batch))  # the frame is reused
                    unverified.append(
                        _Unverified(replica, copy, header, guard, partitions, len(partitions))
                    )
                    partition = _TO_BE_VERIFIED
                else:
                    partition, required = _append(context, replica, batch, header, acks)
                    if acks == ACKS_ALL and replica.log.high_watermark < required:
                        uncommitted.append((replica, required, partition))
            except KafkaError as error:
                failed = True
                first_error = _first_error(message, data.records, error)
                partition = _error(context, name, data.index, first_error, version)
            partitions.append(partition)
        topics.append(TopicProduceResponse(topic.name, topic.topic_id, partitions))
    response = ProduceResponse(topics)
    if unverified:
        produced = _Produced(context, request, response, uncommitted, failed)
        _Verification(produced, acks, message.timeout_ms, unverified).begin(message)
        return None
    if acks and not uncommitted:
        return response
    return _respond(context, request, response, uncommitted, failed, acks, message.timeout_ms)


def _respond(
    context: "ProduceContext",
    request: "Request",
    response: ProduceResponse,
    uncommitted: "list[Uncommitted | None]",
    failed: bool,
    acks: int,
    timeout_ms: int,
) -> ProduceResponse | None:
    """Return the response; None if there is none, or if it follows when all is committed."""
    if acks == 0:
        if failed:
            request.close("a Produce request with acks=0 failed")
        else:
            request.reply_nothing()
        return None
    if not uncommitted:
        return response
    _DelayedProduce(context.purgatory, request, response, uncommitted).park(timeout_ms)
    return None


def _has_several(message: "ProduceRequest") -> bool:
    """Whether a request is for several partitions."""
    topics = message.topic_data
    return len(topics) > 1 or (len(topics) == 1 and len(topics[0].partition_data) > 1)


def _refusal(message: "ProduceRequest") -> KafkaError | None:
    """Return the error of the whole request, as Kafka: transactional batches need a transactional
    id, and they belong to one producer. `produce` refuses the only one of a request."""
    producers: set[tuple[int, int]] | None = None
    for topic in message.topic_data:
        for data in topic.partition_data:
            records = data.records
            if isinstance(records, memoryview) and is_transactional(records):
                if message.transactional_id is None:
                    return KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
                header = read_header(records)
                producers = producers or set()
                producers.add((header.producer_id, header.producer_epoch))
    if producers is not None and len(producers) > 1:
        return KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            "Transactional records contained more than one producer ID",
        )
    return None


def _is_transactional(records: "Records") -> "TypeGuard[memoryview]":
    """Whether the batch that a request has for a partition is transactional."""
    return isinstance(records, memoryview) and is_transactional(records)


def _first_error(message: "ProduceRequest", records: "Records", error: KafkaError) -> KafkaError:
    """The error of a batch in Kafka's order: a missing transactional id comes first."""
    if message.transactional_id is None and _is_transactional(records):
        return KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return error


def _begin_verification(
    replica: "Replica", header: BatchHeader, version: int, message: "ProduceRequest"
) -> "VerificationGuard | None":
    """Return the guard of a transactional batch that begins a transaction in its partition; None of
    any other."""
    if message.transactional_id is None:
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not header.has_producer:
        return None
    return replica.log.begin_verification(
        header.producer_id,
        header.base_sequence,
        header.producer_epoch,
        supports_epoch_bump=version >= FIRST_VERSION_THAT_ADDS_PARTITIONS,
    )


def _append(
    context: "ProduceContext",
    replica: "Replica",
    batch: memoryview,
    header: BatchHeader,
    acks: int,
    guard: "VerificationGuard | None" = None,
) -> tuple[PartitionProduceResponse, int]:
    """Append the batch of one partition; return its response and the watermark that commits it."""
    log = replica.log
    config = log.config
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
    appended = replica.append(batch, header, is_awaited=acks == ACKS_ALL, guard=guard)
    context.metrics.appended(header.count, len(batch))
    return (
        PartitionProduceResponse(
            replica.name.partition,
            0,
            appended.base_offset,
            appended.append_time_ms,
            log.start_offset,
        ),
        appended.base_offset + header.last_offset_delta + 1,
    )


def _checked(
    records: "Records", version: int, config: "LogConfig"
) -> tuple[memoryview, BatchHeader]:
    if not isinstance(records, memoryview) or len(records) == 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"Produce requests with version {version} must have exactly one batch per partition",
        )
    header = check_produced(records, max_batch_bytes=config.max_message_bytes)
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


class _Produced:
    """A Produce request whose batches are appended or refused.

    uncommitted: the partitions to wait for with acks=all.
    failed: whether a partition was refused, which closes the connection with acks=0.
    """

    __slots__ = ("context", "failed", "request", "response", "uncommitted")

    def __init__(
        self,
        context: "ProduceContext",
        request: "Request",
        response: ProduceResponse,
        uncommitted: "list[Uncommitted | None]",
        failed: bool,
    ) -> None:
        self.context = context
        self.request = request
        self.response = response
        self.uncommitted = uncommitted
        self.failed = failed

    def fail(self) -> None:
        """A partition was refused."""
        self.failed = True

    def respond(self, acks: int, timeout_ms: int) -> None:
        response = _respond(
            self.context,
            self.request,
            self.response,
            self.uncommitted,
            self.failed,
            acks,
            timeout_ms,
        )
        if response is not None:
            self.request.reply(response)


class _Unverified(NamedTuple):
    """A batch that begins a transaction in its partition, and the place of its response."""

    replica: "Replica"
    batch: memoryview
    header: BatchHeader
    guard: "VerificationGuard"
    responses: list[PartitionProduceResponse]
    place: int


class _Verification:
    """A Produce request that waits for the transaction coordinator, and then for its commits.

    From version 12 on the leader adds the partitions of its batches to the transaction; older
    clients have added them, and the leader only asks. The other partitions of the request were
    appended at once, so that batches of later requests stay behind them.

    Invariant: `_epochs` has the leader epoch in which each of the request's uncommitted batches was
    appended.
    """

    __slots__ = ("_acks", "_epochs", "_produced", "_timeout_ms", "_unverified")

    def __init__(
        self, produced: _Produced, acks: int, timeout_ms: int, unverified: list[_Unverified]
    ) -> None:
        self._produced = produced
        self._acks = acks
        self._timeout_ms = timeout_ms
        self._unverified = unverified
        self._epochs = [
            partition[0].leader_epoch for partition in produced.uncommitted if partition is not None
        ]

    def begin(self, message: "ProduceRequest") -> None:
        """Ask the coordinator; unless `transaction.partition.verification.enable` is off and the
        client has added the partitions itself."""
        context = self._produced.context
        if not self._adds and not context.config["transaction.partition.verification.enable"]:
            self._verified({})
            return
        header = self._unverified[0].header
        assert message.transactional_id is not None
        context.verifier.verify(
            message.transactional_id,
            header.producer_id,
            header.producer_epoch,
            self._append_verified,
            adds=self._adds,
            done=self._verified,
        )

    @property
    def _adds(self) -> bool:
        return self._produced.request.api_version >= FIRST_VERSION_THAT_ADDS_PARTITIONS

    def _append_verified(self) -> "list[TopicPartition]":
        """Append the batches in whose partitions an earlier request has begun the transaction;
        return the partitions of the others."""
        verified: list[_Unverified] = []
        others: list[_Unverified] = []
        for each in self._unverified:
            states, header = each.replica.log.producer_states, each.header
            is_open = states.has_transaction(header.producer_id, header.producer_epoch)
            (verified if is_open else others).append(each)
        self._unverified = others
        self._append_all(verified, {})
        return [each.replica.name for each in others]

    def _verified(self, errors: "Mapping[TopicPartition, ErrorCode]") -> None:
        self._append_all(self._unverified, errors)
        self._fail_ended_epochs()
        self._produced.respond(self._acks, self._timeout_ms)

    def _append_all(
        self, batches: list[_Unverified], errors: "Mapping[TopicPartition, ErrorCode]"
    ) -> None:
        produced = self._produced
        for each in batches:
            try:
                partition = self._append(each, errors.get(each.replica.name))
            except KafkaError as error:
                produced.fail()
                name, index = each.replica.name
                version = produced.request.api_version
                partition = _error(produced.context, name, index, error, version)
            each.responses[each.place] = partition

    def _append(self, unverified: _Unverified, code: ErrorCode | None) -> PartitionProduceResponse:
        replica, batch, header, guard, *_ = unverified
        if code is not None:
            version = self._produced.request.api_version
            raise verification_error(
                code, adds=self._adds, knows_abortable=version >= FIRST_VERSION_WITH_ABORTABLE
            )
        partition, required = _append(
            self._produced.context, replica, batch, header, self._acks, guard
        )
        if self._acks == ACKS_ALL and replica.log.high_watermark < required:
            self._produced.uncommitted.append((replica, required, partition))
            self._epochs.append(replica.leader_epoch)
        return partition

    def _fail_ended_epochs(self) -> None:
        """Fail the batches that were appended before in a leader epoch that has ended since: the
        watermark of a later one says nothing about them."""
        uncommitted = self._produced.uncommitted
        for place, epoch in reversed(list(enumerate(self._epochs))):
            partition = uncommitted[place]
            assert partition is not None
            if partition[0].leader_epoch != epoch:
                _set_error(partition[2], ErrorCode.NOT_LEADER_OR_FOLLOWER, "")
                del uncommitted[place]


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
