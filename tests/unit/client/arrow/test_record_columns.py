"""Arrow columns decoded from fetches: their content, filters and sizes."""

import subprocess
import sys

import pyarrow as pa
import pytest

from sawlog.client.arrow import record_columns
from sawlog.client.arrow.record_columns import ALL_FIELDS, RECORD_FIELDS, RecordColumns
from sawlog.client.consumer.fetched_records import AbortedTransaction
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition
from sawlog.protocol.compression import Codec
from sawlog.protocol.records import Record, build_batch
from support.client.arrow_rows import Row, decode, fetched, rows_of
from support.protocol.batches import ABORT, COMMIT, batch, marker, raw_batch

OTHER = TopicPartition(TopicName("other"), PartitionIndex(0))


def values(found: pa.RecordBatch) -> list[tuple[int, bytes | None]]:
    return [(row.offset, row.value) for row in rows_of(found)]


@pytest.mark.parametrize("codec", Codec)
def test_columns_have_all_fields_of_records(codec: Codec) -> None:
    records = [
        Record(0, 1_000, b"key", b"value", (("name", b"content"), ("näme", None), ("", b""))),
        Record(0, -1, None, None),
        Record(0, 900, b"", b"", (("name", b""),)),
    ]
    found = decode(fetched(build_batch(records, codec=codec, base_offset=7)))
    assert rows_of(found) == [
        Row("logs", 3, 7 + number, record.timestamp, 0, *record[2:])
        for number, record in enumerate(records)
    ]


def test_log_append_time_is_that_of_the_batch() -> None:
    records = [Record(0, stamp, None, b"") for stamp in (5, 9, 7)]
    stamped = build_batch(records, timestamp_type=1)
    found = rows_of(decode(fetched(stamped + build_batch(records, base_offset=3))))
    assert [(row.timestamp, row.timestamp_type) for row in found] == [
        (9, 1), (9, 1), (9, 1), (5, 0), (9, 0), (7, 0),
    ]  # fmt: skip


def test_one_batch_has_several_partitions() -> None:
    found = decode(fetched(batch(0, b"a", b"b")), fetched(batch(5, b"c"), 5, partition=OTHER))
    assert [row[:3] for row in rows_of(found)] == [
        ("logs", 3, 0), ("logs", 3, 1), ("other", 0, 5),
    ]  # fmt: skip


def test_an_empty_fetch_is_a_batch_without_rows() -> None:
    assert rows_of(decode(fetched(b""))) == []


def test_an_empty_batch_that_compaction_left_moves_the_position() -> None:
    source = fetched(raw_batch(b"", count=0, last_offset_delta=4))
    assert rows_of(decode(source)) == []
    assert source.position == 5


def test_only_the_chosen_columns_are_made_in_schema_order() -> None:
    data = batch(0, b"a", b"b")
    found = decode(fetched(data), columns=("value", "offset"))
    assert found.to_pydict() == {"offset": [0, 1], "value": [b"a", b"b"]}
    for name in ALL_FIELDS.names:
        alone = decode(fetched(data), columns=(name,))
        assert alone.schema == pa.schema([ALL_FIELDS.field(name)])
        assert alone.column(0).equals(decode(fetched(data)).column(name))


def test_an_unknown_column_is_named() -> None:
    with pytest.raises(
        ValueError, match="no column 'colour'; use some of topic, partition, offset"
    ):
        RecordColumns(("offset", "colour"))


def test_records_below_the_position_and_from_the_end_on_are_left_out() -> None:
    source = fetched(batch(0, b"a") + batch(1, b"b", b"c", b"d") + batch(4, b"e", b"f"), 2)
    taken = RecordColumns(ALL_FIELDS.names)
    assert taken.take(source, end=5)
    assert values(taken.finish()) == [(2, b"c"), (3, b"d"), (4, b"e")]


def test_offset_gaps_are_allowed() -> None:
    found = decode(fetched(batch(3, b"a") + batch(100, b"b", b"c"), 1))
    assert values(found) == [(3, b"a"), (100, b"b"), (101, b"c")]


def test_a_partial_last_batch_is_left_to_the_next_fetch() -> None:
    source = fetched(batch(0, b"a") + batch(1, b"b")[:-1])
    assert values(decode(source)) == [(0, b"a")]
    assert source.position == 1


def test_control_batches_and_aborted_ones_are_left_out() -> None:
    data = b"".join(
        (
            batch(0, b"nine", producer_id=9),
            batch(1, b"plain"),
            marker(2, 9, ABORT),
            batch(3, b"nine again", producer_id=9),
            marker(4, 9, COMMIT),
        )
    )
    source = fetched(data, 0, AbortedTransaction(9, 0))
    assert values(decode(source)) == [(1, b"plain"), (3, b"nine again")]
    assert source.position == 5


def test_records_taken_one_by_one_are_not_taken_again() -> None:
    source = fetched(batch(0, b"a", b"b", b"c") + batch(3, b"d", b"e"))
    assert [record.value for record in source.take(2)] == [b"a", b"b"]
    taken = RecordColumns(ALL_FIELDS.names, max_bytes=1)
    assert not taken.take(source)
    assert values(taken.finish()) == [(2, b"c")]
    assert [record.value for record in source.take(9)] == [b"d", b"e"]
    assert source.position == 5


def test_columns_end_with_the_batch_that_fills_them() -> None:
    data = b"".join(batch(2 * n, b"x" * 500, b"y" * 500) for n in range(10))
    source, taken = fetched(data), RecordColumns(("value",), max_bytes=2_500)
    sizes = []
    is_empty = False
    while not is_empty:
        is_empty = taken.take(source)
        sizes.append(taken.finish().num_rows)
    assert sizes == [6, 6, 6, 2]


def test_columns_never_outgrow_32_bit_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_columns, "_MOST_BYTES", 1_000)
    source, taken = fetched(batch(0, b"x" * 900) + batch(1, b"y" * 900)), RecordColumns(("value",))
    assert not taken.take(source)
    inflated = build_batch([Record(0, 0, None, bytes(5_000))], codec=Codec.ZSTD)
    with pytest.raises(KafkaError, match="more than 1000 bytes") as raised:
        decode(fetched(inflated))
    assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_all_buffers_may_grow_for_one_batch() -> None:
    headers = tuple((f"name {n} " * 20, b"content" * n) for n in range(200))
    records = [Record(0, n, b"k" * 100 * n, b"v" * 300 * n, headers) for n in range(150)]
    data = build_batch(records, codec=Codec.ZSTD)
    found = rows_of(decode(fetched(data, limit=1 << 30)))
    assert [row[5:] for row in found] == [record[2:] for record in records]


def test_finished_columns_keep_no_unused_memory() -> None:
    data = batch(0, *(b"value" * 20 for _ in range(5_000)))
    found = decode(fetched(data))
    assert found.get_total_buffer_size() < 1.4 * found.nbytes


def test_invalid_utf_8_in_header_names_is_replaced_as_java_does() -> None:
    body = b"\x16\x00\x00\x00\x01\x01\x02\x06a\xffb\x01"
    (row,) = rows_of(decode(fetched(raw_batch(body))))
    assert row.headers == (("a\ufffdb", None),)


def test_a_corrupt_batch_raises_after_the_valid_ones_and_again() -> None:
    damaged = bytearray(batch(2, b"c"))
    damaged[-1] ^= 1
    source = fetched(batch(0, b"a", b"b") + bytes(damaged) + batch(3, b"d"))
    taken = RecordColumns(ALL_FIELDS.names)
    assert not taken.take(source)
    assert values(taken.finish()) == [(0, b"a"), (1, b"b")]
    for _ in range(2):
        with pytest.raises(KafkaError, match="logs-3 at offset 2 cannot be read") as raised:
            taken.take(source)
        assert raised.value.code is ErrorCode.CORRUPT_MESSAGE
    assert taken.rows == 0


@pytest.mark.parametrize(
    ("body", "fields", "reason"),
    [
        (b"\x0c\x00\x00\x00\x01\x00\x00", {"count": 2}, "lengths or counts"),
        (b"\x0c\x00\x00\x00\x01\x00\x00", {"count": 2**31 - 1}, "lengths or counts"),
        (b"\x0c\x00\x00\x00\x01\x00\x00", {"count": 0}, "bytes after the last record"),
        (b"\x0c\x00\x00\x00\x01\x00\x00\x00", {}, "bytes after the last record"),
        (b"\x0e\x00\x00\x00\x01\x00\x00", {}, "lengths or counts"),
        (b"\x0c\x00\x00\x00\x01\x7e\x00", {}, "lengths or counts"),
        (b"\x0c\x00\x00\x00\x03\x00\x00", {}, "lengths or counts"),
        (b"\x0c\x00\x00\x00\x01\x00\x02", {}, "lengths or counts"),
        (b"\xff" * 20, {}, "lengths or counts"),
        (b"\x0c\x00\x00\x02\x01\x00\x00", {}, "do not ascend"),
        (b"\x0c\x00\x00\x01\x01\x00\x00", {}, "do not ascend"),
        (b"\x0c\x00\x00\x00\x01\x00\x00" * 2, {"count": 2, "last_offset_delta": 1}, "ascend"),
        (b"\x0c\x00\x00\x00\x01\x00\x00", {"base_offset": 2**63 - 1}, "has the invalid offsets"),
    ],
)
def test_a_corrupt_record_is_reported_with_its_reason(
    body: bytes, fields: dict[str, int], reason: str
) -> None:
    with pytest.raises(KafkaError, match=f"logs-3 at offset 0 cannot be read: .*{reason}") as lie:
        decode(fetched(raw_batch(body, **fields)))
    assert lie.value.code is ErrorCode.CORRUPT_MESSAGE


def test_neither_the_consumer_nor_the_command_line_imports_arrow() -> None:
    code = (
        "import sys, sawlog.client.consumer.consumer, sawlog.cli.main\n"
        "print({'pyarrow', 'numba', 'numpy', 'pyspark'} & sys.modules.keys())"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "set()"


def test_decoding_does_not_import_pandas() -> None:
    """`pa.array` imports pandas, if it is installed, for the first list."""
    code = (
        "import sys; from sawlog.client.arrow.record_columns import *\n"
        "from sawlog.client.consumer.fetched_records import FetchedRecords\n"
        "from sawlog.core.ids import TopicPartition\n"
        "from sawlog.protocol.records import Record, build_batch\n"
        "data = build_batch([Record(0, 0, b'', b'', (('n', b''),))])\n"
        "taken = RecordColumns(ALL_FIELDS.names)\n"
        "taken.take(FetchedRecords(TopicPartition('t', 0), 0, data, max_decompressed_bytes=9))\n"
        "print(taken.finish().num_rows, 'pandas' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "1 False"


def test_the_schema_is_available_without_compiling() -> None:
    code = (
        "import sys; from sawlog.client.arrow.record_columns import RECORD_FIELDS\n"
        "print(RECORD_FIELDS.names, 'numba' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == f"{RECORD_FIELDS.names} False"
