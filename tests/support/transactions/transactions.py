"""A transaction machine without a disk: planned records are applied at once and kept encoded."""

from collections.abc import Iterable
from typing import TypeVar

from sawlog.coordinator.plan import Operation, Plan
from sawlog.core.config import BrokerConfig
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import PartitionIndex, ProducerId, TopicName, TopicPartition
from sawlog.transactions.context import TransactionContext
from sawlog.transactions.end_transaction import EndRequest
from sawlog.transactions.transaction import Producer, Transaction
from sawlog.transactions.transaction_machine import EndReply, InitReply, TransactionMachine
from sawlog.transactions.transaction_records import TRANSACTION_RECORDS
from sawlog.transactions.transaction_state import TransactionState

START_MS = 1_700_000_000_000
TIMEOUT_MS = 60_000
V1, V2 = 0, 2

R = TypeVar("R")


def partition(index: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(TopicName(topic), PartitionIndex(index))


class TransactionsWorld:
    """The machine with its clock, timers and markers; `sent` has the prepared transactions."""

    def __init__(self, **settings: str) -> None:
        self.config = BrokerConfig({n.replace("_", "."): v for n, v in settings.items()})
        self.ms = START_MS
        self.timers: dict[object, tuple[int, Operation]] = {}
        self.written: list[tuple[bytes, bytes | None]] = []
        self.sent: list[Transaction] = []
        self.is_cancelled = False
        self.next_id = 1000
        self.machine = TransactionMachine(TransactionContext(self, self, self.config, self))
        self.machine.activate()

    # Clock, timers and markers

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms

    def set(self, key: object, delay_ms: int, operation: Operation) -> None:
        self.timers[key] = (self.ms + delay_ms, operation)

    def is_set(self, key: object) -> bool:
        return key in self.timers

    def send(self, transaction: Transaction) -> None:
        self.sent.append(transaction)

    def cancel(self, key: object = None) -> None:
        if key is None:
            self.is_cancelled = True
        else:
            self.timers.pop(key, None)

    def pass_time(self, duration_ms: int) -> None:
        end = self.ms + duration_ms
        while due := [key for key, (when, _) in self.timers.items() if when <= end]:
            key = min(due, key=lambda each: self.timers[each][0])
            when, operation = self.timers.pop(key)
            self.ms = max(self.ms, when)
            self.run(operation())
        self.ms = end

    # Operations

    def run(self, plan: Plan[R]) -> R | None:
        """Carry out a plan as the runtime does."""
        for entry in plan.entries:
            self.written.append(TRANSACTION_RECORDS.encode(entry))
        if plan.apply is not None:
            plan.apply()
        if plan.on_committed is not None:
            plan.on_committed(None)
        return plan.reply

    def init(
        self,
        transactional_id: str = "x",
        *,
        expected: Producer | None = None,
        timeout_ms: int = TIMEOUT_MS,
    ) -> InitReply:
        plan = self.machine.init_producer_id(transactional_id, timeout_ms, expected)
        reply = self.run(plan)
        if reply is not None and reply.needs_producer_id:
            new = ProducerId(self.next_id)
            self.next_id += 1
            plan = self.machine.init_producer_id(transactional_id, timeout_ms, expected, new)
            reply = self.run(plan)
        assert reply is not None
        return reply

    def add(
        self, producer: Producer, *indexes: int, version: int = V2, transactional_id: str = "x"
    ) -> ErrorCode:
        partitions = [partition(index) for index in indexes]
        try:
            plan = self.machine.add_partitions(transactional_id, producer, partitions, version)
            return self.run(plan) or ErrorCode.NONE
        except KafkaError as error:
            return error.code

    def verify(self, producer: Producer, *indexes: int) -> list[ErrorCode] | ErrorCode:
        partitions = [partition(index) for index in indexes]
        try:
            found = self.run(self.machine.verify_partitions("x", producer, partitions))
        except KafkaError as error:
            return error.code
        assert found is not None
        return [found[each] for each in partitions]

    def end(
        self, producer: Producer, *, is_commit: bool = True, version: int = V2
    ) -> Producer | ErrorCode:
        request = EndRequest(producer, is_commit, version)
        try:
            reply: EndReply | None = self.run(self.machine.end("x", request))
            if reply is not None and reply.needs_producer_id:
                new = ProducerId(self.next_id)
                self.next_id += 1
                reply = self.run(self.machine.end("x", request, new))
        except KafkaError as error:
            return error.code
        assert reply is not None
        return reply.producer

    def write_markers(self) -> None:
        """Report all markers as written."""
        sent, self.sent = self.sent, []
        for transaction in sent:
            self.machine.markers_written(transaction.transactional_id, transaction.producer)
        self.pass_time(1)

    def put(self, transaction: Transaction) -> None:
        """Set the state of a transactional id."""
        self.machine.transactions[transaction.transactional_id] = transaction

    @property
    def transaction(self) -> Transaction:
        return self.machine.transactions["x"]

    @property
    def state(self) -> TransactionState:
        return self.transaction.state

    def rebuilt(self) -> TransactionMachine:
        """A machine that has replayed the last record of each key, as after a restart."""
        return rebuilt(self, self.written)


def rebuilt(
    world: TransactionsWorld, records: Iterable[tuple[bytes, bytes | None]]
) -> TransactionMachine:
    machine = TransactionMachine(TransactionContext(world, world, world.config, world))
    last = dict(records)
    for key, value in last.items():
        if value is not None:
            machine.replay(TRANSACTION_RECORDS.decode(key, value))
    return machine
