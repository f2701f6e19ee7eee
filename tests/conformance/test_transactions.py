"""Transactional producers of client libraries: commits and aborts, read with read_committed."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import KafkaException, Producer

from support.client_libraries.aiokafka_library import run
from support.client_libraries.client_library import GUARD_S
from support.client_libraries.read_committed import read_committed
from support.kafka.kafka_broker import run_tool
from support.programs import require_java
from support.server.broker_process import running_sawlog
from tools.kafka_jars import CLIENTS_JAR

PROGRAM = Path(__file__).with_name("RunTransactions.java")
DEPENDENCIES = ("slf4j-*.jar", "zstd-jni-*.jar")
DUMP = "org.apache.kafka.tools.DumpLogSegments"
TRANSACTIONS = 12
KEPT = [number for number in range(TRANSACTIONS) if number % 3 != 2]


def librdkafka_producer(bootstrap: str, transactional_id: str) -> Producer:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 0}
    )
    producer.init_transactions(GUARD_S)
    return producer


def test_librdkafka_commits_and_aborts(broker, create_topic: Callable[..., str], topic) -> None:
    create_topic(topic)
    producer = librdkafka_producer(broker.bootstrap, topic)
    for number in range(TRANSACTIONS):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number)
        if number in KEPT:
            producer.commit_transaction(GUARD_S)
        else:
            producer.flush(GUARD_S)
            producer.abort_transaction(GUARD_S)
    last = librdkafka_producer(broker.bootstrap, f"{topic}-last")
    last.begin_transaction()
    last.produce(topic, b"end")
    last.commit_transaction(GUARD_S)
    assert read_committed(broker.bootstrap, topic) == [*(b"%d" % each for each in KEPT), b"end"]


def test_a_second_librdkafka_producer_fences_the_first(
    broker, create_topic: Callable[..., str], topic
) -> None:
    create_topic(topic)
    first = librdkafka_producer(broker.bootstrap, topic)
    first.begin_transaction()
    first.produce(topic, b"lost")
    first.flush(GUARD_S)
    second = librdkafka_producer(broker.bootstrap, topic)
    second.begin_transaction()
    second.produce(topic, b"kept")
    second.commit_transaction(GUARD_S)
    with pytest.raises(KafkaException) as error:
        first.commit_transaction(GUARD_S)
    assert error.value.args[0].fatal()
    assert read_committed(broker.bootstrap, topic) == [b"kept"]


def test_aiokafka_commits_and_aborts(broker, create_topic: Callable[..., str], topic) -> None:
    create_topic(topic)

    async def write() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=topic)
        await producer.start()
        try:
            for number in range(TRANSACTIONS):
                await producer.begin_transaction()
                await producer.send_and_wait(topic, b"%d" % number)
                if number in KEPT:
                    await producer.commit_transaction()
                else:
                    await producer.abort_transaction()
            async with producer.transaction():
                await producer.send(topic, b"end")
        finally:
            await producer.stop()

    async def read() -> list[bytes]:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        )
        await consumer.start()
        values: list[bytes] = []
        try:
            while b"end" not in values:
                values.append((await consumer.getone()).value)
        finally:
            await consumer.stop()
        return values

    run(write())
    assert run(read()) == [*(b"%d" % each for each in KEPT), b"end"]


@pytest.mark.long
def test_the_java_producer_commits_aborts_and_is_fenced(
    broker, create_topic: Callable[..., str], topic
) -> None:
    create_topic(topic, 2)
    libraries = Path(require_java().removesuffix("/*"))
    jars = [CLIENTS_JAR, *(jar for name in DEPENDENCIES for jar in libraries.glob(name))]
    command = ["java", "-cp", ":".join(map(os.fspath, jars)), os.fspath(PROGRAM)]
    done = subprocess.run(
        [*command, broker.bootstrap, topic, str(TRANSACTIONS)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *values, fenced = done.stdout.splitlines()
    assert values == sorted([*(f"{name}{each}" for name in "ab" for each in KEPT), "last"])
    assert fenced == "fenced"


@pytest.mark.long
def test_kafka_reads_the_transaction_log(tmp_path: Path) -> None:
    """DumpLogSegments decodes every record of `__transaction_state`."""
    settings = {"transaction.state.log.num.partitions": "1"}
    with running_sawlog(tmp_path / "broker", settings) as server:
        producer = librdkafka_producer(server.bootstrap, "dumped")
        for ends in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            producer.produce("dumped", b"a")
            producer.flush(GUARD_S)
            ends(GUARD_S)
        librdkafka_producer(server.bootstrap, "dumped")
    [log] = tmp_path.rglob("__transaction_state-0/*.log")
    done = run_tool(DUMP, "--files", str(log), "--transaction-log-decoder")
    assert done.returncode == 0, done.stderr
    found = re.findall(r'"version":"1","data":{.*?"transactionStatus":(\d)', done.stdout)
    assert [int(status) for status in found] == [0, 1, 2, 4, 1, 3, 5, 0]
