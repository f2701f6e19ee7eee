"""Kafka's DumpLogSegments reads the markers, transaction indexes and snapshots of a log."""

import re
from pathlib import Path

import pytest

from sawlog.storage.log_config import LogConfig
from support.kafka.kafka_broker import run_tool
from support.storage.logs import TP, SimulatedStorage, append, records
from support.storage.transactions import ABORT, COMMIT, TransactionalProducer

pytestmark = pytest.mark.long

DUMP = "org.apache.kafka.tools.DumpLogSegments"


def dump(path: Path, *options: str) -> str:
    done = run_tool(DUMP, "--files", str(path), *options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a log after a clean stop: producer 1 aborts 0-1 at 4, producer 2 commits 2-3 at
    5 with a bumped epoch, and producer 3 has an open transaction from offset 7 on."""
    storage = SimulatedStorage(LogConfig())
    first = TransactionalProducer(storage.log, producer_id=1, epoch=2).send(2)
    second = TransactionalProducer(storage.log, producer_id=2, epoch=4).send(2)
    first.end(ABORT, coordinator_epoch=9)
    second.end_with_bump(COMMIT)
    append(storage.log, records(1))
    TransactionalProducer(storage.log, producer_id=3).send(3)
    storage.directory.close_cleanly()
    target: Path = tmp_path_factory.mktemp("data") / str(TP)
    target.mkdir()
    for name in storage.disk.list(str(TP)):
        (target / name).write_bytes(storage.disk.read_file(f"{TP}/{name}"))
    return target


def test_kafka_reads_our_markers(directory: Path) -> None:
    found = re.findall(
        r"\| offset: (\d+).*endTxnMarker: (\w+) coordinatorEpoch: (\d+)",
        dump(directory / "00000000000000000000.log", "--deep-iteration"),
    )
    assert found == [("4", "ABORT", "9"), ("5", "COMMIT", "0")]


def test_kafka_reads_our_transaction_index(directory: Path) -> None:
    output = dump(directory / "00000000000000000000.txnindex")
    assert (
        "version: 0 producerId: 1 firstOffset: 0 lastOffset: 4 lastStableOffset: 2"
        in output.splitlines()
    )


def test_kafka_reads_the_open_transactions_of_our_snapshot(directory: Path) -> None:
    (path,) = directory.glob("*.snapshot")
    found = re.findall(
        r"producerId: (\d+) producerEpoch: (\d+) coordinatorEpoch: (-?\d+)"
        r" currentTxnFirstOffset: OptionalLong(\.empty|\[\d+\])",
        dump(path),
    )
    assert found == [
        ("1", "2", "9", ".empty"),
        ("2", "5", "0", ".empty"),
        ("3", "0", "-1", "[7]"),
    ]
