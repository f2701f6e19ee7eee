"""Records are consumed as they were produced, with every client library."""

import os

import pytest
from confluent_kafka import TopicPartition

from sawlog.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from sawlog.protocol.record_batch import batches_in
from support.client_libraries.aiokafka_library import AioKafka
from support.client_libraries.client_library import (
    CODECS,
    GUARD_S,
    BrokerError,
    ClientLibrary,
    RecordMetadata,
    Row,
)
from support.client_libraries.confluent_library import Confluent
from support.client_libraries.kafka_python_library import KafkaPython
from support.protocol.wire import Wire
from support.same import check_same

MESSAGE_TOO_LARGE = 10
LARGEST_BYTES = 10_000_000

ROWS = [
    Row(b"plain"),
    Row(b"keyed", key=b"k"),
    Row(b"", key=b"empty value"),
    Row(b"empty key", key=b""),
    Row(None, key=b"tombstone"),
    Row(b"header", headers=(("name", b"value"),)),
    Row(
        b"headers", key=b"k", headers=(("twice", b"1"), ("twice", b"2"), ("", b""), ("ünï", b"\0"))
    ),
    Row(bytes(range(256)), key=bytes(range(256))),
    Row(b"early", timestamp_ms=1),
    Row(b"late", timestamp_ms=1_700_000_000_123),
    Row(b"squeezable" * 1_000, key=b"squeezable" * 10),
]


@pytest.mark.parametrize("codec", CODECS)
def test_records_are_consumed_as_they_were_produced(
    library: ClientLibrary, broker, create_topic, topic, codec
) -> None:
    create_topic(topic)
    metadata = library.produce(topic, ROWS, codec=codec)
    assert metadata == [RecordMetadata(0, offset) for offset in range(len(ROWS))]
    assert library.consume(topic, len(ROWS)) == ROWS
    assert codec in codecs_stored(broker, topic)  # a small batch may be stored uncompressed


def codecs_stored(broker, topic: str) -> set[str]:
    """The codecs of the batches in a Fetch response."""
    partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(max_wait_ms=0, topics=[FetchTopic(topic, partitions=[partition])])
    with Wire(broker.host, broker.port) as wire:
        answer = wire.ask(request, 11)
    assert answer is not None
    records = answer.responses[0].partitions[0].records
    return {CODECS[header.codec] for _, header in batches_in(records)}


@pytest.mark.parametrize("codec", CODECS)
def test_every_library_reads_the_records_of_every_library(
    broker, create_topic, topic, codec
) -> None:
    create_topic(topic)
    libraries = [kind(broker.bootstrap) for kind in (Confluent, KafkaPython, AioKafka)]
    for writer in libraries:
        writer.produce(topic, ROWS, codec=codec)
    for reader in libraries:
        assert reader.consume(topic, len(ROWS) * len(libraries)) == ROWS * len(libraries)


@pytest.mark.parametrize("size", [1, 1_000, 1_000_000, LARGEST_BYTES])
def test_records_of_any_size_are_kept(library: ClientLibrary, create_topic, topic, size) -> None:
    create_topic(topic, max_message_bytes=str(LARGEST_BYTES + 1_000))
    rows = [Row(os.urandom(size)), Row(b"after"), Row(os.urandom(size))]
    library.produce(topic, rows)
    check_same(library.consume(topic, len(rows)), rows)


@pytest.mark.parametrize("partitions", [1, 7, 100])
def test_records_stay_in_their_partitions(library: ClientLibrary, create_topic, topic, partitions):
    create_topic(topic, partitions)
    rows = [Row(b"%d" % number, partition=number % partitions) for number in range(300)]
    library.produce(topic, rows)
    for partition in {0, partitions // 2, partitions - 1}:
        expected = [row for row in rows if row.partition == partition]
        assert library.bounds(topic, partition) == (0, len(expected))
        assert library.consume(topic, len(expected), partition=partition) == expected


def test_consuming_starts_at_any_offset(library: ClientLibrary, create_topic, topic) -> None:
    create_topic(topic)
    rows = [Row(b"%d" % number) for number in range(100)]
    library.produce(topic, rows, codec="gzip")
    for offset in (0, 1, 50, 99):
        assert library.consume(topic, 100 - offset, offset=offset) == rows[offset:]


def test_idempotent_producers_write_each_record_once(library: ClientLibrary, create_topic, topic):
    create_topic(topic, 3)
    rows = [Row(b"%d" % number, partition=number % 3) for number in range(600)]
    library.produce(topic, rows, idempotent=True)
    library.produce(topic, rows, idempotent=True)
    for partition in range(3):
        expected = [row for row in rows if row.partition == partition]
        assert library.consume(topic, 400, partition=partition) == expected * 2


@pytest.mark.parametrize("acks", ["1", "all"])
def test_offsets_are_returned_with_acks_1_and_all(
    library: ClientLibrary, create_topic, topic, acks
) -> None:
    create_topic(topic)
    metadata = library.produce(topic, [Row(b"a"), Row(b"b")], acks=acks)
    assert metadata == [RecordMetadata(0, 0), RecordMetadata(0, 1)]


def test_records_with_acks_0_are_appended(confluent: Confluent, create_topic, topic) -> None:
    create_topic(topic)
    confluent.produce(topic, [Row(b"a"), Row(b"b")], acks="0")
    assert confluent.consume(topic, 2) == [Row(b"a"), Row(b"b")]


def test_a_waiting_consumer_gets_new_records(confluent: Confluent, create_topic, topic) -> None:
    create_topic(topic, 2)
    confluent.produce(topic, [Row(b"old"), Row(b"old", partition=1)])
    with confluent.consumer(**{"fetch.wait.max.ms": 20_000}) as consumer:
        consumer.assign([TopicPartition(topic, index, 1) for index in (0, 1)])
        assert consumer.poll(0.5) is None
        for index in (1, 0, 1):
            confluent.produce(topic, [Row(b"new", partition=index)])
            message = consumer.poll(GUARD_S)
            assert (message.value(), message.partition()) == (b"new", index)


def test_offsets_are_found_by_timestamp(library: ClientLibrary, create_topic, topic) -> None:
    create_topic(topic)
    start = 1_700_000_000_000
    rows = [Row(b"%d" % number, timestamp_ms=start + number * 1_000) for number in range(50)]
    library.produce(topic, rows[:10])
    library.produce(topic, rows[10:])
    assert library.offset_at(topic, 0) == 0
    assert library.offset_at(topic, start + 20_000) == 20
    assert library.offset_at(topic, start + 20_001) == 21
    assert library.offset_at(topic, start + 49_001) is None


def test_a_record_larger_than_the_topic_allows_is_refused(
    library: ClientLibrary, create_topic, topic
):
    create_topic(topic, max_message_bytes="1000")
    with pytest.raises(BrokerError) as error:
        library.produce(topic, [Row(os.urandom(2_000))])
    assert error.value.code == MESSAGE_TOO_LARGE
    library.produce(topic, [Row(b"small")])
    assert library.consume(topic, 1) == [Row(b"small")]


def test_a_topic_is_created_by_the_first_record(library: ClientLibrary, topic) -> None:
    library.produce(topic, [Row(b"first")])
    assert library.consume(topic, 1) == [Row(b"first")]
