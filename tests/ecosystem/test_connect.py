"""Kafka Connect in distributed mode on Sawlog: file connectors, and MirrorMaker 2 from Kafka."""

from pathlib import Path

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from support.client_libraries.client_library import GUARD_S, Row
from support.client_libraries.confluent_library import Confluent
from support.kafka.connect_worker import BYTES, ConnectWorker
from support.kafka.shared_brokers import QUICK_GROUPS, SharedBrokers
from support.tiers import rounds

LINES = 500  # added before each start of the worker


def source_config(file: Path, topic: str) -> dict[str, str]:
    return {
        "connector.class": "FileStreamSource",
        "file": str(file),
        "topic": topic,
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
    }


def sink_config(file: Path, topic: str) -> dict[str, str]:
    return {"connector.class": "FileStreamSink", "file": str(file), "topics": topic}


def add_lines(file: Path, count: int) -> None:
    """Append numbered lines; no two lines of the file are equal."""
    start = len(file.read_text().splitlines()) if file.exists() else 0
    with file.open("a") as out:
        out.writelines(f"line {number}\n" for number in range(start, start + count))


@pytest.mark.parametrize("restarts", rounds(long=1, soak=20))
def test_a_restarted_worker_continues_at_its_stored_offsets(
    worker: ConnectWorker, confluent: Confluent, topic: str, tmp_path: Path, restarts: int
) -> None:
    written, copied = tmp_path / "written", tmp_path / "copied"
    source, sink = f"source-{topic}", f"sink-{topic}"
    add_lines(written, LINES)
    with (
        worker.running(source, source_config(written, topic)),
        worker.running(sink, sink_config(copied, topic)),
    ):
        for run in range(restarts + 1):
            if run > 0:
                worker.stop()
                add_lines(written, LINES)
                worker.start()
                assert worker.connectors() == {source, sink}
            worker.wait_until(lambda: worker.runs(source) and worker.runs(sink))
            worker.wait_until(lambda: len(copied.read_text()) >= len(written.read_text()))
            assert copied.read_text() == written.read_text()
        lines = (restarts + 1) * LINES
        assert confluent.bounds(topic) == (0, lines)
        place, taken = {"kafka_topic": topic, "kafka_partition": 0}, {"kafka_offset": lines}
        worker.wait_until(lambda: worker.offsets(sink) == [{"partition": place, "offset": taken}])
        position = {"position": written.stat().st_size}
        worker.wait_until(lambda: worker.offsets(source)[0]["offset"] == position)
    worker.wait_until(lambda: worker.connectors() == set())


@pytest.mark.long
def test_the_topics_of_a_worker_are_compacted(worker: ConnectWorker, confluent: Confluent) -> None:
    policies = {
        topic: confluent.topic_config(topic)["cleanup.policy"]
        for topic in worker.internal_topics.values()
    }
    assert policies == dict.fromkeys(policies, "compact")
    assert len(policies) == 3


class Mirror:
    """A topic and a group of Apache Kafka that MirrorMaker 2 copies to the broker under test."""

    def __init__(self, source: Confluent, target: Confluent, topic: str, group: str) -> None:
        self.source, self.target = source, target
        self.topic, self.group = topic, group
        self.copy = f"kafka.{topic}"

    def config(self, connector: str) -> dict[str, str]:
        every_second = ("refresh.topics", "refresh.groups", "emit.checkpoints")
        every_second += ("sync.topic.configs", "sync.group.offsets")
        return {
            "connector.class": f"org.apache.kafka.connect.mirror.{connector}",
            "source.cluster.alias": "kafka",
            "target.cluster.alias": "target",
            "source.cluster.bootstrap.servers": self.source.common["bootstrap.servers"],
            "target.cluster.bootstrap.servers": self.target.common["bootstrap.servers"],
            "topics": self.topic,
            "groups": self.group,
            "sync.group.offsets.enabled": "true",
            "offset.lag.max": "0",  # every offset can be translated
            "consumer.poll.timeout.ms": "100",
            **{f"{task}.interval.seconds": "1" for task in every_second},
            **{f"{kind}.converter": BYTES for kind in ("key", "value", "header")},
            **{
                f"{prefix}replication.factor": "1"
                for prefix in ("", "offset-syncs.topic.", "checkpoints.topic.")
            },
        }

    def commit(self, offset: int) -> None:
        with self.source.consumer(**{"group.id": self.group}) as consumer:
            consumer.commit(offsets=[TopicPartition(self.topic, 0, offset)], asynchronous=False)

    def try_commit(self, offset: int) -> bool:
        """Commit, or return False while Kafka's coordinator is loading."""
        try:
            self.commit(offset)
        except KafkaException:
            return False
        return True

    def copied_offset(self) -> int:
        with self.target.consumer(**{"group.id": self.group}) as consumer:
            wanted = [TopicPartition(self.copy, 0)]
            return int(consumer.committed(wanted, GUARD_S)[0].offset)

    def alter_source(self, key: str, value: str) -> None:
        change = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        topic = ConfigResource(ResourceType.TOPIC, self.topic, incremental_configs=[change])
        admin = self.source.admin()
        admin.incremental_alter_configs([topic])[topic].result(GUARD_S)

    def add_source_partition(self) -> None:
        admin = self.source.admin()
        admin.create_partitions([NewPartitions(self.topic, 2)])[self.topic].result(GUARD_S)

    def copied_partitions(self) -> int:
        return len(self.target.admin().list_topics(self.copy, GUARD_S).topics[self.copy].partitions)

    def consume_copy_in_group(self, count: int) -> list[bytes | None]:
        """Read with the group's copied offsets, as its members do when they move over."""
        with self.target.consumer(**{"group.id": self.group}) as consumer:
            consumer.subscribe([self.copy])
            messages = consumer.consume(count, GUARD_S)
            return [message.value() for message in messages]


@pytest.fixture
def mirror(shared_brokers: SharedBrokers, confluent: Confluent, topic: str) -> Mirror:
    kafka = shared_brokers.get("kafka", QUICK_GROUPS)
    return Mirror(Confluent(kafka.bootstrap), confluent, topic, f"group-of-{topic}")


def orders(first: int, end: int) -> list[Row]:
    return [
        Row(
            None if number % 11 == 0 else b"order %d" % number,
            b"customer %d" % (number % 20),
            (("number", b"%d" % number),),
            timestamp_ms=1_700_000_000_000 + number,
        )
        for number in range(first, end)
    ]


@pytest.mark.long
def test_mirror_maker_copies_records_configs_and_group_offsets(
    worker: ConnectWorker, mirror: Mirror
) -> None:
    config = {"cleanup.policy": "compact", "retention.ms": "123456789"}
    mirror.source.create_topic(mirror.topic, config=config)
    mirror.source.produce(mirror.topic, orders(0, 300))
    worker.wait_until(lambda: mirror.try_commit(300))
    copying = mirror.config("MirrorSourceConnector")
    checkpoints = mirror.config("MirrorCheckpointConnector")
    with (
        worker.running(f"copy-{mirror.topic}", copying),
        worker.running(f"checkpoints-{mirror.topic}", checkpoints),
    ):
        assert mirror.target.consume(mirror.copy, 300) == orders(0, 300)
        assert config.items() <= mirror.target.topic_config(mirror.copy).items()
        worker.wait_until(lambda: mirror.copied_offset() == 300)
        mirror.source.produce(mirror.topic, orders(300, 340))
        expected = [row.value for row in orders(300, 340)]
        assert mirror.consume_copy_in_group(40) == expected
        mirror.alter_source("retention.ms", "987654321")
        mirror.add_source_partition()
        worker.wait_until(lambda: mirror.copied_partitions() == 2)
        worker.wait_until(
            lambda: mirror.target.topic_config(mirror.copy)["retention.ms"] == "987654321"
        )
