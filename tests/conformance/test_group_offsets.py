"""Offsets that one client library commits are read by all, also after a restart, and are printed by
Kafka's formatter."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import TopicPartition as AioPartition
from aiokafka.structs import OffsetAndMetadata as AioOffset
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import OffsetAndMetadata, TopicPartition

from support.client_libraries.aiokafka_library import AioKafka
from support.client_libraries.aiokafka_library import run as run_async
from support.client_libraries.client_library import GUARD_S, Row
from support.client_libraries.confluent_library import Confluent
from support.client_libraries.kafka_python_library import KafkaPython
from support.kafka.kafka_broker import run_tool
from support.kafka.recordings import RECORDINGS
from support.kafka.shared_brokers import START, Server

Committed = tuple[int, str] | None
"""Offset and metadata, or None without a commit."""

WORDS = "words"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
FORMATTER = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"
ONE_PARTITION = {"offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "1"}


def trimmed(metadata: str | None) -> str:
    """confluent-kafka writes and reads one byte too many, with any broker."""
    return (metadata or "")[: len(WORDS)]


class WithConfluent:
    def __init__(self, bootstrap: str) -> None:
        self._library = Confluent(bootstrap)

    def commit(self, group: str, topic: str, offset: int, metadata: str) -> None:
        place = ConfluentPartition(topic, 0, offset, metadata)
        with self._library.consumer(**{"group.id": group}) as consumer:
            consumer.assign([ConfluentPartition(topic, 0, 0)])
            consumer.commit(offsets=[place], asynchronous=False)

    def committed(self, group: str, topic: str) -> Committed:
        with self._library.consumer(**{"group.id": group}) as consumer:
            [found] = consumer.committed([ConfluentPartition(topic, 0)], timeout=GUARD_S)
            assert found.error is None
            return None if found.offset < 0 else (found.offset, trimmed(found.metadata))

    def next_value(self, group: str, topic: str) -> bytes | None:
        settings = {"group.id": group, "auto.offset.reset": "earliest"}
        with self._library.consumer(**settings) as consumer:
            consumer.assign([ConfluentPartition(topic, 0)])
            message = consumer.poll(GUARD_S)
            assert message is not None
            assert message.error() is None
            value: bytes | None = message.value()
            return value


class WithKafkaPython:
    def __init__(self, bootstrap: str) -> None:
        self._library = KafkaPython(bootstrap)

    def commit(self, group: str, topic: str, offset: int, metadata: str) -> None:
        place = TopicPartition(topic, 0)
        with self._library.consumer(group_id=group) as consumer:
            consumer.assign([place])
            consumer.commit({place: OffsetAndMetadata(offset, metadata, -1)})

    def committed(self, group: str, topic: str) -> Committed:
        with self._library.consumer(group_id=group) as consumer:
            found = consumer.committed(TopicPartition(topic, 0), metadata=True)
            return None if found is None else (found.offset, trimmed(found.metadata))

    def next_value(self, group: str, topic: str) -> bytes | None:
        with self._library.consumer(group_id=group, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            value: bytes | None = next(consumer).value
            return value


class WithAioKafka:
    def __init__(self, bootstrap: str) -> None:
        self._library = AioKafka(bootstrap)

    def commit(self, group: str, topic: str, offset: int, metadata: str) -> None:
        place = AioPartition(topic, 0)

        async def work() -> None:
            async with self._library.consumer(group_id=group) as consumer:
                consumer.assign([place])
                await consumer.commit({place: AioOffset(offset, metadata)})

        run_async(work())

    def committed(self, group: str, topic: str) -> Committed:
        async def work() -> int | None:
            async with self._library.consumer(group_id=group) as consumer:
                offset: int | None = await consumer.committed(AioPartition(topic, 0))
                return offset

        offset = run_async(work())
        return None if offset is None else (offset, WORDS)  # the library does not return metadata

    def next_value(self, group: str, topic: str) -> bytes | None:
        async def work() -> bytes | None:
            settings = {"group_id": group, "auto_offset_reset": "earliest"}
            async with self._library.consumer(**settings) as consumer:
                consumer.assign([AioPartition(topic, 0)])
                value: bytes | None = (await consumer.getone()).value
                return value

        return run_async(work())


LIBRARIES = {"confluent": WithConfluent, "kafka-python": WithKafkaPython, "aiokafka": WithAioKafka}


@pytest.fixture(scope="module")
def restartable(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A broker for this module only, because tests restart it."""
    with START[target](tmp_path_factory.mktemp("offsets"), ONE_PARTITION) as server:
        coordinator_is_ready(server)
        yield server


def coordinator_is_ready(server: Server) -> None:
    """Wait until groups are loaded; not every client retries COORDINATOR_LOAD_IN_PROGRESS."""
    library = WithConfluent(server.bootstrap)

    def answers() -> bool:
        try:
            library.committed("nobody", "nowhere")
        except KafkaException:
            return False
        return True

    until(answers)


def until(is_so: Callable[[], bool]) -> None:
    for _ in range(1_000):
        if is_so():
            return
    pytest.fail("it never came")


@pytest.fixture
def filled(restartable: Server, topic: str) -> str:
    """A topic with ten records."""
    library = Confluent(restartable.bootstrap)
    library.create_topic(topic)
    library.produce(topic, [Row(b"%d" % number) for number in range(10)])
    return topic


@pytest.mark.parametrize("writer", sorted(LIBRARIES))
def test_all_libraries_read_the_commits_of_each(
    restartable: Server, filled: str, writer: str
) -> None:
    LIBRARIES[writer](restartable.bootstrap).commit(filled, filled, 7, WORDS)
    for reader in LIBRARIES.values():
        library = reader(restartable.bootstrap)
        assert library.committed(filled, filled) == (7, WORDS)
        assert library.committed("another group", filled) is None
        assert library.next_value(filled, filled) == b"7"


@pytest.mark.parametrize("name", sorted(LIBRARIES))
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_consumer_continues_at_its_commit_after_a_restart(
    restartable: Server, filled: str, name: str, end: str
) -> None:
    library = LIBRARIES[name](restartable.bootstrap)
    library.commit(filled, filled, 2, WORDS)
    library.commit(filled, filled, 4, WORDS)
    getattr(restartable, end)()
    restartable.start()
    coordinator_is_ready(restartable)
    assert library.committed(filled, filled) == (4, WORDS)
    assert library.next_value(filled, filled) == b"4"


def test_a_recreated_topic_is_read_from_its_beginning(restartable: Server, filled: str) -> None:
    library = WithConfluent(restartable.bootstrap)
    library.commit(filled, filled, 7, WORDS)
    confluent = Confluent(restartable.bootstrap)
    admin = confluent.admin()
    admin.delete_topics([filled])[filled].result(GUARD_S)
    until(lambda: filled not in admin.list_topics().topics)
    confluent.create_topic(filled)
    confluent.produce(filled, [Row(b"new")])
    assert library.committed(filled, filled) is None
    assert library.next_value(filled, filled) == b"new"


def test_kafka_pythons_admin_moves_and_deletes_offsets(restartable: Server, filled: str) -> None:
    place = TopicPartition(filled, 0)
    with KafkaPython(restartable.bootstrap).admin() as admin:
        admin.alter_group_offsets(filled, {place: OffsetAndMetadata(3, "moved", -1)})
        found = admin.list_group_offsets([filled])
        assert found[filled][place].offset == 3
        assert filled in {group["group_id"] for group in admin.list_groups()}
        admin.delete_group_offsets(filled, [place])
        assert admin.list_group_offsets([filled])[filled] == {}
        admin.delete_groups([filled])
        assert filled not in {group["group_id"] for group in admin.list_groups()}


def test_confluents_admin_moves_offsets_and_deletes_groups(
    restartable: Server, filled: str
) -> None:
    admin = Confluent(restartable.bootstrap).admin()
    moved = ConsumerGroupTopicPartitions(filled, [ConfluentPartition(filled, 0, 3)])
    [future] = admin.alter_consumer_group_offsets([moved]).values()
    future.result(GUARD_S)
    asked = ConsumerGroupTopicPartitions(filled)
    [future] = admin.list_consumer_group_offsets([asked]).values()
    [place] = future.result(GUARD_S).topic_partitions
    assert (place.topic, place.partition, place.offset) == (filled, 0, 3)
    listed = admin.list_consumer_groups().result(GUARD_S)
    [group] = [group for group in listed.valid if group.group_id == filled]
    assert group.is_simple_consumer_group
    [future] = admin.describe_consumer_groups([filled]).values()
    assert future.result(GUARD_S).members == []
    [future] = admin.delete_consumer_groups([filled]).values()
    future.result(GUARD_S)
    assert WithConfluent(restartable.bootstrap).committed(filled, filled) is None


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("sawlog", marks=pytest.mark.long),
        pytest.param("kafka", marks=pytest.mark.soak),
    ],
)
def test_kafkas_formatter_prints_our_records_like_those_of_kafka(kind: str, tmp_path: Path) -> None:
    """Its output for Kafka's records is recorded; `SAWLOG_RECORD=1` writes the recording."""
    with START[kind](tmp_path, ONE_PARTITION) as server:
        printed = print_offsets(server)
    recording = RECORDINGS / "offsets-formatter.json"
    if kind == "kafka" and os.environ.get("SAWLOG_RECORD") == "1":
        recording.write_text(json.dumps(printed, indent=1) + "\n")
    assert printed == json.loads(recording.read_text())
    offsets = [record["value"] and record["value"]["data"]["offset"] for record in printed]
    assert offsets == [2, 4, 5, None]


def print_offsets(server: Server) -> list[Any]:
    """Commit twice in one group and once in another, which is then deleted."""
    coordinator_is_ready(server)
    Confluent(server.bootstrap).create_topic("t")
    library = WithKafkaPython(server.bootstrap)
    library.commit("g", "t", 2, "first")
    library.commit("g", "t", 4, "")
    library.commit("h", "t", 5, "wörds")
    admin = Confluent(server.bootstrap).admin()
    [future] = admin.delete_consumer_groups(["h"]).values()
    future.result(GUARD_S)
    place = ("--topic", "__consumer_offsets", "--partition", "0", "--offset", "earliest")
    _, end = Confluent(server.bootstrap).bounds("__consumer_offsets")
    done = run_tool(
        CONSUMER,
        "--bootstrap-server",
        server.bootstrap,
        *place,
        "--formatter",
        FORMATTER,
        "--max-messages",
        str(end),
    )
    records = list(documents(done.stdout))
    for record in records:
        if record["value"]:
            data = record["value"]["data"]
            assert data.pop("commitTimestamp") > 0
            assert data.pop("topicId")
    return records


def documents(text: str) -> Iterator[Any]:
    """Parse the output of the formatter: JSON objects without separators."""
    decoder = json.JSONDecoder()
    position = text.find("{")
    while position >= 0:
        document, position = decoder.raw_decode(text, position)
        yield document
        position = text.find("{", position)
