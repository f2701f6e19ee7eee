"""The records of `__transaction_state`: one kind, with the transactional id as key."""

from typing import TYPE_CHECKING

from sawlog.coordinator.coordinator_records import Entry, RecordFormat
from sawlog.core.ids import PartitionIndex, ProducerId, TopicName, TopicPartition
from sawlog.protocol.messages.transaction_log_key import TransactionLogKey
from sawlog.protocol.messages.transaction_log_value import PartitionsSchema, TransactionLogValue
from sawlog.transactions.transaction import Transaction
from sawlog.transactions.transaction_state import TransactionState

if TYPE_CHECKING:
    from collections.abc import Iterable

TRANSACTION_RECORDS = RecordFormat((TransactionLogKey, TransactionLogValue))

VALUE_VERSION = 1
"""The first flexible version; Kafka writes it with transaction.version 1 and later."""


def by_topic(partitions: "Iterable[TopicPartition]") -> dict[str, list[int]]:
    """Group partitions by topic, both in order."""
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        found.setdefault(topic, []).append(partition)
    return found


def entry_of(transaction: Transaction) -> Entry:
    """The record of a transactional id; a tombstone if it is DEAD."""
    key = TransactionLogKey(transaction.transactional_id)
    if transaction.state is TransactionState.DEAD:
        return Entry(key, None)
    partitions = None  # as Kafka: null, not empty, before the first transaction
    if transaction.state is not TransactionState.EMPTY:
        partitions = [
            PartitionsSchema(topic, indexes)
            for topic, indexes in by_topic(transaction.partitions).items()
        ]
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state.value,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        client_transaction_version=transaction.client_version,
    )
    return Entry(key, value, VALUE_VERSION)


def transaction_of(key: TransactionLogKey, value: TransactionLogValue) -> Transaction:
    """The transaction that a record describes; ValueError if its state is unknown."""
    return Transaction(
        key.transactional_id,
        ProducerId(value.producer_id),
        value.producer_epoch,
        value.transaction_timeout_ms,
        TransactionState(value.transaction_status),
        frozenset(
            TopicPartition(TopicName(topic.topic), PartitionIndex(index))
            for topic in value.transaction_partitions or ()
            for index in topic.partition_ids
        ),
        value.transaction_start_timestamp_ms,
        value.transaction_last_update_timestamp_ms,
        ProducerId(value.previous_producer_id),
        ProducerId(value.next_producer_id),
        client_version=value.client_transaction_version,
    )
