"""Adds partitions to transactions, or verifies that they were added, before a leader appends.

Kafka's AddPartitionsToTxnManager (KIP-890). Clients with transaction.version 2 do not add
partitions: the leader does, with the first batch. Older clients do; the leader only asks. The
coordinator may be this broker or another one; requests for one broker are sent one at a time, and
those that come meanwhile go together with the next.
"""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import PartitionIndex, ProducerId, TopicName, TopicPartition
from sawlog.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from sawlog.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from sawlog.transactions.transaction import FIRST_VERSION_WITH_EPOCH_BUMP, Producer
from sawlog.transactions.transaction_records import by_topic

if TYPE_CHECKING:
    from sawlog.broker.peer_connections import PeerConnections
    from sawlog.broker.transaction_coordinator import TransactionCoordinator
    from sawlog.core.config import BrokerConfig
    from sawlog.core.ids import NodeId
    from sawlog.core.ports import Timer
    from sawlog.protocol.peers import PeerError
    from sawlog.protocol.schema import Message

logger = EventLogger(__name__)

OnVerified = Callable[[Mapping[TopicPartition, ErrorCode]], None]
"""Called once with the partitions that cannot be appended to, each with its error."""

Unverified = Callable[[], Collection[TopicPartition]]
"""Called when the question's turn comes: appends to the partitions in which earlier requests have
begun the transaction meanwhile, and returns the others. If it appended later, new requests for the
former, which are not verified any more, would overtake it."""

_UNAVAILABLE = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


class _Question(NamedTuple):
    transactional_id: str
    producer: Producer
    partitions: tuple[TopicPartition, ...]
    adds: bool
    done: OnVerified
    unverified: Unverified


class TransactionVerifier:
    """Invariants: a transactional id has at most one question under way; `_lines` has those that
    follow, so that a producer's batches are appended in the order of its requests. At most one
    request is under way to each broker; `_waiting` has the questions that go with the next one."""

    def __init__(
        self,
        node_id: "NodeId",
        config: "BrokerConfig",
        coordinator: "TransactionCoordinator",
        connections: "PeerConnections",
        timer: "Timer",
        *,
        timeout_ms: int,
    ) -> None:
        self._node_id = node_id
        self._config = config
        self._coordinator = coordinator
        self._connections = connections
        self._timer = timer
        self._timeout_ms = timeout_ms
        self._lines: dict[str, list[_Question]] = {}
        self._waiting: dict[NodeId, list[_Question]] = {}
        self._under_way: set[NodeId] = set()

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        unverified: Unverified,
        *,
        adds: bool,
        done: OnVerified,
    ) -> None:
        """Add the partitions to the producer's transaction, or verify that they were added. While
        the previous transaction is being completed, adding is repeated for a short time."""
        producer = Producer(ProducerId(producer_id), producer_epoch)
        question = _Question(transactional_id, producer, (), adds, done, unverified)
        line = self._lines.get(transactional_id)
        if line is None:
            self._lines[transactional_id] = [question]
            self._begin_next(transactional_id)
        else:
            line.append(question)

    def close(self) -> None:
        """Disconnect: questions under way are answered with NETWORK_EXCEPTION."""
        self._connections.close()

    def _begin(self, question: _Question) -> None:
        def answered(errors: Mapping[TopicPartition, ErrorCode]) -> None:
            try:
                question.done(errors)
            finally:  # a bug must not keep the transactional id from being verified again
                self._begin_next(question.transactional_id)

        retries = 0
        if question.adds:
            backoff_ms: int = self._config["add.partitions.to.txn.retry.backoff.ms"]
            limit_ms: int = self._config["add.partitions.to.txn.retry.backoff.max.ms"]
            retries = limit_ms // backoff_ms
        self._ask_again(question._replace(done=answered), retries)

    def _begin_next(self, transactional_id: str) -> None:
        """Begin with the questions of a transactional id that have waited; those that are alike
        become one."""
        line = self._lines[transactional_id]
        waiting: list[_Question] = []
        verified: list[_Question] = []
        for question in line.copy():
            partitions = tuple(question.unverified())
            group = waiting if partitions else verified
            group.append(question._replace(partitions=partitions))
        del line[: len(waiting) + len(verified)]  # more may have come meanwhile
        if not waiting and not line:
            del self._lines[transactional_id]
        for question in verified:
            question.done({})
        if not waiting:
            if line:
                self._begin_next(transactional_id)
            return
        first = waiting[0]
        alike = [q for q in waiting if (q.producer, q.adds) == (first.producer, first.adds)]
        line[:0] = [q for q in waiting if (q.producer, q.adds) != (first.producer, first.adds)]

        def answered(errors: Mapping[TopicPartition, ErrorCode]) -> None:
            for each in alike:
                each.done({name: code for name, code in errors.items() if name in each.partitions})

        names = dict.fromkeys(name for each in alike for name in each.partitions)
        self._begin(first._replace(partitions=tuple(names), done=answered))

    def _ask_again(self, question: _Question, retries: int) -> None:
        """Ask, and repeat it after CONCURRENT_TRANSACTIONS."""

        def answered(errors: Mapping[TopicPartition, ErrorCode]) -> None:
            if retries and ErrorCode.CONCURRENT_TRANSACTIONS in errors.values():
                backoff_ms: int = self._config["add.partitions.to.txn.retry.backoff.ms"]
                self._timer.after(backoff_ms, partial(self._ask_again, question, retries - 1))
            else:
                question.done(errors)

        self._ask(question._replace(done=answered))

    def _ask(self, question: _Question) -> None:
        try:
            node = self._coordinator.coordinator_of(question.transactional_id)
        except KafkaError as error:
            _answer_all(question, error.code)
            return
        if node == self._node_id:
            self._ask_here(question)
        else:
            self._waiting.setdefault(node, []).append(question)
            self._send_waiting(node)

    def _ask_here(self, question: _Question) -> None:
        transactional_id, producer, partitions, adds, done, _ = question

        def refuse(error: KafkaError) -> None:
            _answer_all(question, error.code)

        if adds:
            self._coordinator.ask(
                transactional_id,
                lambda machine: machine.add_partitions(
                    transactional_id, producer, partitions, FIRST_VERSION_WITH_EPOCH_BUMP
                ),
                lambda _: done({}),
                refuse,
            )
        else:
            self._coordinator.ask(
                transactional_id,
                lambda machine: machine.verify_partitions(transactional_id, producer, partitions),
                lambda found: done(_failures(found)),
                refuse,
            )

    # Other brokers

    def _send_waiting(self, node: "NodeId") -> None:
        if node in self._under_way or node not in self._waiting:
            return
        questions = {each.transactional_id: each for each in self._waiting.pop(node)}
        connection = self._connections.to(node)
        if connection is None:
            for question in questions.values():
                _answer_all(question, ErrorCode.NETWORK_EXCEPTION)
            return
        self._under_way.add(node)
        connection.send(
            AddPartitionsToTxnRequest([_request_of(each) for each in questions.values()]),
            partial(self._received, node, questions),
            timeout_ms=self._timeout_ms,
        )

    def _received(
        self, node: "NodeId", questions: dict[str, _Question], response: "Message | PeerError"
    ) -> None:
        self._under_way.discard(node)
        if not isinstance(response, AddPartitionsToTxnResponse):
            logger.info("transactions not verified", node=node, reason=str(response))
            for question in questions.values():
                _answer_all(question, ErrorCode.NETWORK_EXCEPTION)
        elif response.error_code:
            for question in questions.values():
                _answer_all(question, _code(response.error_code))
        else:
            for result in response.results_by_transaction:
                answered = questions.pop(result.transactional_id, None)
                if answered is not None:
                    answered.done(
                        _failures(
                            {
                                TopicPartition(
                                    TopicName(topic.name), PartitionIndex(each.partition_index)
                                ): _code(each.partition_error_code)
                                for topic in result.topic_results
                                for each in topic.results_by_partition
                            }
                        )
                    )
            for question in questions.values():
                _answer_all(question, ErrorCode.NETWORK_EXCEPTION)
        self._send_waiting(node)


def verification_error(code: ErrorCode, *, adds: bool, knows_abortable: bool) -> KafkaError:
    """The error that a client of Produce or TxnOffsetCommit gets for a failed verification.
    `knows_abortable`: the request's version has TRANSACTION_ABORTABLE."""
    if code is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        code = ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.INVALID_TXN_STATE:
        return KafkaError(code, "Partition was not added to the transaction")
    if code in _UNAVAILABLE or (code is ErrorCode.CONCURRENT_TRANSACTIONS and not adds):
        # Clients retry NOT_ENOUGH_REPLICAS without a metadata request; older ones know no other.
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            "Unable to verify the partition has been added to the transaction. Underlying error: "
            f"{code.name}",
        )
    return KafkaError(code)


def _request_of(question: _Question) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        question.transactional_id,
        question.producer.id,
        question.producer.epoch,
        not question.adds,
        [
            AddPartitionsToTxnTopic(topic, indexes)
            for topic, indexes in by_topic(question.partitions).items()
        ],
    )


def _failures(found: Mapping[TopicPartition, ErrorCode]) -> dict[TopicPartition, ErrorCode]:
    """Only the errors. Producers know PRODUCER_FENCED as INVALID_PRODUCER_EPOCH here."""
    return {
        partition: _client_code(code)
        for partition, code in found.items()
        if code is not ErrorCode.NONE
    }


def _answer_all(question: _Question, code: ErrorCode) -> None:
    question.done(dict.fromkeys(question.partitions, _client_code(code)))


def _client_code(code: ErrorCode) -> ErrorCode:
    return ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED else code


def _code(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
