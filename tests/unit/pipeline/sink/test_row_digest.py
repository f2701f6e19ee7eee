"""The digest of rows: independent of their order and their batches, and of nothing else."""

import random

import pyarrow as pa
import pytest

from sawlog.pipeline.sink.row_digest import RowDigest
from sawlog.pipeline.source.range_reader import HEADERS_TYPE

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS_TYPE),
        ("partition", pa.int32()),
    ]
)
Row = tuple[object, ...]
A: Row = ("t", b"k", b"v", [{"key": "h", "value": b"1"}], 0)


def digest(*batches: list[Row], topic: str | None = None) -> str:
    found = RowDigest(topic)
    for rows in batches:
        dicts = [dict(zip(SCHEMA.names, row, strict=True)) for row in rows]
        found.add(pa.RecordBatch.from_pylist(dicts, SCHEMA))
    return found.text


def test_the_order_and_the_split_into_batches_do_not_count() -> None:
    rows: list[Row] = [("t", None, b"%d" % number, None, number % 3) for number in range(50)]
    shuffled = rows.copy()
    random.Random(1).shuffle(shuffled)
    assert digest(rows) == digest(shuffled[:20], shuffled[20:])
    assert digest(rows).startswith("50:")
    assert digest() == digest([])


@pytest.mark.parametrize(
    "other",
    [
        ("u", b"k", b"v", [{"key": "h", "value": b"1"}], 0),
        ("t", b"K", b"v", [{"key": "h", "value": b"1"}], 0),
        ("t", None, b"v", [{"key": "h", "value": b"1"}], 0),
        ("t", b"", b"v", [{"key": "h", "value": b"1"}], 0),
        ("t", b"kv", b"", [{"key": "h", "value": b"1"}], 0),  # the same bytes in other fields
        ("t", b"k", b"v", [{"key": "h", "value": None}], 0),
        ("t", b"k", b"v", [{"key": "h1", "value": b""}], 0),
        ("t", b"k", b"v", [], 0),
        ("t", b"k", b"v", [{"key": "h", "value": b"1"}], 1),
        ("t", b"k", b"v", [{"key": "h", "value": b"1"}], None),
    ],
)
def test_every_field_counts(other: Row) -> None:
    assert digest([A]) != digest([other])


def test_the_topic_of_all_rows_counts_instead_of_theirs() -> None:
    other: Row = ("u", *A[1:])
    assert digest([A], topic="t") == digest([other], topic="t")
    assert len({digest([A], topic=topic) for topic in ("t", "u", None)}) == 3
    assert digest([A, A], topic="t") == digest([A], [A], topic="t")
    assert digest([], topic="t") == digest([], topic="u")  # nothing was written


def test_equal_rows_count_as_often_as_they_occur() -> None:
    assert len({digest([A] * count) for count in range(5)}) == 5
    b: Row = ("t", None, b"", None, None)
    assert digest([A, A, b]) != digest([A, b, b])
