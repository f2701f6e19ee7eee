"""Real clients under load, whose observations are a History for the checkers of the simulator.

An idempotent producer (librdkafka, acks=all) sends records to every partition all the time; a
consumer follows all partitions from the start. If asked for, a producer without idempotence and
retries sends too. An outage is the longest time without an acknowledgement of one partition of the
idempotent producer.
"""

import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import (
    Consumer,
    ElectionType,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from sawlog.simulation.history.checks import check_history
from sawlog.simulation.history.history import (
    ACKS_ALL,
    UNKNOWN_OFFSET,
    History,
    Outcome,
    Poll,
    Write,
)
from tools.faults.process import wait_for

TOPIC = "load"
TICK_S = 0.02
OnDelivered = Callable[[Write, float, KafkaError | None], None]
"""Gets the write, when it was sent, and the error that the client reports."""
GUARD_S = 240.0
REQUEST_MS = 1_000
OUT_OF_RANGE = KafkaError._AUTO_OFFSET_RESET  # noqa: SLF001 - the name that librdkafka gives it
NOT_CREATED = (KafkaError.INVALID_REPLICATION_FACTOR, KafkaError.REQUEST_TIMED_OUT)
NOT_FOUND_YET = (
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - likewise
    KafkaError.NOT_LEADER_FOR_PARTITION,
)
"""A broker that has reached ZooKeeper again, but not read it, has old metadata; librdkafka asks the
leader of the first metadata that it gets, and does not look for another one."""
NOT_NEEDED = KafkaError.ELECTION_NOT_NEEDED
QUICK = {
    "log_level": 0,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "socket.timeout.ms": REQUEST_MS,
    "socket.connection.setup.timeout.ms": 1_000,
    "topic.metadata.refresh.fast.interval.ms": 50,
    "topic.metadata.refresh.interval.ms": 1_000,
}
"""A client that notices at once: what is measured is the cluster, not the client's patience."""
PATIENT = {"log_level": 0}
"""A client of admin requests, which may take longer than a second on a busy machine."""
PRODUCER = QUICK | {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 0,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
    "request.timeout.ms": REQUEST_MS,
    "message.timeout.ms": int(GUARD_S * 1000),
}
PLAIN_PRODUCER = PRODUCER | {"enable.idempotence": False, "message.send.max.retries": 0}
"""librdkafka sends a record again in spite of this, if a deposed leader answers
NOT_LEADER_OR_FOLLOWER: it takes that for "not appended", and a waiting request of acks=all gets it
after the append, as in Kafka. So such records may be in the log twice (`Write.may_repeat`)."""


class Load:
    """Threads that produce and consume until `stop`; `check` judges what they saw."""

    def __init__(
        self,
        bootstrap: str,
        partitions: int,
        *,
        topic: str = TOPIC,
        has_plain_producer: bool = False,
    ) -> None:
        self.topic = topic
        self.partitions = partitions
        self.history = History()
        self._bootstrap = bootstrap
        self._is_over = threading.Event()
        self._is_abandoned = False
        self._errors: list[str] = []
        self._acknowledged: dict[int, list[tuple[float, float]]] = defaultdict(list)
        """By partition: when each record was sent and acknowledged."""
        self._began = time.monotonic()
        create_topic(bootstrap, topic, partitions)
        tasks = [(self._produce, "producer"), (self._consume, "consumer")]
        if has_plain_producer:
            tasks.append((self._produce_plain, "plain producer"))
        self._threads = [
            threading.Thread(target=task, args=(name,), daemon=True) for task, name in tasks
        ]
        for thread in self._threads:
            thread.start()

    def _common(self) -> dict[str, Any]:
        return {"bootstrap.servers": self._bootstrap}

    def elect_preferred_leaders(self) -> None:
        """Let every broker lead its share again."""
        admin = AdminClient(self._common() | PATIENT)
        everywhere = [TopicPartition(self.topic, index) for index in range(self.partitions)]

        def is_done() -> bool:
            election = admin.elect_leaders(ElectionType.PREFERRED, everywhere)
            found = election.result(60).values()
            return all(error is None or error.code() == NOT_NEEDED for error in found)

        wait_for(is_done, "the preferred leaders are elected")

    def _now_ms(self) -> int:
        return int((time.monotonic() - self._began) * 1000)

    # Producing

    def _produce(self, name: str) -> None:
        def delivered(write: Write, sent: float, error: KafkaError | None) -> None:
            if error is None:
                self._acknowledged[write.partition].append((sent, time.monotonic()))
            else:
                self._errors.append(f"{write.value!r} of an idempotent producer failed: {error}")

        self._send_all(name, PRODUCER, delivered)

    def _produce_plain(self, name: str) -> None:
        """Produce without idempotence. An error says nothing about an earlier attempt, so that the
        outcome of a failed write is unknown."""
        self._send_all(name, PLAIN_PRODUCER, lambda _, __, ___: None)

    def _send_all(self, name: str, settings: dict[str, Any], delivered: OnDelivered) -> None:
        """Send to all partitions until the load is over."""
        producer = Producer(self._common() | settings)
        is_idempotent = bool(settings["enable.idempotence"])
        for number in itertools.count():
            if self._is_over.is_set():
                break
            for partition in range(self.partitions):
                value = f"{name}:{partition}:{number}".encode()
                write = Write(name, partition, value, ACKS_ALL, is_idempotent, self._now_ms())
                write.may_repeat = not is_idempotent
                self._send(producer, write, delivered)
            producer.poll(TICK_S)
            self._is_over.wait(TICK_S)
        left = producer.flush(0 if self._is_abandoned else GUARD_S)
        if left:
            self._errors.append(f"{left} records of {name} have no outcome after {GUARD_S} s")

    def _send(self, producer: Any, write: Write, delivered: OnDelivered) -> None:
        sent = time.monotonic()

        def reported(error: KafkaError | None, message: Any) -> None:
            write.ended_ms = self._now_ms()
            if error is None:
                write.outcome = Outcome.ACKNOWLEDGED
                offset = message.offset()  # None if a repeated batch was refused as a duplicate
                write.offset = UNKNOWN_OFFSET if offset is None else offset
            delivered(write, sent, error)

        try:
            producer.produce(
                self.topic, write.value, partition=write.partition, on_delivery=reported
            )
        except BufferError:
            return  # the queue is full during a long outage
        self.history.writes.append(write)

    # Consuming

    def _consumer(self) -> Consumer:
        settings = {"group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": "error"}
        return Consumer(self._common() | QUICK | settings | {"fetch.wait.max.ms": 100})

    def _consume(self, name: str) -> None:
        consumer = self._consumer()
        consumer.assign([TopicPartition(self.topic, p, 0) for p in range(self.partitions)])
        positions = dict.fromkeys(range(self.partitions), 0)
        while not self._is_over.is_set():
            records: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
            for message in consumer.consume(500, 0.1):
                error = message.error()
                if error is None:
                    partition, offset, value = record_of(message)
                    records[partition].append((offset, value))
                elif error.code() == OUT_OF_RANGE:
                    partition = message.partition() or 0
                    lost = Poll(name, partition, positions[partition], ())
                    self.history.out_of_range.append(lost)
            for partition, found in records.items():
                poll = Poll(name, partition, positions[partition], tuple(found))
                self.history.polls.append(poll)
                positions[partition] = found[-1][0] + 1
        consumer.close()

    def read_all(self) -> dict[int, list[tuple[int, bytes]]]:
        """Everything in the topic, read from the start."""
        found: dict[int, list[tuple[int, bytes]]] = {p: [] for p in range(self.partitions)}
        consumer = self._consumer()
        places = [TopicPartition(self.topic, p, 0) for p in range(self.partitions)]
        ends = {place.partition: end_offset(consumer, place) for place in places}
        consumer.assign(places)

        def is_read() -> bool:
            for message in consumer.consume(5_000, 0.2):
                if message.error() is None:
                    partition, offset, value = record_of(message)
                    found[partition].append((offset, value))
            return all(
                not end or (found[p] and found[p][-1][0] >= end - 1) for p, end in ends.items()
            )

        try:
            wait_for(is_read, f"all of {self.topic} is read up to {ends}")
        finally:
            consumer.close()
        return found

    # Judging

    def wait_until_available(self, since: float, partitions: Sequence[int] | None = None) -> float:
        """Wait until these partitions (all) have acknowledged a record that was sent after `since`;
        return the longest time that one of all did not."""
        awaited = range(self.partitions) if partitions is None else partitions

        def missing() -> list[int]:
            return [p for p in awaited if not self._has_acknowledged(p, since)]

        wait_for(lambda: not missing(), "every partition acknowledges again")
        return self.outage_s(since)

    def _has_acknowledged(self, partition: int, since: float) -> bool:
        times = self._acknowledged[partition]
        return bool(times) and times[-1][0] > since

    def outage_s(self, since: float, until: float = float("inf")) -> float:
        """The longest time without an acknowledgement of a partition, after a fault at `since`."""
        longest = 0.0
        for partition in range(self.partitions):
            before = since
            for _, at in list(self._acknowledged[partition]):
                if since < at < until:
                    longest = max(longest, at - before)
                    before = at
        return longest

    def stop(self) -> None:
        """End all threads: the consumer has read what was acknowledged before, and every record of
        the idempotent producer has an outcome."""
        if not (self._is_over.is_set() or self._is_abandoned):
            self._wait_until_consumed()
        self._is_over.set()
        for thread in self._threads:
            thread.join(GUARD_S * 2)
            assert not thread.is_alive(), "a client does not end"

    def _wait_until_consumed(self) -> None:
        """Wait until the consumer has read everything that is acknowledged by now."""
        ends: dict[int, int] = {}
        for write in self.history.writes.copy():
            if write.outcome is Outcome.ACKNOWLEDGED:
                ends[write.partition] = max(ends.get(write.partition, -1), write.offset)

        def is_consumed() -> bool:
            read = {poll.partition: poll.records[-1][0] for poll in self.history.polls.copy()}
            return all(read.get(partition, -1) >= end for partition, end in ends.items())

        wait_for(is_consumed, f"the consumer of {self.topic} reads up to {ends}")

    def abandon(self) -> None:
        """End all threads without waiting for the outcomes of their records."""
        self._is_abandoned = True
        self.stop()

    def check(self) -> None:
        """Read everything and run all checks of histories; Violation or AssertionError."""
        self.history.last_reads = self.read_all()
        assert not self._errors, self._errors[:5]
        check_history(self.history)


def create_topic(bootstrap: str, topic: str, partitions: int) -> None:
    """Create a topic once the broker that is asked knows all three, and ZooKeeper answers it: on a
    busy machine a short session may be suspended."""
    common: dict[str, Any] = {"bootstrap.servers": bootstrap}
    admin = AdminClient(common | PATIENT)

    def is_created() -> bool:
        try:
            admin.create_topics([NewTopic(topic, partitions, 3)])[topic].result(60)
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.TOPIC_ALREADY_EXISTS:  # by a request that timed out
                return True
            if code not in NOT_CREATED:
                raise
            return False
        return True

    wait_for(is_created, f"{topic} is created on three brokers")


def end_offset(consumer: Consumer, place: TopicPartition) -> int:
    """The high watermark. Soon after a fault a new librdkafka consumer may not find a partition or
    its leader, so such an answer is not the last word."""
    found: list[int] = []

    def is_known() -> bool:
        try:
            found.append(consumer.get_watermark_offsets(place, GUARD_S)[1])
        except KafkaException as error:
            if error.args[0].code() not in NOT_FOUND_YET:
                raise
        return bool(found)

    wait_for(is_known, f"{place} is known")
    return found[0]


def record_of(message: Message) -> tuple[int, int, bytes]:
    """The partition, offset and value of a consumed record."""
    partition, offset, value = message.partition(), message.offset(), message.value()
    assert partition is not None
    assert offset is not None
    assert value is not None
    return partition, offset, value
