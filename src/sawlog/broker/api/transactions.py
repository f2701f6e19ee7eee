"""AddPartitionsToTxn 0 to 5, AddOffsetsToTxn 0 to 4, EndTxn 0 to 5: the steps of a transaction.

AddPartitionsToTxn comes from clients up to version 3, for one transaction; from version 4 on from
brokers, for several, to add partitions or only to verify them (KIP-890). Clients with
transaction.version 2 send neither it nor AddOffsetsToTxn, and EndTxn from version 5, whose response
has the producer id and epoch of the next transaction. PRODUCER_FENCED is INVALID_PRODUCER_EPOCH
before version 2 (KIP-588).
"""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

from sawlog.broker.gather_replies import gather
from sawlog.cluster.internal_topics import CONSUMER_OFFSETS
from sawlog.coordinator.partition_for import partition_for
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import PartitionIndex, ProducerId, TopicName, TopicPartition
from sawlog.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from sawlog.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnTransaction
from sawlog.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from sawlog.protocol.messages.end_txn_response import EndTxnResponse
from sawlog.transactions.end_transaction import EndRequest
from sawlog.transactions.transaction import FIRST_VERSION_WITH_EPOCH_BUMP, NO_PRODUCER, Producer

if TYPE_CHECKING:
    from sawlog.broker.gather_replies import Reply
    from sawlog.broker.metadata_cache import MetadataCache
    from sawlog.broker.request import Request
    from sawlog.broker.transaction_coordinator import TransactionCoordinator
    from sawlog.core.config_dynamic import DynamicBrokerConfig
    from sawlog.core.ports import Timer
    from sawlog.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
    from sawlog.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
    from sawlog.protocol.messages.end_txn_request import EndTxnRequest
    from sawlog.transactions.transaction_machine import EndReply

    class TransactionsContext(Protocol):
        config: DynamicBrokerConfig
        metadata: MetadataCache
        transactions: TransactionCoordinator
        timer: Timer


FIRST_VERSION_WITH_TRANSACTIONS = 4
FIRST_VERSION_WITH_PRODUCER_FENCED = 2
FIRST_END_VERSION_WITH_EPOCH_BUMP = 5
OLDEST_VERSION = 0
"""The transaction.version of clients that do not tell theirs."""


# AddPartitionsToTxn


def add_partitions_to_txn(
    context: "TransactionsContext", request: "Request", message: "AddPartitionsToTxnRequest"
) -> None:
    version = request.api_version
    if version >= FIRST_VERSION_WITH_TRANSACTIONS:

        def reply(results: list[AddPartitionsToTxnResult]) -> None:
            request.reply(AddPartitionsToTxnResponse(results_by_transaction=results))

        queries = [partial(_add, context, version, each) for each in message.transactions]
        gather(queries, reply, context.timer)
        return

    def reply_for_one(result: AddPartitionsToTxnResult) -> None:
        topics = result.topic_results
        request.reply(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics))

    transaction = AddPartitionsToTxnTransaction(
        message.v3_and_below_transactional_id,
        message.v3_and_below_producer_id,
        message.v3_and_below_producer_epoch,
        topics=message.v3_and_below_topics,
    )
    _add(context, version, transaction, reply_for_one)


def _add(
    context: "TransactionsContext",
    version: int,
    wanted: AddPartitionsToTxnTransaction,
    reply: "Reply[AddPartitionsToTxnResult]",
) -> None:
    """Add or verify the partitions of one transaction; all or none."""
    name = wanted.transactional_id
    partitions = [
        TopicPartition(TopicName(topic.name), PartitionIndex(index))
        for topic in wanted.topics
        for index in topic.partitions
    ]
    image = context.metadata.image
    missing = {each for each in partitions if image.partition(*each) is None}
    if missing:
        codes = {
            each: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if each in missing
            else ErrorCode.OPERATION_NOT_ATTEMPTED
            for each in partitions
        }
        reply(_result(wanted, codes))
        return

    def refuse(error: KafkaError) -> None:
        reply(_result(wanted, dict.fromkeys(partitions, _code_in(version, error.code))))

    if not name:
        refuse(KafkaError(ErrorCode.INVALID_REQUEST))
        return
    producer = Producer(ProducerId(wanted.producer_id), wanted.producer_epoch)
    if wanted.verify_only:
        context.transactions.ask(
            name,
            lambda machine: machine.verify_partitions(name, producer, partitions),
            lambda codes: reply(_result(wanted, codes)),
            refuse,
        )
        return
    is_from_broker = version >= FIRST_VERSION_WITH_TRANSACTIONS
    client_version = FIRST_VERSION_WITH_EPOCH_BUMP if is_from_broker else OLDEST_VERSION
    context.transactions.ask(
        name,
        lambda machine: machine.add_partitions(name, producer, partitions, client_version),
        lambda code: reply(_result(wanted, dict.fromkeys(partitions, code))),
        refuse,
    )


def _result(
    wanted: AddPartitionsToTxnTransaction, codes: Mapping[TopicPartition, ErrorCode]
) -> AddPartitionsToTxnResult:
    """The result for each partition; as in Kafka, a verification leaves out topics without any."""
    topics = {
        each.name: AddPartitionsToTxnTopicResult(each.name)
        for each in wanted.topics
        if each.partitions or not wanted.verify_only
    }
    for (topic, index), code in codes.items():
        result = AddPartitionsToTxnPartitionResult(index, int(code))
        topics[topic].results_by_partition.append(result)
    return AddPartitionsToTxnResult(wanted.transactional_id, list(topics.values()))


def _code_in(version: int, code: ErrorCode) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED and version < FIRST_VERSION_WITH_PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


# AddOffsetsToTxn


def add_offsets_to_txn(
    context: "TransactionsContext", request: "Request", message: "AddOffsetsToTxnRequest"
) -> AddOffsetsToTxnResponse | None:
    """Add the group's partition of `__consumer_offsets` to the transaction."""

    def reply(code: ErrorCode) -> None:
        code = _code_in(request.api_version, code)
        request.reply(AddOffsetsToTxnResponse(error_code=int(code)))

    name = message.transactional_id
    if not name:
        return AddOffsetsToTxnResponse(error_code=int(ErrorCode.INVALID_REQUEST))
    producer = Producer(ProducerId(message.producer_id), message.producer_epoch)
    partitions = (_partition_of_group(context, message.group_id),)
    context.transactions.ask(
        name,
        lambda machine: machine.add_partitions(name, producer, partitions, OLDEST_VERSION),
        reply,
        lambda error: reply(error.code),
    )
    return None


def _partition_of_group(context: "TransactionsContext", group_id: str) -> TopicPartition:
    topic = context.metadata.image.topics.get(CONSUMER_OFFSETS.name)
    count = context.config[CONSUMER_OFFSETS.partitions_key]
    if topic is not None:
        count = len(topic.partitions)
    return TopicPartition(CONSUMER_OFFSETS.name, PartitionIndex(partition_for(group_id, count)))


# EndTxn


def end_txn(
    context: "TransactionsContext", request: "Request", message: "EndTxnRequest"
) -> EndTxnResponse | None:
    version = request.api_version

    def reply(code: ErrorCode, producer: Producer = NO_PRODUCER) -> None:
        code = _code_in(version, code)
        request.reply(
            EndTxnResponse(
                error_code=int(code), producer_id=producer.id, producer_epoch=producer.epoch
            )
        )

    def answer(ended: "EndReply") -> None:
        reply(ErrorCode.NONE, ended.producer)

    if not message.transactional_id:
        return EndTxnResponse(error_code=int(ErrorCode.INVALID_REQUEST))
    bumps_epoch = version >= FIRST_END_VERSION_WITH_EPOCH_BUMP
    context.transactions.end(
        message.transactional_id,
        EndRequest(
            Producer(ProducerId(message.producer_id), message.producer_epoch),
            message.committed,
            FIRST_VERSION_WITH_EPOCH_BUMP if bumps_epoch else OLDEST_VERSION,
        ),
        answer,
        lambda error: reply(error.code),
    )
    return None
