"""Batches whose records the broker reads: checks, conversion, and which batches it reads at all."""

from typing import Any

import pytest

from sawlog.broker import batch_validation
from sawlog.broker.batch_validation import MAX_RECORDS, InvalidRecords, prepare
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.compression import Codec, compress, decompress
from sawlog.protocol.record_batch import (
    HEADER_SIZE,
    BatchHeader,
    check_crc,
    read_header,
    set_max_timestamp,
)
from sawlog.protocol.records import Record, build_batch
from sawlog.storage.log_config import FOREVER, LogConfig
from support.broker.requests import (
    NAMED,
    TOPIC,
    answers,
    batch_of,
    fetch,
    machine_with_topic,
    produce,
    values,
)
from support.protocol.batches import raw_batch, raw_record

NOW = 1_700_000_000_000
COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}))
BOUNDED = LogConfig(timestamp_before_max_ms=1_000, timestamp_after_max_ms=500)
LOREM = b"all work and no play makes a dull log, "


def prepared(
    batch: bytes | bytearray, config: LogConfig, now_ms: int = NOW
) -> tuple[bytes, BatchHeader]:
    """The batch that is appended, whose header must be the returned one."""
    result, header = prepare(memoryview(bytearray(batch)), read_header(batch), config, now_ms)
    assert read_header(result) == header
    check_crc(result, header)
    return bytes(result), header


def rejection(batch: bytes | bytearray, config: LogConfig) -> KafkaError:
    """The error, after which the bytes of the batch are the same as before."""
    view = bytearray(batch)
    with pytest.raises(KafkaError) as raised:
        prepare(memoryview(view), read_header(view), config, NOW)
    assert view == batch
    return raised.value


def positions(error: KafkaError) -> list[int]:
    assert isinstance(error, InvalidRecords)
    return [position for position, _ in error.records]


def timed(*times: int, **more: Any) -> bytes:
    return bytes(build_batch([Record(0, at, b"k", b"v") for at in times], **more))


@pytest.mark.parametrize("source", Codec)
@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_conversion_keeps_the_bytes_of_records_and_the_producer(source: Codec, wanted: str) -> None:
    body = b"".join(
        raw_record(
            index,
            attributes=index,
            timestamp=index * 7 - 10,
            headers=b"\x04\x06\xff\xfeh\x02v\x06\xc3\x28k\x01",  # keys that are not UTF-8
        )
        for index in range(3)
    )
    fields = {"producer_id": 9, "producer_epoch": 4, "base_sequence": 2**31 - 2}
    sent = raw_batch(
        compress(source, body),
        attributes=source | 0x10,
        count=3,
        last_offset_delta=2,
        base_timestamp=NOW - 100,
        max_timestamp=NOW - 96,
        **fields,
    )
    config = LogConfig(compression_type=wanted)
    result, header = prepared(sent, config)
    codec = Codec.NONE if wanted == "uncompressed" else Codec[wanted.upper()]
    assert header.codec == codec
    assert decompress(codec, result[HEADER_SIZE:], 10_000) == body
    changed = {"length", "crc", "attributes"}
    before, after = read_header(sent)._asdict(), header._asdict()
    assert {name for name in before if before[name] != after[name]} <= changed
    assert header.is_transactional
    assert (result == sent) == (codec is source)


@pytest.mark.parametrize(
    ("codec", "levels"), [("gzip", (1, 9)), ("lz4", (1, 17)), ("zstd", (-50, 19)), ("lz4", (9, 12))]
)
def test_a_topic_has_its_compression_level(codec: str, levels: tuple[int, int]) -> None:
    words = b"".join(LOREM + str(number * 7919 % 1000).encode() for number in range(2_000))
    sizes = []
    for level in levels:
        configs = {"compression.type": codec, f"compression.{codec}.level": str(level)}
        machine = machine_with_topic(configs=configs)
        assert answers(machine.ask(produce(batch_of(machine, words)), NAMED)) == [(0, 0)]
        assert values(machine.ask(fetch(0), NAMED)) == [[words]]
        sizes.append(machine.broker.replicas.by_partition[TOPIC, 0].log.size_bytes)
    assert sizes[1] < sizes[0]


def test_the_level_of_the_broker_is_the_default_of_topics() -> None:
    settings = {"compression_type": "gzip", "compression_gzip_level": "9"}
    log = machine_with_topic(**settings).broker.replicas.by_partition[TOPIC, 0].log
    assert (log.config.compression_type, log.config.compression_level) == ("gzip", 9)


def test_a_batch_in_the_codec_of_the_topic_is_not_compressed_again() -> None:
    words = [Record(0, NOW, b"k", LOREM * 100)]
    sent = build_batch(words, codec=Codec.GZIP)
    result, _ = prepared(sent, LogConfig(compression_type="gzip", compression_level=9))
    assert result == sent


def test_conversion_beyond_max_message_bytes_is_rejected() -> None:
    sent = build_batch([Record(0, NOW, b"k", bytes(500))], codec=Codec.ZSTD)
    config = LogConfig(compression_type="uncompressed", max_message_bytes=500)
    error = rejection(sent, config)
    assert error.code is ErrorCode.MESSAGE_TOO_LARGE
    assert "max.message.bytes" in error.message


def test_records_that_decompress_beyond_the_limit_are_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batch_validation, "MAX_DECOMPRESSED_BYTES", 1_000)
    bomb = build_batch([Record(0, NOW, b"k", bytes(2_000))], codec=Codec.ZSTD)
    assert rejection(bomb, COMPACTED).code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_with_more_records_than_are_read_is_too_large() -> None:
    """Producers split a batch that is too large."""
    count = MAX_RECORDS + 1
    batch = raw_batch(count=count, last_offset_delta=count - 1)
    assert rejection(batch, COMPACTED).code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("policy", [{"compact"}, {"compact", "delete"}])
@pytest.mark.parametrize("codec", Codec)
def test_compacted_topics_need_a_key_in_every_record(policy: set[str], codec: Codec) -> None:
    config = LogConfig(cleanup_policy=frozenset(policy))
    keys = [None, b"", b"k", None]
    batch = build_batch([Record(0, NOW, key, b"v") for key in keys], codec=codec)
    error = rejection(batch, config)
    assert error.code is ErrorCode.INVALID_RECORD
    assert positions(error) == [0, 3]
    prepared(batch, LogConfig(compression_type="uncompressed"))


def test_wrong_offset_deltas_are_listed() -> None:
    body = b"".join(raw_record(delta) for delta in (0, 2, 1, 3))
    error = rejection(raw_batch(body, count=4, last_offset_delta=3), COMPACTED)
    assert error.code is ErrorCode.INVALID_RECORD
    assert positions(error) == [1, 2]


@pytest.mark.parametrize("config", [COMPACTED, BOUNDED, LogConfig(compression_type="zstd")])
@pytest.mark.parametrize(
    "batch",
    [
        raw_batch(b"\xff" * 20),
        raw_batch(raw_record(0) + b"\0"),
        raw_batch(b"not compressed", attributes=Codec.LZ4),
    ],
)
def test_unreadable_records_are_invalid(batch: bytearray, config: LogConfig) -> None:
    """Not CORRUPT_MESSAGE: a producer would send the same bytes again."""
    error = rejection(batch, config)
    assert error.code is ErrorCode.INVALID_RECORD
    assert error.message


@pytest.mark.parametrize("codec", Codec)
def test_each_timestamp_is_checked_against_both_bounds(codec: Codec) -> None:
    times = (NOW, NOW - 1_000, NOW - 1_001, NOW + 500, NOW + 501, -1)
    error = rejection(timed(*times, codec=codec), BOUNDED)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert positions(error) == [2, 4]
    within = timed(NOW - 1_000, NOW + 500, -1, codec=codec)
    assert prepared(within, BOUNDED)[0] == within


def test_invalid_timestamps_count_more_than_missing_keys() -> None:
    """As in Kafka, a record without a key is not checked further."""
    config = LogConfig(cleanup_policy=frozenset({"compact"}), timestamp_before_max_ms=1_000)
    records = [Record(0, 5, None, b"v"), Record(0, NOW, None, b"v")]
    assert rejection(build_batch(records), config).code is ErrorCode.INVALID_RECORD
    error = rejection(build_batch([*records, Record(0, 5, b"k", b"v")]), config)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert positions(error) == [0, 1, 2]


def test_timestamps_that_overflow_are_those_that_a_reader_gets() -> None:
    """The base timestamp and the delta add up to the smallest 64-bit number."""
    body = raw_record(0, timestamp=1)
    batch = raw_batch(body, base_timestamp=FOREVER, max_timestamp=FOREVER)
    error = rejection(batch, LogConfig(timestamp_after_max_ms=FOREVER))
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert str(-(2**63)) in error.message


def test_bounds_do_not_apply_to_log_append_time() -> None:
    config = LogConfig(
        timestamp_type="LogAppendTime",
        timestamp_before_max_ms=1_000,
        cleanup_policy=frozenset({"compact"}),
    )
    batch = timed(5, 2 * NOW)
    assert prepared(batch, config)[0] == batch


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("wrong", [-1, 0, NOW - 6, NOW + 400, 2 * NOW])
def test_the_maximum_timestamp_becomes_that_of_the_records(codec: Codec, wrong: int) -> None:
    sent = timed(NOW - 5, NOW - 9, codec=codec)
    wrong_batch = bytearray(sent)
    set_max_timestamp(memoryview(wrong_batch), wrong)
    assert prepared(wrong_batch, COMPACTED)[0] == sent


@pytest.mark.parametrize(
    ("difference_ms", "is_corrected"),
    [(0, False), (1, False), (500, False), (501, True), (-1, True), (-(10**12), True)],
)
def test_a_suspect_maximum_timestamp_is_corrected(difference_ms: int, is_corrected: bool) -> None:
    """It is beyond message.timestamp.after.max.ms or before the first record's."""
    machine = machine_with_topic(configs={"message.timestamp.after.max.ms": "500"})
    batch = bytearray(batch_of(machine, b"a"))
    right = read_header(batch).max_timestamp
    wrong = right + difference_ms
    set_max_timestamp(memoryview(batch), wrong)
    assert answers(machine.ask(produce(bytes(batch), acks=1), NAMED)) == [(0, 0)]
    log = machine.broker.replicas.by_partition[TOPIC, 0].log
    (stored,) = (segment.newest_ms for segment in log.segments)
    assert stored == (right if is_corrected else wrong)


@pytest.mark.parametrize(
    ("settings", "reads"),
    [
        ({}, False),
        ({"timestamp_after_max_ms": 5}, False),
        ({"timestamp_before_max_ms": 5}, True),
        ({"timestamp_before_max_ms": 5, "timestamp_type": "LogAppendTime"}, False),
        ({"compression_type": "uncompressed"}, True),
        ({"cleanup_policy": frozenset({"compact", "delete"})}, True),
    ],
)
def test_only_some_topics_have_the_records_of_all_batches_read(
    settings: dict[str, Any], reads: bool
) -> None:
    assert LogConfig(**settings).reads_records is reads


def test_nothing_of_an_invalid_batch_is_appended() -> None:
    machine = machine_with_topic(partitions=2, configs={"cleanup.policy": "compact"})
    good, bad = batch_of(machine, b"a", b"b"), batch_of(machine, b"a", key=None)
    response = machine.ask(produce(bad, good), NAMED)
    assert answers(response) == [(int(ErrorCode.INVALID_RECORD), -1), (0, 0)]
    assert [
        machine.broker.replicas.by_partition[TOPIC, index].log.end_offset for index in (0, 1)
    ] == [0, 2]
