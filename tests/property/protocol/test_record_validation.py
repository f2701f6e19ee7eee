"""The scan of a batch's records against the decoder, on valid and changed bodies."""

from hypothesis import example, given
from hypothesis import strategies as st

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.record_batch import HEADER_SIZE
from sawlog.protocol.record_validation import RecordScan, scan_records
from sawlog.protocol.records import Record, build_batch, iterate
from sawlog.protocol.varint import encode_varint, read_varint
from support.protocol.batches import raw_batch, raw_record

LIMIT = 10_000_000
INT_BYTES = 5
HOSTILE = (
    b"\x01",  # -1
    b"\x03",  # -2
    b"\x80\x00",  # 0 in two bytes
    b"\x80\x80\x80\x80\x00",  # 0 in five bytes
    b"\x80\x80\x80\x80\x80\x00",  # 0 in six bytes
    b"\xff\xff\xff\xff\x7f",  # 35 bits
    b"\xff" * 9 + b"\x01",  # the smallest 64-bit number
    b"\x80" * 10 + b"\x00",  # 0 in eleven bytes
)
BYTES = st.none() | st.binary(max_size=100) | st.sampled_from([bytes(63), bytes(64), bytes(9_000)])
RECORDS = st.lists(
    st.builds(
        Record,
        offset=st.just(0),
        timestamp=st.integers(0, 2**41) | st.integers(0, 200),
        key=BYTES,
        value=BYTES,
        headers=st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=6,
)
CHANGES = st.lists(
    st.tuples(
        st.integers(0, 2**20),  # a position, modulo the size
        st.sampled_from(HOSTILE) | st.binary(max_size=3),
        st.integers(0, 3),  # how many bytes it replaces
    ),
    min_size=1,
    max_size=3,
)


def body_of(records: list[Record]) -> bytes:
    """The body of a batch whose deltas are those of base timestamp 0."""
    first = Record(0, 0, b"", b"")
    return bytes(build_batch([first, *records]))[HEADER_SIZE:]


def scanned(body: bytes, count: int) -> RecordScan | ErrorCode:
    try:
        return scan_records(body, count)
    except KafkaError as error:
        return error.code


def expected(body: bytes, count: int) -> RecordScan | ErrorCode:
    """The facts by the decoder; INVALID_RECORD if it rejects the body or a 32-bit number is too
    long."""
    batch = raw_batch(body, count=count, last_offset_delta=count - 1, base_timestamp=0)
    try:
        records = list(iterate(batch, max_decompressed_bytes=LIMIT))
    except KafkaError:
        return ErrorCode.INVALID_RECORD
    if longest_int(body, count) > INT_BYTES:
        return ErrorCode.INVALID_RECORD
    return RecordScan(
        min(record.timestamp for record in records),
        max(record.timestamp for record in records),
        [index for index, record in enumerate(records) if record.key is None],
        [index for index, record in enumerate(records) if record.offset != index],
    )


def longest_int(body: bytes, count: int) -> int:
    """The size of the longest 32-bit varint of a body that the decoder accepts."""
    sizes = [0]
    position = 0

    def read() -> int:
        nonlocal position
        start = position
        number, position = read_varint(body, position)
        sizes.append(position - start)
        return number

    def skip() -> None:
        nonlocal position
        length = read()
        position += max(length, 0)

    for _ in range(count):
        read()
        _, position = read_varint(body, position + 1)  # the timestamp delta has 64 bits
        read()
        skip()
        skip()
        for _ in range(2 * read()):
            skip()
    return max(sizes)


@given(records=RECORDS)
def test_every_built_batch_is_valid(records: list[Record]) -> None:
    scan = scanned(body_of(records), len(records) + 1)
    assert isinstance(scan, RecordScan)
    assert scan.misplaced == []
    assert scan == expected(body_of(records), len(records) + 1)


@given(records=RECORDS, changes=CHANGES, more=st.sampled_from([0, 0, 0, 1, -1]))
@example(records=[Record(0, 0, b"k", b"v")], changes=[(3, b"\x80\x80\x80\x80\x80\x00", 1)], more=0)
def test_changed_bodies_are_valid_exactly_if_the_decoder_reads_them(
    records: list[Record], changes: list[tuple[int, bytes, int]], more: int
) -> None:
    body = bytearray(body_of(records))
    for position, new, replaced in changes:
        start = position % (len(body) + 1)
        body[start : start + replaced] = new
    count = max(1, len(records) + 1 + more)
    assert scanned(bytes(body), count) == expected(bytes(body), count)


FIELD = st.sampled_from(HOSTILE) | st.integers(-3, 70).map(encode_varint)
FIELD_AND_BYTES = st.tuples(FIELD, st.binary(max_size=3)).map(b"".join)


@given(
    fields=st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "length": st.integers(-2, 2),
                "timestamp": FIELD,
                "key": FIELD_AND_BYTES,
                "value": FIELD_AND_BYTES,
                "headers": FIELD_AND_BYTES,
            },
        ),
        min_size=1,
        max_size=3,
    ),
    offset=st.none() | FIELD,
)
def test_records_of_unusual_fields_are_valid_exactly_if_the_decoder_reads_them(
    fields: list[dict[str, bytes]], offset: bytes | None
) -> None:
    body = b"".join(
        raw_record(index if offset is None else offset, **each) for index, each in enumerate(fields)
    )
    assert scanned(body, len(fields)) == expected(body, len(fields))


@given(body=st.binary(max_size=60), count=st.integers(1, 5))
def test_random_bytes_are_valid_exactly_if_the_decoder_reads_them(body: bytes, count: int) -> None:
    assert scanned(body, count) == expected(body, count)


def test_offset_deltas_beyond_two_bytes_are_in_sequence() -> None:
    records = [Record(0, 0, b"", b"")] * 9_000
    assert scan_records(body_of(records), 9_001).misplaced == []
