"""The requests of a transactional producer, each with one try on a connection to a coordinator.

With transaction version 2 (KIP-890) partitions and groups are added to the transaction by Produce
and TxnOffsetCommit themselves, and EndTxn returns the next epoch. The versions of requests that
brokers take for those of version 2 are not used with an older one.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from sawlog.client.admin.group_offsets import Committed, GroupMetadata
from sawlog.client.errors import kafka_error
from sawlog.client.net.connection import Connection
from sawlog.client.net.leader_requests import group_by_topic, partition_of
from sawlog.client.producer.sequence_numbers import ProducerIdentity
from sawlog.core.errors import KafkaError
from sawlog.core.ids import TopicPartition
from sawlog.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from sawlog.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from sawlog.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from sawlog.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from sawlog.protocol.messages.end_txn_request import EndTxnRequest
from sawlog.protocol.messages.end_txn_response import EndTxnResponse
from sawlog.protocol.messages.init_producer_id_request import InitProducerIdRequest
from sawlog.protocol.messages.init_producer_id_response import InitProducerIdResponse
from sawlog.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from sawlog.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse

FEATURE = "transaction.version"
LAST_PRODUCE_VERSION_1 = 11
_LAST_END_VERSION_1 = 4
_LAST_OFFSET_COMMIT_VERSION_1 = 4
_LAST_OFFSET_COMMIT_WITH_NAMES = 5
_LAST_ADD_PARTITIONS_OF_CLIENTS = 3  # later ones are for brokers
NO_IDENTITY = ProducerIdentity(-1, -1)


class OpenTransaction(NamedTuple):
    """What identifies a transaction to its coordinator."""

    transactional_id: str
    identity: ProducerIdentity
    has_version_2: bool


def has_version_2(connection: Connection) -> bool:
    return connection.finalized_feature(FEATURE) >= 2


def init_transactional_id(
    connection: Connection,
    transactional_id: str,
    timeout_ms: int,
    current: ProducerIdentity = NO_IDENTITY,
) -> ProducerIdentity:
    """Return a new identity: producers of the id before are fenced, an open transaction aborted.

    With `current` the epoch is only raised if that is still the identity (KIP-360).
    """
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=current.producer_id,
        producer_epoch=current.epoch,
    )
    response = connection.request(request, InitProducerIdResponse)
    if response.error_code:
        raise kafka_error(response.error_code, None)
    return ProducerIdentity(response.producer_id, response.producer_epoch)


def add_partitions(
    connection: Connection, transaction: OpenTransaction, partitions: Iterable[TopicPartition]
) -> None:
    """Add partitions to a transaction of version 1."""
    transactional_id, identity, _ = transaction
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=name, partitions=list(indexes))
            for name, indexes in group_by_topic(partitions).items()
        ],
    )
    response = connection.request(
        request, AddPartitionsToTxnResponse, highest_version=_LAST_ADD_PARTITIONS_OF_CLIENTS
    )
    _raise_first(
        (partition_of(topic.name, entry.partition_index), entry.partition_error_code)
        for topic in response.results_by_topic_v3_and_below
        for entry in topic.results_by_partition
    )


def add_group(connection: Connection, transaction: OpenTransaction, group: str) -> None:
    """Add the offsets of a group to a transaction of version 1."""
    transactional_id, identity, _ = transaction
    request = AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        group_id=group,
    )
    response = connection.request(request, AddOffsetsToTxnResponse)
    if response.error_code:
        raise kafka_error(response.error_code, None)


def commit_offsets_in(
    connection: Connection,
    transaction: OpenTransaction,
    group: GroupMetadata,
    offsets: Mapping[TopicPartition, int | Committed],
) -> None:
    """Commit offsets in the transaction; `connection` is to the coordinator of the group."""
    transactional_id, identity, is_version_2 = transaction
    member_id, epoch, instance_id = group.identity
    request = TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group.group,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[
                    _offset_to_commit(index, offsets[partition_of(name, index)])
                    for index in indexes
                ],
            )
            for name, indexes in group_by_topic(offsets).items()
        ],
    )
    highest = _LAST_OFFSET_COMMIT_WITH_NAMES if is_version_2 else _LAST_OFFSET_COMMIT_VERSION_1
    response = connection.request(request, TxnOffsetCommitResponse, highest_version=highest)
    _raise_first(
        (partition_of(topic.name, entry.partition_index), entry.error_code)
        for topic in response.topics
        for entry in topic.partitions
    )


def end_transaction(
    connection: Connection, transaction: OpenTransaction, *, commits: bool
) -> ProducerIdentity:
    """Commit or abort, and return the identity of the next transaction."""
    transactional_id, identity, is_version_2 = transaction
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        committed=commits,
    )
    highest = None if is_version_2 else _LAST_END_VERSION_1
    response = connection.request(request, EndTxnResponse, highest_version=highest)
    if response.error_code:
        raise kafka_error(response.error_code, None)
    if response.producer_id < 0:
        return identity
    return ProducerIdentity(response.producer_id, response.producer_epoch)


def _offset_to_commit(index: int, offset: int | Committed) -> TxnOffsetCommitRequestPartition:
    if isinstance(offset, int):
        return TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
    return TxnOffsetCommitRequestPartition(
        partition_index=index,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


def _raise_first(results: Iterator[tuple[TopicPartition, int]]) -> None:
    """Raise an error of the partitions: one that is not retriable rather than one that is."""
    errors: list[KafkaError] = []
    for partition, code in results:
        if code:
            error = kafka_error(code, None)
            # `transaction_error` adds the name of the code.
            text = "" if str(error) == error.code.name else f": {error}"
            errors.append(KafkaError(error.code, f"{partition}{text}"))
    if errors:
        raise min(errors, key=lambda error: error.is_retriable)
