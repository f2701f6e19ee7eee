"""A data directory is lost under load and restored from the last backup that was made meanwhile.

Producers write, a group commits, retention deletes segments, a topic with keys is compacted,
records are deleted, and topics are created and deleted, while backups are created one after the
other.
"""

import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sawlog.backup.backup_restorer import restore_backup
from sawlog.backup.backup_verifier import verify_backup
from sawlog.backup.backup_writer import CreatedBackup, Selection, create_backup
from sawlog.backup.manifest import Manifest, TopicBackup
from sawlog.backup.running_broker import RunningBroker
from sawlog.client import (
    AT_EARLIEST,
    LATEST,
    Admin,
    ClientError,
    Cluster,
    Consumer,
    DeliveryFailed,
    KafkaError,
    NewTopic,
    Producer,
    TopicPartition,
)
from sawlog.core.ids import PartitionIndex, TopicName
from support.backup.partition_files import Progress
from support.client.load import IdempotentLoad
from support.client_libraries.confluent_library import Confluent
from support.kafka.shared_brokers import QUICK_GROUPS
from support.programs import require
from support.same import check_same
from support.server.broker_process import SawlogServer
from support.tiers import rounds

PARTITIONS = 2
KEYS = 50
SEGMENT = {"segment.bytes": str(1 << 20), "retention.ms": "-1"}
SHORT = SEGMENT | {"retention.bytes": str(2 << 20)}
COMPACTED = SEGMENT | {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}
SETTINGS = QUICK_GROUPS | {
    "log.cleaner.backoff.ms": "50",
    "log.retention.check.interval.ms": "50",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.segment.bytes": str(1 << 20),
}
GROUP = "readers"
GUARD_S = 60
ENDLESS = 10**9
BROKER_GONE = (KafkaError, ClientError, DeliveryFailed, OSError)


KeyAndValue = tuple[bytes | None, bytes | None]


def upsert(offset: int) -> KeyAndValue:
    """The record at an offset of the compacted topic: a value that tells it, or a deletion."""
    key = b"%d" % (offset % KEYS)
    return key, None if offset % 7 == 0 else b"%d " % offset + bytes(10_000)


class Loads:
    """Threads that use the broker until it is killed; an error before that fails the test."""

    def __init__(self, server: SawlogServer) -> None:
        self._server = server
        self._is_over = threading.Event()
        self._failures: list[BaseException] = []
        self.idempotent = IdempotentLoad(server.bootstrap, "numbers", PARTITIONS)
        work = (self._number, self._fill, self._upsert, self._commit, self._churn)
        self._threads = [
            threading.Thread(target=self._guarded, args=(each,), daemon=True) for each in work
        ]
        for thread in self._threads:
            thread.start()

    def stop(self, end: Callable[[], None]) -> None:
        """End the broker while everything runs."""
        self._is_over.set()
        end()
        for thread in self._threads:
            thread.join(GUARD_S)
            assert not thread.is_alive()
        assert self._failures == []
        self.idempotent.drop()

    def wait_for_more(self, records: int) -> None:
        """Wait until so many more records are acknowledged."""
        target = self.idempotent.acknowledged + records
        while self.idempotent.acknowledged < target:
            assert self._failures == []
            self._is_over.wait(0.01)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BROKER_GONE as error:
            if not self._is_over.is_set():
                self._failures.append(error)
        except BaseException as error:
            self._failures.append(error)

    def _number(self) -> None:
        self.idempotent.run_until(ENDLESS, self._is_over.is_set)
        assert self.idempotent.failures == []

    def _fill(self) -> None:
        """Write to a topic whose old segments retention deletes."""
        self._write("short", lambda offset: (None, b"%d " % offset + bytes(20_000)))

    def _upsert(self) -> None:
        """Write and delete the keys of a compacted topic."""
        self._write("table", upsert)

    def _write(self, topic: str, record_at: Callable[[int], KeyAndValue]) -> None:
        """Write to partition 0 of a topic; `record_at` makes the record of each offset."""
        cluster = Cluster(self._server.bootstrap, timeout_ms=2_000)
        with cluster, Producer(cluster, linger_ms=0, delivery_timeout_ms=2_000) as producer:
            offset = 0
            while not self._is_over.is_set():
                deliveries = []
                for number in range(offset, offset + 20):
                    key, value = record_at(number)
                    deliveries.append(producer.send(topic, value, key=key, partition=0))
                for delivery in deliveries:
                    assert delivery.result().offset == offset
                    offset += 1

    def _commit(self) -> None:
        cluster = Cluster(self._server.bootstrap, timeout_ms=2_000)
        with cluster, Consumer(cluster, group=GROUP) as consumer:
            consumer.subscribe(["numbers"])
            while not self._is_over.is_set():
                if consumer.poll(100):
                    consumer.commit()

    def _churn(self) -> None:
        with Cluster(self._server.bootstrap, timeout_ms=2_000) as cluster:
            admin = Admin(cluster)
            number = 0
            while not self._is_over.is_set():
                name = f"churn-{number % 3}"
                assert admin.create_topics([NewTopic(name, 2)]) == {}
                with Producer(cluster, linger_ms=0, delivery_timeout_ms=2_000) as producer:
                    producer.send(name, [b"a", b"b", b"c"])
                end = admin.list_offsets({SHORT_0: LATEST})[SHORT_0].offset
                admin.delete_records({SHORT_0: max(0, end - 10)})
                assert admin.delete_topics([name]) == {}
                number += 1


def partition(topic: str, index: int) -> TopicPartition:
    return TopicPartition(TopicName(topic), PartitionIndex(index))


SHORT_0 = partition("short", 0)
NUMBERS = [partition("numbers", index) for index in range(PARTITIONS)]


def committed(server: SawlogServer) -> dict[TopicPartition, int]:
    with Admin(server.bootstrap) as admin:
        found, errors = admin.committed_offsets([GROUP])
        assert errors == {}
        return {each: offset.offset for each, offset in found[GROUP].items()}


def back_up(server: SawlogServer, target: Path) -> CreatedBackup:
    with Cluster(server.bootstrap) as cluster:
        broker = RunningBroker(cluster)
        return create_backup(broker, server.data, target, Selection(), Progress())


def topic_of(manifest: Manifest, name: str) -> TopicBackup:
    return next(topic for topic in manifest.topics if topic.name == name)


@pytest.mark.parametrize("backups", rounds(long=6, soak=200))
def test_a_lost_data_directory_is_restored(tmp_path: Path, backups: int) -> None:
    server = SawlogServer(tmp_path, SETTINGS)
    try:
        create_topics(server)
        loads = Loads(server)
        committed_before: dict[TopicPartition, int] = {}
        for number in range(backups):
            loads.wait_for_more(500)
            committed_before = committed(server)
            ends = end_offsets(server)
            created = back_up(server, tmp_path / str(number))
            check_bounds(created.manifest, ends)
            assert verify_backup(tmp_path / str(number), Progress()).problems == []
            if number:
                shutil.rmtree(tmp_path / str(number - 1))
        loads.stop(server.kill)
        shutil.rmtree(server.data)
        restore_backup(tmp_path / str(backups - 1), server.data, Progress())
        server.start()
        assert "recovered" not in server.process.output
        check_topics(server, created.manifest)
        check_numbers(server, topic_of(created.manifest, "numbers"))
        check_short(server, topic_of(created.manifest, "short"))
        check_table(server, topic_of(created.manifest, "table"))
        check_groups(server, topic_of(created.manifest, "numbers"), committed_before)
    finally:
        server.kill()


def create_topics(server: SawlogServer) -> None:
    with Admin(server.bootstrap) as admin:
        topics = [
            NewTopic("numbers", PARTITIONS, configs=SEGMENT),
            NewTopic("short", 1, configs=SHORT),
            NewTopic("table", 1, configs=COMPACTED),
        ]
        assert admin.create_topics(topics) == {}


def end_offsets(server: SawlogServer) -> dict[TopicPartition, int]:
    with Admin(server.bootstrap) as admin:
        found = admin.list_offsets(dict.fromkeys([*NUMBERS, SHORT_0], LATEST))
        return {each: offset.offset for each, offset in found.items()}


def check_bounds(manifest: Manifest, ends: dict[TopicPartition, int]) -> None:
    """A backup has everything that was acknowledged before it began."""
    for each, end in ends.items():
        backup = topic_of(manifest, each.topic).partitions[each.partition]
        assert backup.end_offset >= end
        assert not backup.has_gaps


def check_topics(server: SawlogServer, manifest: Manifest) -> None:
    with Admin(server.bootstrap) as admin:
        topics = admin.list_topics(include_internal=True)
        assert {topic.name: topic.id for topic in topics} == {
            topic.name: topic.id for topic in manifest.topics
        }
    library = Confluent(server.bootstrap)
    for topic in manifest.topics:
        for each in topic.partitions:
            bounds = (each.start_offset, each.end_offset)
            assert library.bounds(topic.name, each.index) == bounds, (topic.name, each.index)


def check_numbers(server: SawlogServer, backup: TopicBackup) -> None:
    """Record n of a partition has offset n and value n, for librdkafka and for kcat."""
    for each in backup.partitions:
        expected = [b"%d" % number for number in range(each.end_offset)]
        rows = Confluent(server.bootstrap).consume("numbers", each.end_offset, partition=each.index)
        check_same([row.value for row in rows], expected)
        command = [require("kcat"), "-b", server.bootstrap, "-C", "-q", "-e", "-o", "beginning"]
        command += ["-t", "numbers", "-p", str(each.index), "-f", "%o %s\\n"]
        printed = subprocess.run(command, capture_output=True, timeout=GUARD_S, check=True).stdout
        check_same(printed.split(b"\n")[:-1], [b"%s %s" % (n, n) for n in expected])


def check_short(server: SawlogServer, backup: TopicBackup) -> None:
    (each,) = backup.partitions
    assert each.start_offset > 0, "retention deleted nothing"
    count = each.end_offset - each.start_offset
    rows: Any = Confluent(server.bootstrap).consume("short", count, offset=each.start_offset)
    numbers = [int(row.value.split(b" ")[0]) for row in rows]
    check_same(numbers, list(range(each.start_offset, each.end_offset)))


def check_table(server: SawlogServer, backup: TopicBackup) -> None:
    """The topic replays to the same dictionary as all records up to the end of the backup."""
    table = partition("table", 0)
    end = backup.partitions[0].end_offset
    found: dict[bytes | None, bytes | None] = {}
    with Consumer(server.bootstrap) as consumer:
        consumer.assign({table: AT_EARLIEST})
        while consumer.position(table) < end:
            found.update((record.key, record.value) for record in consumer.poll(1_000))
    expected = dict(map(upsert, range(end)))
    assert without_deleted(found) == without_deleted(expected)


def without_deleted(table: dict[bytes | None, bytes | None]) -> dict[bytes | None, bytes]:
    return {key: value for key, value in table.items() if value is not None}


def check_groups(
    server: SawlogServer, backup: TopicBackup, before: dict[TopicPartition, int]
) -> None:
    found = committed(server)
    assert before
    assert found.keys() >= before.keys()
    for each, offset in found.items():
        assert before.get(each, 0) <= offset <= backup.partitions[each.partition].end_offset
