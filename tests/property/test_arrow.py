"""Arrow columns equal records that are decoded one by one, and fail with the same errors."""

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.checksum import crc32c
from sawlog.protocol.compression import Codec, compress
from sawlog.protocol.record_batch import read_header
from sawlog.protocol.records import Record, build_batch, iterate
from sawlog.protocol.varint import encode_varint
from support.client.arrow_rows import LIMIT, PLACE, Row, decode, fetched, rows_of
from support.protocol.batches import raw_batch

BODY_START = 61
BYTES = st.none() | st.binary(max_size=200)
TEXTS = st.text(max_size=20)
RECORDS = st.lists(
    st.builds(
        Record,
        offset=st.just(0),
        timestamp=st.integers(-(2**62), 2**62 - 1),
        key=BYTES,
        value=BYTES | st.binary(min_size=5_000, max_size=9_000),
        headers=st.lists(st.tuples(TEXTS, BYTES), max_size=4).map(tuple),
    ),
    min_size=1,
    max_size=30,
)
CHANGES = st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=4)


def wrapped(number: int) -> int:
    """Wrap to 64 bits; larger numbers come only from an attacker."""
    return (number + 2**63) % 2**64 - 2**63


def one_by_one(batch: bytes | bytearray, low: int, high: int) -> list[Row] | ErrorCode:
    header = read_header(batch)
    try:
        records = list(iterate(batch, max_decompressed_bytes=LIMIT))
    except KafkaError as refused:
        return refused.code
    deltas = [wrapped(record.offset - header.base_offset) for record in records]
    if deltas != sorted(set(deltas)) or any(not 0 <= d <= header.last_offset_delta for d in deltas):
        return ErrorCode.CORRUPT_MESSAGE
    return [
        Row(*PLACE, record.offset, wrapped(record.timestamp), header.timestamp_type, *record[2:])
        for record in records
        if low <= record.offset < high
    ]


def in_columns(batch: bytes | bytearray, low: int = 0) -> list[Row] | ErrorCode:
    try:
        return rows_of(decode(fetched(batch, low)))
    except KafkaError as refused:
        return refused.code if "logs-3 at offset" in refused.message else ErrorCode.NONE


def seal(batch: bytearray) -> bytearray:
    """Set the CRC to match the content."""
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    return batch


@settings(deadline=None)
@given(
    records=RECORDS,
    codec=st.sampled_from(Codec),
    base_offset=st.integers(0, 2**60),
    below=st.integers(0, 35),
    timestamp_type=st.integers(0, 1),
)
def test_columns_equal_records(
    records: list[Record], codec: Codec, base_offset: int, below: int, timestamp_type: int
) -> None:
    batch = build_batch(
        records, codec=codec, base_offset=base_offset, timestamp_type=timestamp_type
    )
    low = base_offset + below
    assert in_columns(batch, low) == one_by_one(batch, low, 2**63)


@settings(deadline=None)
@given(batches=st.lists(st.tuples(RECORDS, st.sampled_from(Codec)), max_size=6))
def test_several_batches_become_one_arrow_batch(batches: list[tuple[list[Record], Codec]]) -> None:
    data, wanted, offset = bytearray(), [], 7
    for records, codec in batches:
        batch = build_batch(records, codec=codec, base_offset=offset)
        found = one_by_one(batch, 0, 2**63)
        assert isinstance(found, list)
        data += batch
        wanted += found
        offset += len(records) + 3
    assert in_columns(data) == wanted


@settings(deadline=None)
@given(records=RECORDS, codec=st.sampled_from(Codec), changes=CHANGES)
def test_damage_behind_a_valid_crc_gives_the_same_error(
    records: list[Record], codec: Codec, changes: list[tuple[int, int]]
) -> None:
    batch = build_batch(records, codec=codec)
    for place, byte in changes:
        batch[BODY_START + place % (len(batch) - BODY_START)] = byte
    seal(batch)
    assert in_columns(batch) == one_by_one(batch, 0, 2**63)


@settings(deadline=None)
@given(records=RECORDS, codec=st.sampled_from(Codec), changes=CHANGES)
def test_damage_in_compressed_data_gives_the_same_error(
    records: list[Record], codec: Codec, changes: list[tuple[int, int]]
) -> None:
    plain = build_batch(records)
    body = plain[BODY_START:]
    for place, byte in changes:
        body[place % len(body)] = byte
    count = len(records)
    batch = raw_batch(
        compress(codec, body), attributes=int(codec), count=count, last_offset_delta=count - 1
    )
    assert in_columns(batch) == one_by_one(batch, 0, 2**63)


@settings(deadline=None)
@given(
    body=st.binary(max_size=200),
    count=st.integers(-(2**31), 2**31 - 1) | st.integers(0, 20),
    last_offset_delta=st.integers(0, 2**31 - 1) | st.integers(0, 20),
)
def test_any_bytes_are_decoded_alike(body: bytes, count: int, last_offset_delta: int) -> None:
    batch = raw_batch(body, count=count, last_offset_delta=last_offset_delta)
    assert in_columns(batch) == one_by_one(batch, 0, 2**63)


@settings(deadline=None)
@given(
    lengths=st.lists(st.integers(-3, 40) | st.integers(-(2**63), 2**63 - 1), max_size=30),
    filling=st.binary(max_size=60),
    count=st.integers(0, 4),
)
def test_wrong_lengths_give_the_same_error(lengths: list[int], filling: bytes, count: int) -> None:
    """Uses numbers instead of random bytes, which reach deeper into a record."""
    body = b"".join(
        encode_varint(length) + filling[index : index + 2] for index, length in enumerate(lengths)
    )
    batch = raw_batch(body, count=count, last_offset_delta=5)
    assert in_columns(batch) == one_by_one(batch, 0, 2**63)
