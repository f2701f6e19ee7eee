"""TxnOffsetCommit 0 to 6: offsets that a producer commits in its transaction.

The offsets are pending until the transaction coordinator writes its marker (KIP-98). The producer
may name a member of the group from version 3 (KIP-447). Up to version 4 it has added the partition
of `__consumer_offsets` with AddOffsetsToTxn, and the broker verifies that; from version 5 the
broker adds it (KIP-890). Topics have ids from version 6.
"""

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol

from sawlog.broker.api.group_offsets import existing_topics, merged_topics, uncommitted_topic
from sawlog.coordinator.plan import ProducerIdentity
from sawlog.coordinator.runtime import coordinator_error
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import ProducerId
from sawlog.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from sawlog.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from sawlog.broker.group_coordinator import GroupCoordinator
    from sawlog.broker.metadata_cache import MetadataCache
    from sawlog.broker.request import Request
    from sawlog.broker.transaction_verification import TransactionVerifier
    from sawlog.coordinator.runtime import Refuse
    from sawlog.core.config_dynamic import DynamicBrokerConfig
    from sawlog.core.ids import TopicPartition
    from sawlog.protocol.messages.offset_commit_response import (
        OffsetCommitResponse,
        OffsetCommitResponseTopic,
    )
    from sawlog.protocol.messages.txn_offset_commit_request import (
        TxnOffsetCommitRequest,
        TxnOffsetCommitRequestTopic,
    )

    class TxnOffsetCommitContext(Protocol):
        config: DynamicBrokerConfig
        metadata: MetadataCache
        groups: GroupCoordinator
        verifier: TransactionVerifier


FIRST_VERSION_WITH_LOAD_ERROR = 2
"""Older producers fail at COORDINATOR_LOAD_IN_PROGRESS instead of retrying (KAFKA-7296)."""

FIRST_VERSION_WITH_ABORTABLE = 4
FIRST_VERSION_THAT_ADDS_PARTITIONS = 5
FIRST_VERSION_WITH_TOPIC_IDS = 6


def txn_offset_commit(
    context: "TxnOffsetCommitContext", request: "Request", message: "TxnOffsetCommitRequest"
) -> TxnOffsetCommitResponse | None:
    """Commit the offsets of existing partitions; the others get an error. A request with no
    existing partition does not reach its group, as in Kafka."""
    version = request.api_version
    refused: list[OffsetCommitResponseTopic] = []
    existing = existing_topics(
        context.metadata,
        [_commit_topic(topic) for topic in message.topics],
        refused,
        by_id=version >= FIRST_VERSION_WITH_TOPIC_IDS,
    )
    if not existing:
        return _response(refused)
    commit = OffsetCommitRequest(
        message.group_id,
        message.generation_id_or_member_epoch,
        message.member_id,
        message.group_instance_id,
        topics=existing,
    )

    def answer(response: "OffsetCommitResponse") -> None:
        request.reply(_response(merged_topics(refused, response.topics)))

    def refuse(error: KafkaError) -> None:
        code = error.code
        if (
            code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            and version < FIRST_VERSION_WITH_LOAD_ERROR
        ):
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        topics = [uncommitted_topic(topic, int(code)) for topic in existing]
        request.reply(_response(merged_topics(refused, topics)))

    producer = ProducerIdentity(
        message.transactional_id, ProducerId(message.producer_id), message.producer_epoch
    )
    try:
        _verify_and_commit(context, version, commit, producer, answer, refuse)
    except KafkaError as error:
        refuse(error)
    return None


def _verify_and_commit(
    context: "TxnOffsetCommitContext",
    version: int,
    commit: OffsetCommitRequest,
    producer: ProducerIdentity,
    answer: "Callable[[OffsetCommitResponse], None]",
    refuse: "Refuse",
) -> None:
    """Commit when the transaction coordinator has confirmed that the group's partition belongs to
    the transaction; at once if the transaction has been written to already."""
    if not commit.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    if not producer.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The transactional id is empty.")
    adds = version >= FIRST_VERSION_THAT_ADDS_PARTITIONS
    runtime = context.groups.runtime_of(commit.group_id)
    begin = partial(runtime.begin_verification, producer, supports_epoch_bump=adds)
    guard = begin()
    operation = partial(runtime.machine.offset_requests.commit_in_transaction, commit, producer)

    def unverified() -> "Collection[TopicPartition]":
        nonlocal guard
        with suppress(KafkaError):  # which `runtime.run` raises again
            guard = begin()
        return () if guard is None else (runtime.name,)

    def verified(errors: "Mapping[TopicPartition, ErrorCode]") -> None:
        code = errors.get(runtime.name)
        if code is None:
            runtime.run(operation, answer, refuse, guard)
        else:
            refuse(_verification_error(code, version))

    if guard is None or not (adds or context.config["transaction.partition.verification.enable"]):
        verified({})
        return
    context.verifier.verify(
        producer.transactional_id,
        producer.producer_id,
        producer.producer_epoch,
        unverified,
        adds=adds,
        done=verified,
    )


def _verification_error(code: ErrorCode, version: int) -> KafkaError:
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < FIRST_VERSION_WITH_ABORTABLE:
        return KafkaError(ErrorCode.INVALID_TXN_STATE)
    return coordinator_error(KafkaError(code))


def _commit_topic(topic: "TxnOffsetCommitRequestTopic") -> OffsetCommitRequestTopic:
    return OffsetCommitRequestTopic(
        topic.name,
        topic.topic_id,
        [
            OffsetCommitRequestPartition(
                partition.partition_index,
                partition.committed_offset,
                partition.committed_leader_epoch,
                partition.committed_metadata,
            )
            for partition in topic.partitions
        ],
    )


def _response(topics: "list[OffsetCommitResponseTopic]") -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [
                    TxnOffsetCommitResponsePartition(
                        partition.partition_index, partition.error_code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in topics
        ]
    )
