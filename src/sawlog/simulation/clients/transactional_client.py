"""A simulated client that copies numbers in transactions, exactly once.

One life of the client: InitProducerId, then the committed offset of its group (only once no
transaction is pending on it), then one transaction after the other. Each has a few records in
partitions at random, and the next number as the offset of the group. Some are aborted; sometimes
the client crashes and begins another life at once, while requests of the old one are under way:
their producer epoch is fenced. A request without an answer is repeated, as by real clients.
"""

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from sawlog.core.errors import ErrorCode
from sawlog.core.ids import NodeId
from sawlog.protocol.compression import Codec
from sawlog.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from sawlog.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from sawlog.protocol.messages.end_txn_request import EndTxnRequest
from sawlog.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from sawlog.protocol.messages.init_producer_id_request import InitProducerIdRequest
from sawlog.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from sawlog.protocol.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from sawlog.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from sawlog.protocol.records import Record, build_batch
from sawlog.protocol.schema import Message
from sawlog.simulation.clients.cluster_client import RETRY_MS, ClusterClient
from sawlog.simulation.clients.producer_client import PRODUCE_TIMEOUT_MS
from sawlog.simulation.history.history import ACKS_ALL, Outcome, Write
from sawlog.simulation.history.transactions import (
    Transaction,
    TransactionHistory,
    number_of,
)

if TYPE_CHECKING:
    from sawlog.simulation.world.simulated_cluster import SimulatedCluster

GROUP_KEY, TRANSACTION_KEY = 0, 1
TRANSACTION_TIMEOUT_MS = 3_000
MAX_ATTEMPTS = 8
"""After as many attempts of one request the client begins another life."""
CRASH_SHARE, ABORT_SHARE = 0.08, 0.2

# The last versions of transaction version 1
PRODUCE_VERSION_1 = 11
_ADD_PARTITIONS_VERSION = 3  # later ones are for brokers
_OFFSET_COMMIT_VERSION = 4
_END_VERSION = 4

RETRIABLE = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)

CodeOf = Callable[[Any], int]
WithNode = Callable[[Callable[[NodeId | None], None]], None]


class TransactionalClient(ClusterClient):
    """The name of the client is also its transactional id and the name of its group.

    Invariants: only answers to requests of the present life count; `_sequences` has the next
    sequence number of each partition in the present producer epoch. A stopped client leaves its
    open transaction to the timeout, as one that is gone does.

    An older client speaks transaction version 1: it adds partitions and its group to the
    transaction itself, and keeps its producer epoch when a transaction ends.
    """

    def __init__(
        self,
        cluster: "SimulatedCluster",
        name: str,
        topic: str,
        seed: int,
        history: TransactionHistory,
        *,
        is_older: bool = False,
    ) -> None:
        super().__init__(cluster, name, topic, seed)
        self._is_older = is_older
        self._history = history
        self._life = 0
        self._reads_last_offset = False
        self._attempts = 0
        self._count = 0  # of transactions, to tell the attempts at one number apart
        self._coordinators: dict[int, NodeId] = {}
        self._producer_id = -1
        self._producer_epoch = -1
        self._sequences: dict[int, int] = defaultdict(int)
        self._next_number = 0
        self._transaction: Transaction | None = None
        self._unsent: list[list[Write]] = []

    def start(self) -> None:
        self.refresh(self._begin_life)

    # Requests

    def _ask(
        self,
        with_node: WithNode,
        request: Message,
        code_of: CodeOf,
        succeeded: Callable[[Any], None],
        older_version: int | None = None,
    ) -> None:
        """Send a request until it succeeds, as long as its errors can pass. `with_node` looks up
        the broker for each attempt; `older_version` is the highest that an older client knows."""
        life = self._life

        def answered(response: Any) -> None:
            if life != self._life:
                return
            code = None if response is None else code_of(response)
            if code == ErrorCode.NONE:
                self._attempts = 0
                succeeded(response)
            elif code is None or code in RETRIABLE:
                self._coordinators.clear()
                self._retry(attempt)
            else:
                self._begin_life_later()

        def send(node: NodeId | None) -> None:
            if node is None:
                self._retry(attempt)
            else:
                self.send(
                    node,
                    request,
                    answered,
                    purpose=f"life {life}",
                    highest_version=older_version if self._is_older else None,
                )

        def attempt() -> None:
            if life == self._life:
                with_node(send)

        attempt()

    def _retry(self, attempt: Callable[[], None]) -> None:
        """Look the leaders up again, then try again. A stopped client does not, but for its last
        offset."""
        self._attempts += 1
        if self.is_stopped and not self._reads_last_offset:
            return
        if self._attempts > MAX_ATTEMPTS and not self.is_stopped:
            self._begin_life_later()
        else:
            self.refresh(attempt)

    def _with_coordinator(self, kind: int, then: Callable[[NodeId | None], None]) -> None:
        """Call `then` with the coordinator of the group or of the transactional id, or with None if
        no broker tells it."""
        if kind in self._coordinators:
            then(self._coordinators[kind])
            return
        life = self._life

        def answered(response: Any) -> None:
            if life != self._life:
                return
            if response is not None and response.coordinators[0].error_code == ErrorCode.NONE:
                self._coordinators[kind] = NodeId(response.coordinators[0].node_id)
            then(self._coordinators.get(kind))

        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[self.name])
        self.send(self.any_node(), request, answered, purpose="coordinator")

    def _ask_coordinator(
        self,
        kind: int,
        request: Message,
        code_of: CodeOf,
        succeeded: Callable[[Any], None],
        older_version: int | None = None,
    ) -> None:
        with_node = partial(self._with_coordinator, kind)
        self._ask(with_node, request, code_of, succeeded, older_version)

    # A life

    def _begin_life_later(self) -> None:
        """Crash: answers to requests that are under way are ignored."""
        self._life += 1
        life = self._life
        self._transaction = None

        def begin() -> None:
            if life == self._life:
                self._begin_life()

        self.schedule.after(self.generator.choice((0, RETRY_MS)), begin)

    def _begin_life(self) -> None:
        if self.is_stopped:
            return
        self._attempts = 0
        self._coordinators.clear()
        request = InitProducerIdRequest(self.name, TRANSACTION_TIMEOUT_MS)
        self._ask_coordinator(TRANSACTION_KEY, request, _code, self._initialized)

    def _initialized(self, response: Any) -> None:
        self._use_epoch(response)
        self._read_offset(self._begin_transactions)

    def _use_epoch(self, response: Any) -> None:
        is_new = (self._producer_id, self._producer_epoch) != (
            response.producer_id,
            response.producer_epoch,
        )
        if is_new:
            self._producer_id, self._producer_epoch = response.producer_id, response.producer_epoch
            self._sequences.clear()

    def _read_offset(self, then: Callable[[int], None]) -> None:
        topics = [OffsetFetchRequestTopics(self.topic, self.topic_id, [0])]
        group = OffsetFetchRequestGroup(self.name, topics=topics)
        request = OffsetFetchRequest(groups=[group], require_stable=True)

        def told(response: Any) -> None:
            then(max(0, response.groups[0].topics[0].partitions[0].committed_offset))

        self._ask_coordinator(GROUP_KEY, request, _offset_code, told)

    def _begin_transactions(self, next_number: int) -> None:
        self._next_number = next_number
        self._begin_transaction()

    def read_last_offset(self) -> None:
        """After all faults have healed and the client was stopped: store its committed offset in
        the history."""
        self._life += 1
        self._reads_last_offset = True
        self._coordinators.clear()

        def told(offset: int) -> None:
            self._history.last_offsets[self.name] = offset

        self._read_offset(told)

    # A transaction

    def _begin_transaction(self) -> None:
        if self.is_stopped:
            return
        if not self.leaders:
            self.refresh(self._begin_transaction)
            return
        self._count += 1
        self._unsent = self._new_batches()
        writes = [write for batch in self._unsent for write in batch]
        self._transaction = Transaction(self.name, self._next_number, writes)
        self._history.transactions.append(self._transaction)
        self._history.reads.writes += writes
        if self._is_older:
            self._add_partitions()
        else:
            self._produce()

    def _new_batches(self) -> list[list[Write]]:
        """The batches of a transaction, each for one partition."""
        by_partition: dict[int, list[Write]] = {}
        for _ in range(self.generator.randrange(1, 5)):
            write = self._new_write(self.generator.choice(sorted(self.leaders)))
            by_partition.setdefault(write.partition, []).append(write)
        return list(by_partition.values())

    def _new_write(self, partition: int) -> Write:
        value = f"{self.name}:{self._next_number}:{self._count}".encode()
        now_ms = self.schedule.monotonic_ms()
        self._next_number += 1
        # No acknowledgement promises anything before that of the commit.
        return Write(self.name, partition, value, 1, True, now_ms, Outcome.FAILED, key=value)

    def _add_partitions(self) -> None:
        partitions = sorted({batch[0].partition for batch in self._unsent})
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(self.topic, partitions)],
        )
        self._ask_coordinator(
            TRANSACTION_KEY,
            request,
            _add_partitions_code,
            lambda _: self._produce(),
            _ADD_PARTITIONS_VERSION,
        )

    def _produce(self) -> None:
        """Send the batches and go on with the offset when all are acknowledged."""
        if not self._unsent:
            self._commit_offset()
            return
        batch = self._unsent.pop()
        partition = batch[0].partition
        sequence = self._sequences[partition]
        request = self._produce_request(batch, sequence)

        def appended(_: Any) -> None:
            self._sequences[partition] = sequence + len(batch)
            self._produce()

        self._ask(
            lambda then: then(self.leader_of(partition)),
            request,
            produce_code,
            appended,
            PRODUCE_VERSION_1,
        )
        if self.generator.random() < CRASH_SHARE:
            self._begin_life_later()  # while the request is under way

    def _produce_request(self, batch: list[Write], sequence: int) -> ProduceRequest:
        data = PartitionProduceData(batch[0].partition, self._encode(batch, sequence))
        topic = TopicProduceData(self.topic, self.topic_id, [data])
        return ProduceRequest(self.name, ACKS_ALL, PRODUCE_TIMEOUT_MS, [topic])

    def _encode(self, batch: list[Write], sequence: int) -> bytes:
        now_ms = self.schedule.now_ms()
        records = [
            Record(place, now_ms, write.key, write.value, ()) for place, write in enumerate(batch)
        ]
        return bytes(
            build_batch(
                records,
                codec=Codec.NONE,
                producer_id=self._producer_id,
                producer_epoch=self._producer_epoch,
                base_sequence=sequence,
                transactional=True,
            )
        )

    def _commit_offset(self) -> None:
        if not self._is_older:
            self._send_offset()
            return
        request = AddOffsetsToTxnRequest(
            self.name, self._producer_id, self._producer_epoch, self.name
        )
        self._ask_coordinator(TRANSACTION_KEY, request, _code, lambda _: self._send_offset())

    def _send_offset(self) -> None:
        assert self._transaction is not None
        partition = TxnOffsetCommitRequestPartition(0, self._transaction.next_number)
        request = TxnOffsetCommitRequest(
            self.name,
            self.name,
            self._producer_id,
            self._producer_epoch,
            topics=[TxnOffsetCommitRequestTopic(self.topic, self.topic_id, [partition])],
        )
        self._ask_coordinator(
            GROUP_KEY, request, _txn_offset_code, lambda _: self._end(), _OFFSET_COMMIT_VERSION
        )

    def _end(self) -> None:
        if self.generator.random() < CRASH_SHARE:
            self._begin_life_later()
            return
        transaction = self._transaction
        assert transaction is not None
        commits = self.generator.random() >= ABORT_SHARE
        if commits:
            self._set_outcome(transaction, Outcome.UNKNOWN)
        request = EndTxnRequest(self.name, self._producer_id, self._producer_epoch, commits)

        def ended(response: Any) -> None:
            if not self._is_older:
                self._use_epoch(response)
            transaction.ended_ms = self.schedule.monotonic_ms()
            if commits:
                self._set_outcome(transaction, Outcome.ACKNOWLEDGED)
            else:
                self._next_number = min(number_of(write.value) for write in transaction.writes)
            self.schedule.after(self.generator.choice((0, 5, 50)), self._begin_transaction)

        self._ask_coordinator(TRANSACTION_KEY, request, _code, ended, _END_VERSION)
        if self.generator.random() < CRASH_SHARE:
            self._begin_life_later()  # without knowing how the transaction ended

    def _set_outcome(self, transaction: Transaction, outcome: Outcome) -> None:
        transaction.outcome = outcome
        for write in transaction.writes:
            write.outcome = outcome
        self._cluster.trace.count(f"{transaction.writes[0].value!r} {outcome.value}")


def _code(response: Any) -> int:
    return int(response.error_code)


def _add_partitions_code(response: Any) -> int:
    """The error that is no OPERATION_NOT_ATTEMPTED, if there is one."""
    results = response.results_by_topic_v3_and_below[0].results_by_partition
    codes = {int(each.partition_error_code) for each in results}
    causes = codes - {int(ErrorCode.OPERATION_NOT_ATTEMPTED)}
    return max(causes or codes)


def produce_code(response: Any) -> int:
    return int(response.responses[0].partition_responses[0].error_code)


def _offset_code(response: Any) -> int:
    group = response.groups[0]
    return int(group.error_code or group.topics[0].partitions[0].error_code)


def _txn_offset_code(response: Any) -> int:
    return int(response.topics[0].partitions[0].error_code)
