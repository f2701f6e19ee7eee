"""Records as columns: the same as decoding them one by one, for any bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.compression import Codec
from sawlog.protocol.record_batch import HEADER_SIZE, BatchHeader, encode_batch, read_header
from sawlog.protocol.records import Record, build_batch, iterate
from sawlog.protocol.varint import encode_varint
from sawlog.storage.cleaner.batch_filter import open_records
from sawlog.storage.cleaner.record_columns import RecordColumns, scan_records

MAX_BYTES = 1 << 20

LONG = 20_000  # lengths of three bytes
KEYS = st.none() | st.binary(max_size=200) | st.just(bytes(LONG))
VALUES = st.none() | st.binary(max_size=100) | st.just(bytes(LONG))
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2)
RECORDS = st.builds(
    lambda timestamp, key, value, headers: Record(0, timestamp, key, value, tuple(headers)),
    st.integers(-(1 << 62), 1 << 62),
    KEYS,
    VALUES,
    HEADERS,
)


def scan(batch: bytes | bytearray) -> RecordColumns:
    header = read_header(batch)
    return scan_records(bytes(batch), HEADER_SIZE, len(batch), header.count)


def record(
    *,
    length: int | None = None,
    delta: bytes = b"\x00",
    key: bytes = b"\x02k",
    rest: bytes = b"\x02v\x00",
) -> bytes:
    """One encoded record with the given fields, valid or not."""
    body = b"\x00" + b"\x00" + delta + key + rest
    return encode_varint(len(body) if length is None else length) + body


def error_of(data: bytes, count: int = 1) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        scan_records(data, 0, len(data), count)
    return caught.value.code


@given(st.lists(RECORDS, min_size=1, max_size=12), st.sampled_from(Codec))
def test_columns_agree_with_decoded_records(records: list[Record], codec: Codec) -> None:
    batch = build_batch(records, codec=codec, base_offset=1_000)
    decoded = list(iterate(batch, max_decompressed_bytes=MAX_BYTES))
    body, columns = open_records(bytes(batch), 0, read_header(batch))
    assert columns.keys == [one.key for one in decoded]
    assert [1_000 + delta for delta in columns.offset_deltas] == [one.offset for one in decoded]
    assert columns.tombstones == [n for n, one in enumerate(decoded) if one.value is None]
    start = HEADER_SIZE if codec is Codec.NONE else 0
    assert (columns.starts[0], columns.starts[-1]) == (start, len(body))
    assert len(columns.starts) == len(decoded) + 1


def test_each_record_lies_between_two_starts() -> None:
    batch = bytes(build_batch([Record(0, 5, b"k%d" % n, b"v" * n) for n in range(200)]))
    columns = scan(batch)
    for number in (0, 1, 100, 199):
        piece = batch[columns.starts[number] : columns.starts[number + 1]]
        header = read_header(batch)
        alone = encode_batch(header._replace(count=1), piece)
        (found,) = iterate(alone, max_decompressed_bytes=MAX_BYTES)
        assert (found.offset, found.key, found.value) == (number, b"k%d" % number, b"v" * number)


def test_records_of_a_batch_in_the_middle_of_a_chunk() -> None:
    batches = [bytes(build_batch([Record(0, 5, b"key %d" % n, None)] * 3)) for n in range(3)]
    header = read_header(batches[0])
    _, columns = open_records(b"".join(batches), header.size, header)
    assert columns.keys == [b"key 1"] * 3
    assert columns.starts[0] == header.size + HEADER_SIZE
    assert columns.starts[-1] == 2 * header.size


def test_offset_deltas_after_a_compaction_have_gaps() -> None:
    data = (
        record(delta=encode_varint(3))
        + record(delta=encode_varint(70))
        + record(delta=encode_varint(100_000))
    )
    assert scan_records(data, 0, len(data), 3).offset_deltas == [3, 70, 100_000]


def test_varints_with_padding_are_read() -> None:
    data = record(delta=b"\x82\x80\x00", key=b"\x82\x80\x00k", rest=b"\x81\x80\x00\x00")
    columns = scan_records(data, 0, len(data), 1)
    assert (columns.offset_deltas, columns.keys) == ([1], [b"k"])
    assert columns.tombstones == [0], "a null value"
    data = record(key=b"\x81\x00")
    assert scan_records(data, 0, len(data), 1).keys == [None]


@pytest.mark.parametrize(
    ("name", "data", "count"),
    [
        ("a record too few", record(), 2),
        ("a record too many", record() + record(delta=b"\x02"), 1),
        ("a byte too many", record() + b"\x00", 1),
        ("nothing", b"", 1),
        ("a length beyond the end", record(length=100), 1),
        ("a length below the key", record(length=3), 1),
        ("a length of 0", record(length=0), 1),
        ("a negative length", record(length=-8), 1),
        ("a length of six bytes", b"\x80\x80\x80\x80\x80\x01" + bytes(100), 1),
        ("a negative offset delta", record(delta=encode_varint(-1)), 1),
        ("an offset delta twice", record() + record(), 2),
        ("offset deltas that descend", record(delta=b"\x04") + record(delta=b"\x02"), 2),
        ("a key beyond the record", record(key=encode_varint(5_000) + b"k"), 1),
        ("a key of length -2", record(key=b"\x03"), 1),
        ("a record that ends with its key", record(rest=b""), 1),
    ],
)
def test_malformed_records_are_corrupt(name: str, data: bytes, count: int) -> None:
    assert error_of(data, count) is ErrorCode.CORRUPT_MESSAGE, name


def columns_or_error(data: bytes, start: int, count: int) -> RecordColumns | ErrorCode:
    try:
        return scan_records(data, start, len(data), count)
    except KafkaError as error:
        return error.code


@given(st.binary(max_size=60), st.integers(0, 4))
def test_any_bytes_are_records_or_corrupt(data: bytes, count: int) -> None:
    found = columns_or_error(data, 0, count)
    if not isinstance(found, RecordColumns):
        assert found is ErrorCode.CORRUPT_MESSAGE
        return
    assert len(found.keys) == len(found.offset_deltas) == count
    assert found.starts[-1] == len(data)


@given(st.data())
def test_a_flipped_bit_is_found_or_changes_no_boundary(data: st.DataObject) -> None:
    batch = build_batch([Record(0, 5, b"key %d" % n, b"value") for n in range(5)])
    position = data.draw(st.integers(HEADER_SIZE, len(batch) - 1))
    batch[position] ^= 1 << data.draw(st.integers(0, 7))
    found = columns_or_error(bytes(batch), HEADER_SIZE, 5)
    if not isinstance(found, RecordColumns):
        assert found is ErrorCode.CORRUPT_MESSAGE
        return
    assert found.starts[-1] == len(batch)
    assert found.offset_deltas == sorted(set(found.offset_deltas))


def header_with(**fields: int) -> tuple[bytes, BatchHeader]:
    batch = build_batch([Record(0, 5, b"k", b"v")] * 2)
    header = read_header(batch)._replace(**fields)
    return bytes(encode_batch(header, bytes(batch[HEADER_SIZE:]))), header


def test_an_offset_beyond_the_last_offset_of_the_batch_is_corrupt() -> None:
    batch, header = header_with(last_offset_delta=0)
    with pytest.raises(KafkaError, match="expected at most 0") as caught:
        open_records(batch, 0, header)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("count", [1, 3, -1, -(1 << 31), (1 << 31) - 1])
def test_a_wrong_count_is_corrupt(count: int) -> None:
    batch, header = header_with(count=count)
    with pytest.raises(KafkaError) as caught:
        open_records(batch, 0, header)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_negative_count_without_records_is_corrupt() -> None:
    header = read_header(build_batch([Record(0, 5, b"k", b"v")]))._replace(count=-1)
    batch = bytes(encode_batch(header, b""))
    with pytest.raises(KafkaError):
        open_records(batch, 0, read_header(batch))


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_records_that_cannot_be_decompressed_are_an_error(codec: Codec) -> None:
    batch = build_batch([Record(0, 5, b"k", b"v")], codec=codec)
    broken = bytes(batch[:HEADER_SIZE]) + bytes(len(batch) - HEADER_SIZE)
    with pytest.raises(KafkaError):
        open_records(broken, 0, read_header(batch))
