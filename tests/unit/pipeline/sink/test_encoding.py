"""Encoded records have the same bytes as those of the batch builder."""

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sawlog.client.producer.partitioner import partition_for_key
from sawlog.pipeline.sink.sink_errors import BadRows
from sawlog.pipeline.sink.sink_kernels import choose_partitions, encode_records, record_sizes
from sawlog.pipeline.sink.sink_rows import check_columns, headers_of, pieces_of
from sawlog.pipeline.sink.topic_writer import EncodedRecords
from sawlog.protocol.compression import Codec
from sawlog.protocol.record_batch import batches_in, check_crc
from sawlog.protocol.records import BatchBuilder, Record, iterate

AT_MS = 1_700_000_000_000
HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
MANY = 1 << 20
ROWS = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=200),
        st.none() | st.binary(max_size=9_000),
        st.none() | st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=70))),
    ),
    min_size=1,
    max_size=30,
)
Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]] | None]


def columns_of(rows: list[Row], skip: int = 0) -> tuple[object, object, object]:
    """Arrow columns with `skip` rows sliced off in front."""
    padding: list[Row] = [(b"x", b"y", [("z", b"")])] * skip
    keys, values, headers = zip(*padding, *rows, strict=True)
    structs = [
        None if each is None else [{"key": k, "value": v} for k, v in each] for each in headers
    ]
    return (
        pieces_of(pa.array(keys, pa.binary())[skip:], len(rows)),
        pieces_of(pa.array(values, pa.large_binary())[skip:], len(rows)),
        headers_of(pa.array(structs, pa.list_(HEADER))[skip:], len(rows)),
    )


@settings(deadline=None)
@given(rows=ROWS, skip=st.integers(0, 3), codec=st.sampled_from(Codec))
def test_a_batch_equals_that_of_the_batch_builder(rows: list[Row], skip: int, codec: Codec) -> None:
    columns = columns_of(rows, skip)
    out = np.zeros(MANY, np.uint8)
    index = np.arange(len(rows))
    after, size, needed = encode_records(*columns, index, 0, out, MANY)  # type: ignore[arg-type]
    assert (after, needed) == (len(rows), 0)
    builder = BatchBuilder()
    for key, value, headers in rows:
        builder.append(AT_MS, key, value, tuple(headers or ()))
    encoded = EncodedRecords(out[:size].tobytes(), len(rows), AT_MS)
    assert (encoded.count, encoded.size) == (builder.count, builder.size)
    stamp = {"producer_id": 7, "producer_epoch": 1, "base_sequence": 5}
    batch = encoded.finish(codec=codec, **stamp)
    assert batch == builder.finish(codec=codec, **stamp)
    [(_, header)] = batches_in(batch)
    check_crc(batch, header)
    found = list(iterate(batch, max_decompressed_bytes=MANY))
    assert found == [
        Record(number, AT_MS, key, value, tuple(headers or ()))
        for number, (key, value, headers) in enumerate(rows)
    ]


@settings(deadline=None)
@given(rows=ROWS, wanted=st.integers(0, 20_000), room=st.integers(0, 20_000))
def test_batches_stay_within_the_wanted_size_and_the_buffer(
    rows: list[Row], wanted: int, room: int
) -> None:
    columns = columns_of(rows)
    index = np.arange(len(rows))
    guard = np.full(room + 100, 0xEE, np.uint8)
    out, first, taken = guard[:room], 0, 0
    for _ in range(2 * len(rows)):
        after, size, needed = encode_records(*columns, index, first, out, wanted)  # type: ignore[arg-type]
        assert size <= max(wanted, size if after == first + 1 else 0)
        assert (guard[room:] == 0xEE).all()
        if after == first:
            assert needed > len(out)
            out = np.zeros(needed, np.uint8)
        taken += after - first
        first = after
        if first == len(rows):
            break
    assert taken == len(rows)


@settings(deadline=None)
@given(
    keys=st.lists(st.binary(max_size=40), min_size=1, max_size=50),
    partitions=st.integers(1, 1_000),
)
def test_keys_go_to_the_partitions_of_the_java_client(keys: list[bytes], partitions: int) -> None:
    columns = columns_of([(key, b"", None) for key in keys])
    chosen = np.full(len(keys), -1, np.int64)
    sizes = record_sizes(*columns)  # type: ignore[arg-type]
    choose_partitions(columns[0], sizes, np.arange(len(keys)), chosen, partitions, (0, 0), 1_000)  # type: ignore[arg-type]
    assert chosen.tolist() == [partition_for_key(key, partitions) for key in keys]


def test_rows_without_a_key_stay_until_a_batch_is_full() -> None:
    columns = columns_of([(None, b"v" * 90, None)] * 10)
    chosen = np.full(10, -1, np.int64)
    chosen[3] = 0
    sizes = record_sizes(*columns)  # type: ignore[arg-type]
    assert 90 < sizes[0] < 110
    sticky = choose_partitions(columns[0], sizes, np.arange(10), chosen, 3, (2, 0), 330)  # type: ignore[arg-type]
    assert chosen.tolist() == [2, 2, 2, 0, 0, 0, 0, 1, 1, 1]
    assert sticky == (1, 3 * sizes[0])


def test_a_header_needs_a_name() -> None:
    headers = pa.array([[{"key": None, "value": b"x"}]], pa.list_(HEADER))
    with pytest.raises(BadRows, match="a header without a key"):
        headers_of(headers, 1)


def test_required_columns_and_types_are_checked() -> None:
    check_columns({"value": "string", "anything": "double"}, has_topic=True)
    headers = "array<struct<key:string,value:binary>>"
    check_columns(
        {
            "key": "binary",
            "value": "binary",
            "topic": "string",
            "partition": "int",
            "headers": headers,
        },
        has_topic=False,
    )


def test_many_rows_of_all_sizes_keep_their_bytes() -> None:
    numbers = random.Random(5)
    rows: list[Row] = [
        (None, numbers.randbytes(numbers.choice([0, 63, 64, 8_191, 8_192])), None)
    ] * 3
    columns = columns_of(rows)
    out = np.zeros(MANY, np.uint8)
    _, size, _ = encode_records(*columns, np.array([2, 0]), 0, out, MANY)  # type: ignore[arg-type]
    batch = EncodedRecords(out[:size].tobytes(), 2, AT_MS).finish()
    assert [r.value for r in iterate(batch, max_decompressed_bytes=MANY)] == [
        rows[2][1],
        rows[0][1],
    ]
