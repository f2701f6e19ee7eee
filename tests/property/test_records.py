"""Batches of any records, against kafka-python's and aiokafka's builders and readers."""

from collections.abc import Callable, Iterable
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as PythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as PythonBuilder

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.compression import Codec, compress, decompress
from sawlog.protocol.record_batch import check_crc, read_header
from sawlog.protocol.records import Record, build_batch, iterate
from sawlog.protocol.varint import encode_varint, read_varint
from support.protocol.batches import raw_batch

LIMIT = 10_000_000
BYTES = st.none() | st.binary(max_size=300)
NAMES = st.text(max_size=20)
RECORDS = st.lists(
    st.builds(
        Record,
        offset=st.just(0),
        timestamp=st.integers(0, 2**41),
        key=BYTES,
        value=BYTES | st.binary(min_size=5_000, max_size=9_000),
        headers=st.lists(st.tuples(NAMES, BYTES), max_size=4).map(tuple),
    ),
    min_size=1,
    max_size=20,
)


def numbered(records: list[Record]) -> list[Record]:
    return [record._replace(offset=offset) for offset, record in enumerate(records)]


def ours(batch: bytes | bytearray) -> list[Record]:
    check_crc(batch, read_header(batch))
    return list(iterate(batch, max_decompressed_bytes=LIMIT))


def theirs(records: Iterable[Any]) -> list[Record]:
    return [
        Record(record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
        for record in records
    ]


def outcome(work: Callable[[], object]) -> ErrorCode | None:
    """Return the code of a KafkaError, or None; other exceptions pass."""
    try:
        work()
    except KafkaError as error:
        return error.code
    return None


@given(records=RECORDS, codec=st.sampled_from(Codec))
def test_other_clients_read_our_batches(records: list[Record], codec: Codec) -> None:
    batch = bytes(build_batch(records, codec=codec))
    assert ours(batch) == numbered(records)
    python = PythonBatch(batch)
    assert python.validate_crc()
    assert theirs(python) == numbered(records)
    aiokafka = AiokafkaBatch(batch)
    assert aiokafka.validate_crc()
    assert theirs(aiokafka) == numbered(records)


@given(records=RECORDS, codec=st.sampled_from(Codec))
def test_we_read_batches_of_other_clients(records: list[Record], codec: Codec) -> None:
    for builder_class in (PythonBuilder, AiokafkaBuilder):
        builder = builder_class(
            magic=2,
            compression_type=int(codec),
            is_transactional=0,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=LIMIT,
        )
        for offset, record in enumerate(records):
            added = builder.append(
                offset,
                timestamp=record.timestamp,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
            )
            assert added
        assert ours(bytes(builder.build())) == numbered(records)


@given(
    records=RECORDS,
    codec=st.sampled_from(Codec),
    changes=st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=5),
)
def test_a_damaged_batch_gives_records_or_a_kafka_error(
    records: list[Record], codec: Codec, changes: list[tuple[int, int]]
) -> None:
    batch = build_batch(records, codec=codec)
    for place, byte in changes:
        batch[place % len(batch)] = byte
    assert outcome(lambda: list(iterate(batch, max_decompressed_bytes=LIMIT))) in {
        None,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    }


@given(body=st.binary(max_size=200), count=st.integers(-(2**31), 2**31 - 1))
def test_any_bytes_give_records_or_corruption(body: bytes, count: int) -> None:
    batch = raw_batch(body, count=count)
    read = outcome(lambda: list(iterate(batch, max_decompressed_bytes=LIMIT)))
    assert read in {None, ErrorCode.CORRUPT_MESSAGE}


@given(codec=st.sampled_from(Codec), data=st.binary(max_size=3_000), times=st.integers(1, 50))
def test_compression_round_trips(codec: Codec, data: bytes, times: int) -> None:
    assert decompress(codec, compress(codec, data * times), len(data) * times) == data * times


@given(codec=st.sampled_from(Codec), data=st.binary(max_size=300))
def test_any_bytes_decompress_within_the_limit_or_raise(codec: Codec, data: bytes) -> None:
    sizes: list[int] = []
    assert outcome(lambda: sizes.append(len(decompress(codec, data, 1_000)))) in {
        None,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
    }
    assert sum(sizes) <= 1_000


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_varint_round_trips(value: int) -> None:
    encoded = encode_varint(value)
    assert read_varint(encoded, 0) == (value, len(encoded))
