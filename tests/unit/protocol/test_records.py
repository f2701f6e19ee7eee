"""Records in batches: round trips, and invalid bytes."""

from typing import Any

import pytest

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.compression import Codec, compress
from sawlog.protocol.record_batch import check_crc, check_produced, read_header
from sawlog.protocol.records import BatchBuilder, Record, build_batch, iterate
from sawlog.protocol.varint import encode_varint, read_varint
from support.protocol.batches import raw_batch

LIMIT = 100_000_000
RECORDS = [
    Record(0, 1_000, b"key", b"value", (("name", b"content"), ("null", None), ("ü", b""))),
    Record(1, 1_500, None, b"v" * 1_000),
    Record(2, 900, b"", None),
    Record(3, 1_000, b"k" * 70, b""),
]


def read(batch: bytes | bytearray, limit: int = LIMIT) -> list[Record]:
    return list(iterate(batch, max_decompressed_bytes=limit))


def error_code_of(batch: bytes | bytearray, limit: int = LIMIT) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        read(batch, limit)
    return raised.value.code


@pytest.mark.parametrize("codec", Codec)
def test_records_round_trip(codec: Codec) -> None:
    batch = build_batch(RECORDS, codec=codec)
    assert read(batch) == RECORDS
    header = check_produced(memoryview(batch), max_batch_bytes=LIMIT)
    assert (header.base_timestamp, header.max_timestamp) == (1_000, 1_500)
    assert (header.count, header.last_offset_delta, header.codec) == (4, 3, codec)


def test_offsets_count_from_the_base_offset() -> None:
    assert [record.offset for record in read(build_batch(RECORDS, base_offset=70))] == [
        70,
        71,
        72,
        73,
    ]


def test_the_builder_sets_all_header_fields() -> None:
    batch = build_batch(
        RECORDS,
        base_offset=5,
        leader_epoch=6,
        producer_id=7,
        producer_epoch=8,
        base_sequence=9,
        transactional=True,
        control=True,
        timestamp_type=1,
    )
    header = read_header(batch)
    check_crc(batch, header)
    assert (header.base_offset, header.leader_epoch) == (5, 6)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 8, 9)
    assert header.is_transactional
    assert header.is_control
    assert header.timestamp_type == 1


def test_log_append_time_is_the_timestamp_of_every_record() -> None:
    batch = build_batch(RECORDS, timestamp_type=1)
    assert {record.timestamp for record in read(batch)} == {1_500}


@pytest.mark.parametrize(
    ("base", "distance", "timestamp"),
    [
        (5, 2**63 - 1, -(2**63) + 4),
        (-5, -(2**63), 2**63 - 5),
        (2**63 - 1, 1, -(2**63)),
        (-1, -(2**63) + 1, -(2**63)),
        (0, 2**63 - 1, 2**63 - 1),
    ],
)
def test_timestamps_overflow_as_in_java(base: int, distance: int, timestamp: int) -> None:
    record = b"\x00" + encode_varint(distance) + b"\x00\x01\x00\x00"
    batch = raw_batch(encode_varint(len(record)) + record, base_timestamp=base)
    assert [record.timestamp for record in read(batch)] == [timestamp]


def test_a_builder_knows_its_size_before_compression() -> None:
    builder = BatchBuilder()
    for record in RECORDS:
        builder.append(record.timestamp, record.key, record.value, record.headers)
    assert builder.size == len(builder.finish())
    assert builder.count == len(RECORDS)


def test_a_batch_emptied_by_compaction_has_no_records() -> None:
    assert read(raw_batch(b"", count=0, last_offset_delta=9)) == []


def test_a_header_key_that_is_not_utf_8_is_decoded_with_replacements() -> None:
    body = bytes.fromhex("14 00 00 00 01 01 02 04 ff41 01")
    ((name, value),) = read(raw_batch(body))[0].headers
    assert (name, value) == ("\ufffdA", None)


WRONG_BODIES = {
    "nothing": b"",
    "length below zero": b"\x01\x00\x00\x00\x01\x00\x00",
    "length too small": b"\x0a\x00\x00\x00\x01\x00\x00",
    "length too large": b"\x0e\x00\x00\x00\x01\x00\x00",
    "bytes after the last": b"\x0c\x00\x00\x00\x01\x00\x00\x00",
    "key past the end": b"\x0c\x00\x00\x00\x7e\x00\x00",
    "key of minus two": b"\x0c\x00\x00\x00\x03\x00\x00",
    "value past the end": b"\x0c\x00\x00\x00\x01\x7e\x00",
    "value longer than all memory": b"\x14\x00\x00\x00\x01\xfe\xff\xff\xff\x0f\x00",
    "headers below zero": b"\x0c\x00\x00\x00\x01\x00\x01",
    "headers past the end": b"\x0c\x00\x00\x00\x01\x00\x7e",
    "billions of headers": b"\x14\x00\x00\x00\x01\x00\xfe\xff\xff\xff\x0f",
    "header without a name": b"\x10\x00\x00\x00\x01\x00\x02\x01\x01",
    "endless number": b"\xff" * 40,
}


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("body", WRONG_BODIES.values(), ids=WRONG_BODIES.keys())
def test_an_invalid_record_is_corrupt(body: bytes, codec: Codec) -> None:
    batch = raw_batch(compress(codec, body), attributes=int(codec))
    assert error_code_of(batch) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("count", [2, 2**31 - 1])
def test_a_wrong_record_count_is_corrupt(count: int) -> None:
    assert error_code_of(raw_batch(count=count)) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("wrong", [{"magic": 1}, {"length": 48}, {"length": 70}, {"length": -1}])
def test_an_incomplete_batch_is_corrupt(wrong: dict[str, Any]) -> None:
    assert error_code_of(raw_batch(**wrong)) is ErrorCode.CORRUPT_MESSAGE


def test_a_batch_that_decompresses_beyond_the_limit_is_too_large() -> None:
    batch = build_batch([Record(0, 0, None, bytes(1_000_000))], codec=Codec.ZSTD)
    assert error_code_of(batch, limit=999_999) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("value", [0, -1, 63, 64, -64, -65, 1023, 1024, 2**31, 2**63 - 1, -(2**63)])
def test_varints_round_trip(value: int) -> None:
    encoded = encode_varint(value)
    assert read_varint(b"xx" + encoded, 2) == (value, 2 + len(encoded))


def test_varints_have_64_bits() -> None:
    with pytest.raises(ValueError, match="64 bits"):
        encode_varint(2**63)
