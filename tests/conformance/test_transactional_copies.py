"""Copies of a topic in transactions, as Kafka's TransactionalMessageCopier makes them: consume,
transform, produce, and commit the offsets in the same transaction.

One transaction is aborted and repeated, and one is left open by a copier that stops; the next
copier with its transactional id continues. Clients of the older protocol (librdkafka, aiokafka)
keep their epoch; with transaction.version 2 (Java) it goes up with every transaction.
"""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition as AioPartition
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from sawlog.client.admin.admin import Admin
from sawlog.client.net.cluster import Cluster
from support.client_libraries.aiokafka_library import run
from support.client_libraries.client_library import GUARD_S
from support.client_libraries.read_committed import read_committed
from support.programs import require_java
from tools.kafka_jars import CLIENTS_JAR

PROGRAM = Path(__file__).with_name("RunCopies.java")
DEPENDENCIES = ("slf4j-*.jar", "zstd-jni-*.jar")
RECORDS = 30
SIZE = 5
COMMIT, ABORT, STOP = "commit", "abort", "stop"
LIVES = ((COMMIT, ABORT, COMMIT, STOP), (COMMIT, COMMIT, ABORT, COMMIT, COMMIT))
"""How the transactions of each copier end; the last one copies what is left."""

ENDS = sum(map(len, LIVES))


@pytest.fixture
def source(broker, create_topic: Callable[..., str], topic: str) -> str:
    """A topic with records, every other one of them aborted."""
    create_topic(topic)
    create_topic(f"{topic}-copy")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(GUARD_S)
    for number in range(0, RECORDS, SIZE):
        for is_kept in (False, True):
            producer.begin_transaction()
            for each in range(number, number + SIZE):
                producer.produce(topic, b"%d" % each if is_kept else b"aborted")
            producer.flush(GUARD_S)
            (producer.commit_transaction if is_kept else producer.abort_transaction)(GUARD_S)
    return topic


class LibrdkafkaCopier:
    """One life of a copier."""

    def __init__(self, bootstrap: str, source: str) -> None:
        self._source = TopicPartition(source, 0)
        self._target = f"{source}-copy"
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": self._target,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": self._target, "linger.ms": 0}
        )
        self._producer.init_transactions(GUARD_S)
        self._rewind()

    def _rewind(self) -> None:
        (committed,) = self._consumer.committed([self._source], GUARD_S)
        self._consumer.assign([TopicPartition(*self._place(max(committed.offset, 0)))])

    def _place(self, offset: int) -> tuple[str, int, int]:
        return self._source.topic, self._source.partition, offset

    def _next(self) -> Message:
        message = self._consumer.poll(GUARD_S)
        assert message is not None
        assert message.error() is None, message.error()
        return message

    def copy(self, end: str) -> None:
        self._producer.begin_transaction()
        for _ in range(SIZE):
            self._producer.produce(self._target, b"copy of " + self._next().value())
        self._producer.flush(GUARD_S)
        positions = self._consumer.position([self._source])
        group = self._consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction(positions, group, GUARD_S)
        if end == COMMIT:
            self._producer.commit_transaction(GUARD_S)
        elif end == ABORT:
            self._producer.abort_transaction(GUARD_S)
            self._rewind()

    def close(self) -> None:
        self._consumer.close()


def check_copy(bootstrap: str, source: str) -> int:
    """Check that the copy is exact; return the producer epoch of its transactional id."""
    expected = [b"copy of %d" % number for number in range(RECORDS)]
    assert read_committed(bootstrap, f"{source}-copy") == expected
    with Cluster(bootstrap) as cluster:
        found, _ = Admin(cluster).transactions.describe([f"{source}-copy"])
    return found[f"{source}-copy"].producer_epoch


def test_librdkafka_copies_exactly(broker, source: str) -> None:
    for life in LIVES:
        copier = LibrdkafkaCopier(broker.bootstrap, source)
        for end in life:
            copier.copy(end)
        copier.close()
    assert check_copy(broker.bootstrap, source) < ENDS


async def copy_with_aiokafka(bootstrap: str, source: str, ends: tuple[str, ...]) -> None:
    """One life of a copier."""
    partition, target = AioPartition(source, 0), f"{source}-copy"
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=target,
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=target)
    await producer.start()
    await consumer.start()
    try:
        consumer.assign([partition])
        consumer.seek(partition, await consumer.committed(partition) or 0)
        for end in ends:
            await producer.begin_transaction()
            for _ in range(SIZE):
                record = await consumer.getone()
                await producer.send_and_wait(target, b"copy of " + record.value)
            position = await consumer.position(partition)
            await producer.send_offsets_to_transaction({partition: position}, target)
            if end == COMMIT:
                await producer.commit_transaction()
            elif end == ABORT:
                await producer.abort_transaction()
                consumer.seek(partition, await consumer.committed(partition) or 0)
    finally:
        await consumer.stop()
        await producer.stop()


def test_aiokafka_copies_exactly(broker, source: str) -> None:
    for life in LIVES:
        run(copy_with_aiokafka(broker.bootstrap, source, life))
    assert check_copy(broker.bootstrap, source) < ENDS


@pytest.mark.long
def test_the_java_client_copies_exactly(broker, source: str) -> None:
    libraries = Path(require_java().removesuffix("/*"))
    jars = [CLIENTS_JAR, *(jar for name in DEPENDENCIES for jar in libraries.glob(name))]
    lives = [",".join(life) for life in LIVES]
    command = ["java", "-cp", ":".join(map(os.fspath, jars)), os.fspath(PROGRAM)]
    done = subprocess.run(
        [*command, broker.bootstrap, source, str(SIZE), *lives],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert check_copy(broker.bootstrap, source) >= ENDS
