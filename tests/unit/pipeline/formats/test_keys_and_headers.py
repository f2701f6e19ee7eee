"""Keys as text and headers as a map or an array in landed rows."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sawlog.pipeline.formats import Format, parser
from sawlog.pipeline.formats.keys_and_headers import header_map, split_by_key
from sawlog.pipeline.formats.landed_rows import (
    HEADERS,
    RecordColumns,
    assemble,
    dead_rows,
    table_schema,
)
from sawlog.pipeline.formats.schema_inference import ddl, from_ddl

Entries = list[tuple[str, bytes | None]]


def records(*keys: bytes | None) -> pa.RecordBatch:
    count = len(keys)
    return pa.RecordBatch.from_pydict(
        {
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.array(range(count), pa.timestamp("ms", "UTC")),
            "key": pa.array(keys, pa.binary()),
            "value": pa.array([b"v%d" % number for number in range(count)], pa.binary()),
            "headers": pa.array([[("h", b"%d" % number)] for number in range(count)], HEADERS),
        }
    )


def test_keys_that_are_not_utf8_are_dead_letters_with_their_bytes() -> None:
    split = split_by_key(records(b"a", b"\xff\xfe", None, "é".encode(), b"\xc3" * 30))
    (parsed,) = parser(Format("raw"), None, infer=True)(split.good.column("value"))
    rows = assemble("t", 0, split.good, parsed, RecordColumns("string"))
    assert [(row["offset"], row["key"]) for row in rows.to_pylist()] == [
        (0, "a"), (2, None), (3, "é"),
    ]  # fmt: skip
    assert assemble("t", 0, split.refused, split.parsed, RecordColumns("string")).num_rows == 0
    dead = dead_rows("t", 0, split.refused, split.parsed).to_pylist()
    assert [(row["offset"], row["key"], row["value"], row["error"]) for row in dead] == [
        (1, b"\xff\xfe", b"v1", "the key is not UTF-8: ff fe"),
        (4, b"\xc3" * 30, b"v4", f"the key is not UTF-8: {'c3 ' * 20}…"),
    ]


@given(st.lists(st.none() | st.binary(max_size=4), max_size=40))
def test_each_key_is_text_or_refused_as_python_decides(keys: list[bytes | None]) -> None:
    def is_text(key: bytes | None) -> bool:
        return key is None or key == key.decode("utf-8", "ignore").encode()

    split = split_by_key(records(*keys))
    assert split.good.column("key").to_pylist() == [
        None if key is None else key.decode() for key in keys if is_text(key)
    ]
    assert split.refused.column("key").to_pylist() == [key for key in keys if not is_text(key)]
    assert len(split.parsed.bad) == split.refused.num_rows


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.binary(max_size=2)), max_size=5),
        max_size=20,
    ),
    st.integers(0, 3),
)
def test_a_map_has_the_last_header_of_each_key(headers: list[Entries], skipped: int) -> None:
    made = header_map(pa.array(headers, HEADERS).slice(skipped))
    made.validate(full=True)
    assert [dict(entries) for entries in made.to_pylist()] == [
        dict(entries) for entries in headers[skipped:]
    ]
    assert all(len(dict(entries)) == len(entries) for entries in made.to_pylist())


@pytest.mark.parametrize(
    ("kind", "type_", "found"),
    [
        ("map", "map<string,binary>", [("h", b"0")]),
        ("array", "array<struct<key:string,value:binary>>", [{"key": "h", "value": b"0"}]),
    ],
)
def test_headers_are_a_column_after_the_key(kind: str, type_: str, found: list[object]) -> None:
    columns = RecordColumns(headers=kind)
    chunk = records(b"k")
    (parsed,) = parser(Format("raw"), None, infer=True)(chunk.column("value"))
    rows = assemble("t", 0, chunk, parsed, columns)
    assert rows.schema == table_schema(from_ddl("value binary"), columns)
    assert ddl(rows.schema).endswith(f"key binary, headers {type_}, value binary")
    assert rows.column("headers").to_pylist() == [found]


def test_a_field_named_headers_gets_a_prefix_beside_the_headers_of_the_record() -> None:
    fields = from_ddl("headers string, Headers2 int")
    assert table_schema(fields).names[5:] == ["headers", "Headers2"]
    beside = table_schema(fields, RecordColumns(headers="map"))
    assert beside.names[5:] == ["headers", "value_headers", "Headers2"]
