"""A transactional producer that sends its requests one by one to a simulated broker."""

from collections.abc import Iterable
from typing import Any, Protocol

from sawlog.core.errors import ErrorCode
from sawlog.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from sawlog.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from sawlog.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from sawlog.protocol.messages.end_txn_request import EndTxnRequest
from sawlog.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from sawlog.protocol.messages.init_producer_id_request import InitProducerIdRequest
from sawlog.protocol.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from sawlog.protocol.record_batch import batches_in
from sawlog.protocol.records import Record, build_batch
from sawlog.protocol.schema import Message
from sawlog.simulation.schedule import Schedule
from sawlog.simulation.simulated_broker import Call, SimulatedMachine
from support.broker.requests import NAMED, TOPIC, machine_with_topic

TIMEOUT_MS = 60_000
TRANSACTION_KEYS = 1
OLD_PRODUCE, OLD_END, OLD_ADD = 11, 4, 3
"""The versions of clients without transaction.version 2."""


class Machine(Protocol):
    """A broker or a cluster that takes requests."""

    @property
    def schedule(self) -> Schedule: ...

    def send(self, message: Message, version: int | None = None) -> Call: ...

    def ask(self, message: Message, version: int | None = None) -> Any: ...


def machine_with_coordinator(partitions: int = 2, **settings: str) -> SimulatedMachine:
    """A machine with the topic `t` and a coordinator of transactions."""
    settings.setdefault("transaction_state_log_num_partitions", "1")
    settings.setdefault("transaction_abort_timed_out_transaction_cleanup_interval_ms", "100")
    machine = machine_with_topic(partitions, **settings)
    machine.ask(FindCoordinatorRequest(key_type=TRANSACTION_KEYS, coordinator_keys=["x"]))
    machine.schedule.run_for(200)
    return machine


class TransactionalProducer:
    """Knows its producer id, epoch and sequences; `is_old`: without transaction.version 2."""

    def __init__(
        self, machine: "Machine", transactional_id: str = "x", *, is_old: bool = False
    ) -> None:
        self.machine = machine
        self.id = transactional_id
        self.is_old = is_old
        self.producer_id = -1
        self.epoch = -1
        self._sequences: dict[int, int] = {}

    def init(self, *, timeout_ms: int = TIMEOUT_MS) -> ErrorCode:
        answer = self.machine.ask(InitProducerIdRequest(self.id, timeout_ms))
        if answer.error_code == 0:
            self._become(answer.producer_id, answer.producer_epoch)
        return ErrorCode(answer.error_code)

    def _become(self, producer_id: int, epoch: int) -> None:
        self.producer_id, self.epoch = producer_id, epoch
        self._sequences.clear()

    def request(self, *values: tuple[int, bytes], acks: int = -1) -> ProduceRequest:
        """A Produce request with one record for each (partition, value)."""
        data = []
        for index, value in values:
            sequence = self._sequences.get(index, 0)
            self._sequences[index] = sequence + 1
            batch = build_batch(
                [Record(0, self.machine.schedule.now_ms(), b"k", value)],
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                base_sequence=sequence,
                transactional=True,
            )
            data.append(PartitionProduceData(index, bytes(batch)))
        return ProduceRequest(self.id, acks, 30_000, [TopicProduceData(TOPIC, partition_data=data)])

    def send(self, *values: tuple[int, bytes]) -> Call:
        return self.machine.send(self.request(*values), self.produce_version)

    def produce(self, *values: tuple[int, bytes]) -> list[ErrorCode]:
        answer = self.machine.ask(self.request(*values), self.produce_version)
        return codes(answer)

    @property
    def produce_version(self) -> int:
        return OLD_PRODUCE if self.is_old else NAMED

    def add(self, indexes: Iterable[int], topic: str = TOPIC) -> list[ErrorCode]:
        message = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(topic, list(indexes))],
        )
        answer = self.machine.ask(message, OLD_ADD)
        return [
            ErrorCode(each.partition_error_code)
            for found in answer.results_by_topic_v3_and_below
            for each in found.results_by_partition
        ]

    def add_offsets(self, group_id: str) -> ErrorCode:
        message = AddOffsetsToTxnRequest(self.id, self.producer_id, self.epoch, group_id)
        return ErrorCode(self.machine.ask(message).error_code)

    def end(self, *, is_commit: bool = True) -> ErrorCode:
        message = EndTxnRequest(self.id, self.producer_id, self.epoch, is_commit)
        answer = self.machine.ask(message, OLD_END if self.is_old else None)
        if answer.error_code == 0 and not self.is_old:
            self._become(answer.producer_id, answer.producer_epoch)
        return ErrorCode(answer.error_code)

    def describe(self) -> Any:
        [found] = self.machine.ask(DescribeTransactionsRequest([self.id])).transaction_states
        return found


def codes(response: Any) -> list[ErrorCode]:
    """The error code of each partition of a Produce response."""
    return [
        ErrorCode(partition.error_code)
        for topic in response.responses
        for partition in topic.partition_responses
    ]


def batches(machine: SimulatedMachine, index: int = 0) -> list[tuple[int, int, bool]]:
    """Producer id, epoch and whether it is a marker, for each batch of a partition of `t`."""
    log = machine.broker.replicas.by_partition[TOPIC, index].log
    found = log.read(0, 1 << 20, limit_offset=log.end_offset, whole_first_batch=True)
    data = b"" if found is None else found.read()
    return [
        (header.producer_id, header.producer_epoch, header.is_control)
        for _, header in batches_in(data)
    ]


def stable_offset(machine: SimulatedMachine, index: int = 0) -> int:
    return machine.broker.replicas.by_partition[TOPIC, index].last_stable_offset
