"""Kafka's transactions tool finds a transaction that no coordinator knows, and aborts it."""

import re
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from sawlog.protocol.record_batch import stamp
from sawlog.protocol.records import Record, build_batch
from support.client_libraries.client_library import GUARD_S
from support.client_libraries.read_committed import read_committed
from support.kafka.kafka_broker import run_tool
from support.server.broker_process import SawlogServer, running_sawlog

pytestmark = pytest.mark.long

TOOL = "org.apache.kafka.tools.TransactionsCommand"
TOPIC = "hanging"
PRODUCER, EPOCH = 9_000_000_001, 3
LONG_AGO_MS = 1_700_000_000_000


def produce(server: SawlogServer, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap})
    producer.produce(TOPIC, value, partition=0)
    assert producer.flush(GUARD_S) == 0


def plant(server: SawlogServer, offset: int) -> None:
    """Append a transactional batch to the log of a broker that is not running."""
    batch = build_batch(
        [Record(0, LONG_AGO_MS, None, b"never committed")],
        producer_id=PRODUCER,
        producer_epoch=EPOCH,
        base_sequence=0,
        transactional=True,
    )
    stamp(memoryview(batch), offset, 0)
    [log] = server.data.rglob(f"{TOPIC}-0/*.log")
    with log.open("ab") as file:
        file.write(batch)


def tool(server: SawlogServer, *arguments: str) -> list[str]:
    """The lines that the tool prints, without the heading."""
    done = run_tool(TOOL, "--bootstrap-server", server.bootstrap, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()[1:]


def find_hanging(server: SawlogServer) -> list[str]:
    """The hanging transactions, however short ago this broker read their last batch."""
    return tool(server, "find-hanging", "--topic", TOPIC, "--max-transaction-timeout", "0")


def test_a_foreign_hanging_transaction_is_found_and_aborted(tmp_path: Path) -> None:
    with running_sawlog(tmp_path) as server:
        admin = AdminClient({"bootstrap.servers": server.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(GUARD_S)
        produce(server, b"before")
        server.kill()
        plant(server, 1)
        server.restart()
        produce(server, b"after")
        assert read_committed(server.bootstrap, TOPIC) == [b"before"]
        [found] = find_hanging(server)
        assert re.match(rf"{TOPIC}\s+0\s+{PRODUCER}\s+{EPOCH}\s+\S+\s+1\s", found), found
        place = ("--topic", TOPIC, "--partition", "0", "--start-offset", "1")
        tool(server, "abort", *place)
        assert find_hanging(server) == []
        assert read_committed(server.bootstrap, TOPIC) == [b"before", b"after"]
