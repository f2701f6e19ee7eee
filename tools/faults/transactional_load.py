"""Transactional clients of librdkafka under load: they copy numbers exactly once, as the clients of
the simulator do (`sawlog.simulation.clients.transactional_client`), and a consumer reads them with
read_committed. Their observations go through the simulator's checks of transactions.
"""

import contextlib
import random
import threading
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from sawlog.simulation.history.checks import check_history
from sawlog.simulation.history.history import Outcome, Poll, Write
from sawlog.simulation.history.transactions import (
    Transaction,
    TransactionHistory,
    check_transactions,
)
from tools.faults.load import GUARD_S, PRODUCER, QUICK, create_topic, end_offset, record_of
from tools.faults.process import wait_for

TOPIC = "transfers"
END_OF_PARTITION = KafkaError._PARTITION_EOF  # noqa: SLF001 - the name that librdkafka gives it
TIMEOUT_MS = 20_000
STEP_S = 10.0
"""How long one call of the client may take; after that the client begins another life."""
IDLE_MS = 2_000
"""Idle connections are closed soon, because a closed connection makes librdkafka look for the group
coordinator again. Without that, `send_offsets_to_transaction` waits for a coordinator that has left
the cluster, whatever its timeout is (librdkafka issues 5511 and 5456)."""
ABORT_SHARE, CRASH_SHARE = 0.2, 0.05


class TransactionalLoad:
    """`clients` threads that copy numbers until `stop`; `check` judges what all of them saw."""

    def __init__(self, bootstrap: str, partitions: int, clients: int, seed: int = 0) -> None:
        self.topic = TOPIC
        self.partitions = partitions
        self.history = TransactionHistory()
        self._bootstrap = bootstrap
        self._is_over = threading.Event()
        create_topic(bootstrap, TOPIC, partitions)
        self._names = [f"copier-{number}" for number in range(clients)]
        tasks = [(self._copy, name, random.Random(f"{seed} {name}")) for name in self._names]
        self._threads = [
            threading.Thread(target=task, args=rest, daemon=True) for task, *rest in tasks
        ]
        self._threads.append(threading.Thread(target=self._consume, daemon=True))
        for thread in self._threads:
            thread.start()

    # Copying

    def _copy(self, name: str, generator: random.Random) -> None:
        while not self._is_over.is_set():
            with contextlib.suppress(KafkaException):
                self._live(name, generator)

    def _live(self, name: str, generator: random.Random) -> None:
        """Copy from the committed offset on, until a crash; KafkaException ends a life too."""
        settings = PRODUCER | {"transactional.id": name, "transaction.timeout.ms": TIMEOUT_MS}
        settings |= {"message.timeout.ms": TIMEOUT_MS, "connections.max.idle.ms": IDLE_MS}
        producer = Producer({"bootstrap.servers": self._bootstrap} | settings)
        producer.init_transactions(STEP_S)
        consumer = self._consumer(name)
        try:
            number = self._committed(consumer)
            group = consumer.consumer_group_metadata()
            while not self._is_over.is_set():
                if generator.random() < CRASH_SHARE:
                    return
                transaction = self._transaction(name, number, generator)
                producer.begin_transaction()
                for write in transaction.writes:
                    producer.produce(self.topic, write.value, partition=write.partition)
                place = TopicPartition(self.topic, 0, transaction.next_number)
                producer.send_offsets_to_transaction([place], group, STEP_S)
                if generator.random() < ABORT_SHARE:
                    producer.abort_transaction(STEP_S)
                else:
                    self._set_outcome(transaction, Outcome.UNKNOWN)
                    producer.commit_transaction(STEP_S)
                    self._set_outcome(transaction, Outcome.ACKNOWLEDGED)
                    number = transaction.next_number
        finally:
            producer.purge()
            consumer.close()

    def _transaction(self, name: str, number: int, generator: random.Random) -> Transaction:
        attempt = len(self.history.transactions)
        writes = [
            Write(
                name,
                generator.randrange(self.partitions),
                f"{name}:{each}:{attempt}".encode(),
                acks=1,  # no acknowledgement promises anything before that of the commit
                is_idempotent=True,
                began_ms=0,
                outcome=Outcome.FAILED,
            )
            for each in range(number, number + generator.randrange(1, 20))
        ]
        transaction = Transaction(name, number + len(writes), writes)
        self.history.reads.writes += writes
        self.history.transactions.append(transaction)
        return transaction

    def _set_outcome(self, transaction: Transaction, outcome: Outcome) -> None:
        transaction.outcome = outcome
        for write in transaction.writes:
            write.outcome = outcome

    def _committed(self, consumer: Consumer) -> int:
        """The committed offset of a client, once no transaction is pending on it."""
        (place,) = consumer.committed([TopicPartition(self.topic, 0)], STEP_S)
        if place.error is not None:
            raise KafkaException(place.error)
        return max(0, place.offset)

    # Reading

    def _consumer(self, group: str, isolation: str = "read_committed") -> Consumer:
        settings: dict[str, Any] = {
            "bootstrap.servers": self._bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": isolation,
            "fetch.wait.max.ms": 100,
            "enable.partition.eof": True,
        }
        return Consumer(QUICK | settings)

    def _consume(self) -> None:
        consumer = self._consumer("reader")
        consumer.assign([TopicPartition(self.topic, p, 0) for p in range(self.partitions)])
        while not self._is_over.is_set():
            for message in consumer.consume(500, 0.1):
                if message.error() is None:
                    partition, offset, value = record_of(message)
                    poll = Poll("reader", partition, offset, ((offset, value),))
                    self.history.reads.polls.append(poll)
        consumer.close()

    def _read_all(self) -> dict[int, list[tuple[int, bytes]]]:
        """All that is committed, once no transaction is open: only then a read_committed consumer
        reaches the high watermark."""
        places = [TopicPartition(self.topic, p, 0) for p in range(self.partitions)]
        uncommitted = self._consumer("ends", "read_uncommitted")
        ends = {place.partition: end_offset(uncommitted, place) for place in places}
        uncommitted.close()
        consumer = self._consumer("last-reader")
        found: dict[int, dict[int, bytes]] = {p: {} for p in range(self.partitions)}
        reached: dict[int, int] = {}
        consumer.assign(places)

        def is_read() -> bool:
            for message in consumer.consume(5_000, 0.2):
                error = message.error()
                if error is None:
                    partition, offset, value = record_of(message)
                    found[partition][offset] = value
                elif error.code() == END_OF_PARTITION:
                    reached[message.partition() or 0] = message.offset() or 0
            return all(reached.get(p, -1) >= end for p, end in ends.items())

        try:
            wait_for(is_read, f"all of {self.topic} is read up to {ends}")
        finally:
            consumer.close()
        return {p: sorted(records.items()) for p, records in found.items()}

    # Judging

    def committed_transactions(self) -> int:
        return sum(each.outcome is Outcome.ACKNOWLEDGED for each in list(self.history.transactions))

    def wait_for_progress(self) -> None:
        """Wait until every client has committed another transaction."""
        before = len(self.history.transactions)

        def is_done() -> bool:
            later = self.history.transactions[before:]
            done = {each.client for each in later if each.outcome is Outcome.ACKNOWLEDGED}
            return done.issuperset(self._names)

        wait_for(is_done, "every transactional client commits again")

    def stop(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(GUARD_S)
            assert not thread.is_alive(), "a transactional client does not end"

    def check(self) -> None:
        """Read everything and run all checks; Violation or AssertionError."""
        self.history.reads.last_reads = self._read_all()
        for name in self._names:
            consumer = self._consumer(name)
            try:
                self.history.last_offsets[name] = self._committed(consumer)
            finally:
                consumer.close()
        check_history(self.history.reads)
        check_transactions(self.history)


@contextlib.contextmanager
def copying(
    bootstrap: str, partitions: int, clients: int, seed: int = 0
) -> Iterator[TransactionalLoad]:
    """Run transactional clients during a `with` block, and then check what they saw."""
    load = TransactionalLoad(bootstrap, partitions, clients, seed)
    try:
        load.wait_for_progress()
        yield load
        load.wait_for_progress()
    finally:
        load.stop()
    load.check()
