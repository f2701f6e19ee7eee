"""Sawlog loads the transactional offset commits that Apache Kafka wrote, and Kafka those of Sawlog:
committed ones, aborted ones, one that a plain commit has overtaken, and one that is pending."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pytest

from sawlog.core.errors import ErrorCode
from sawlog.protocol.apis import request_class
from support.kafka.shared_brokers import START, Server
from support.protocol.wire import Wire
from transcripts.plain_values import build
from transcripts.steps import api_named

pytestmark = pytest.mark.long

ONE_PARTITION = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
GROUP, TOPIC, OFFSETS = "g", "t", "__consumer_offsets"
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT
TRANSACTION = 1
LATE_EPOCH = 100
ATTEMPTS = 1_000
LOADED = {0: 5, 1: 3, 2: 6, 3: UNSTABLE}
ENDED = {0: 5, 1: 3, 2: 6, 3: 8}


class Client:
    """Raw requests to one broker."""

    def __init__(self, server: Server) -> None:
        self._wire = Wire(server.host, server.port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._wire.close()

    def ask(self, api: str, version: int, **fields: Any) -> Any:
        return self._wire.ask(build(request_class(api_named(api)), fields), version)

    def until(self, is_so: Callable[[], bool]) -> None:
        for _ in range(ATTEMPTS):
            if is_so():
                return
        pytest.fail("it never came")

    def wait_for_coordinator(self, key: str, key_type: int = 0) -> None:
        def is_known() -> bool:
            found = self.ask("FindCoordinator", 4, coordinator_keys=[key], key_type=key_type)
            return not found.coordinators[0].error_code

        self.until(is_known)

    def wait_for_groups(self) -> None:
        self.wait_for_coordinator(GROUP)
        self.until(lambda: not self.ask("OffsetFetch", 7, group_id=GROUP, topics=None).error_code)

    def stable_offsets(self) -> dict[int, int | ErrorCode]:
        asked = [{"name": TOPIC, "partition_indexes": [0, 1, 2, 3]}]
        found = self.ask("OffsetFetch", 7, group_id=GROUP, topics=asked, require_stable=True)
        return {
            each.partition_index: ErrorCode(each.error_code)
            if each.error_code
            else each.committed_offset
            for each in found.topics[0].partitions
        }

    def commit(self, partition: int, offset: int) -> None:
        done = self.ask("OffsetCommit", 8, group_id=GROUP, topics=_topics(partition, offset))
        assert done.topics[0].partitions[0].error_code == 0


class Producer:
    """A transactional producer."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._name = name
        client.wait_for_coordinator(name, TRANSACTION)
        client.until(self._init)

    def _init(self) -> bool:
        fields = {"transactional_id": self._name, "transaction_timeout_ms": 600_000}
        found = self._client.ask("InitProducerId", 4, **fields)
        self.identity = {
            "transactional_id": self._name,
            "producer_id": found.producer_id,
            "producer_epoch": found.producer_epoch,
        }
        return not found.error_code

    def commit(self, partition: int, offset: int) -> None:
        topics = _topics(partition, offset)
        done = self._client.ask(
            "TxnOffsetCommit", 5, group_id=GROUP, topics=topics, **self.identity
        )
        assert done.topics[0].partitions[0].error_code == 0, done

    def end(self, *, commits: bool) -> None:
        ended = self._client.ask("EndTxn", 5, committed=commits, **self.identity)
        assert ended.error_code == 0
        self.identity["producer_epoch"] = ended.producer_epoch

        def is_complete() -> bool:
            found = self._client.ask("DescribeTransactions", 0, transactional_ids=[self._name])
            state: str = found.transaction_states[0].transaction_state
            return state.startswith("Complete")

        self._client.until(is_complete)


def _topics(partition: int, offset: int) -> list[dict[str, Any]]:
    partitions = [{"partition_index": partition, "committed_offset": offset}]
    return [{"name": TOPIC, "partitions": partitions}]


def write_history(client: Client) -> dict[str, Any]:
    """Commit the offsets of LOADED; return the producer of the open transaction."""
    topic = {"name": TOPIC, "num_partitions": 4, "replication_factor": 1}
    created = client.ask("CreateTopics", 7, topics=[topic])
    assert created.topics[0].error_code == 0
    client.wait_for_groups()
    first, last = Producer(client, "first"), Producer(client, "last")
    client.commit(1, 3)
    first.commit(0, 5)
    first.end(commits=True)
    first.commit(1, 99)
    first.end(commits=False)
    first.commit(2, 99)
    client.commit(2, 6)
    first.end(commits=True)
    last.commit(3, 8)
    return last.identity


def move_offsets(source: Path, target: Path) -> None:
    """Replace the segments of the groups' topic; the other broker rebuilds their indexes."""
    for path in target.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in source.glob("*.log"):
        shutil.copy(path, target / path.name)
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (target.parent / name).unlink(missing_ok=True)


def end_open_transaction(client: Client, producer: dict[str, Any]) -> None:
    """Write the marker as another transaction coordinator would."""
    marker = {
        "producer_id": producer["producer_id"],
        "producer_epoch": producer["producer_epoch"] + 1,
        "transaction_result": True,
        "topics": [{"name": OFFSETS, "partition_indexes": [0]}],
        "coordinator_epoch": LATE_EPOCH,
    }
    written = client.ask("WriteTxnMarkers", 1, markers=[marker])
    assert written.markers[0].topics[0].partitions[0].error_code == 0


@pytest.mark.parametrize(("writer", "reader"), [("kafka", "sawlog"), ("sawlog", "kafka")])
def test_each_broker_loads_the_offsets_that_the_other_wrote(
    writer: str, reader: str, tmp_path: Path
) -> None:
    with START[writer](tmp_path / "written", ONE_PARTITION) as source:
        with Client(source) as client:
            producer = write_history(client)
            assert client.stable_offsets() == LOADED
        source.restart()
        with Client(source) as client:
            client.wait_for_groups()
            assert client.stable_offsets() == LOADED
        source.stop()
    with START[reader](tmp_path / "read", ONE_PARTITION) as target:
        with Client(target) as client:
            client.wait_for_groups()
        target.stop()
        move_offsets(source.data / f"{OFFSETS}-0", target.data / f"{OFFSETS}-0")
        target.start()
        with Client(target) as client:
            client.wait_for_groups()
            assert client.stable_offsets() == LOADED
            end_open_transaction(client, producer)
            assert client.stable_offsets() == ENDED
