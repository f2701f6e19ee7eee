"""Records as lines: JSON round trips, columns, invalid lines."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sawlog.cli.record_format import InvalidRecord, Line, from_json, to_columns, to_json
from sawlog.client.consumer.fetched_records import ConsumedRecord

BYTES = st.none() | st.binary(max_size=20) | st.text(max_size=20).map(str.encode)


def record(
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: tuple[tuple[str, bytes | None], ...] = (),
) -> ConsumedRecord:
    return ConsumedRecord("logs", 3, 17, 1_000, 0, 5, key, value, headers)


@given(BYTES, BYTES, st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=3).map(tuple))
def test_json_survives_a_round_trip(
    key: bytes | None, value: bytes | None, headers: tuple[tuple[str, bytes | None], ...]
) -> None:
    line = to_json(record(key, value, headers))
    assert "\n" not in line
    assert from_json(line.encode()) == Line(key, value, headers, 3, 1_000)


def test_utf8_is_a_string_and_other_bytes_are_base64() -> None:
    entry = json.loads(to_json(record("ü".encode(), b"\xff")))
    assert entry["key"] == "ü"
    assert entry["value_base64"] == "/w=="
    assert "value" not in entry


def test_headers_may_be_an_object() -> None:
    assert from_json(b'{"value": "v", "headers": {"a": "b", "c": null}}').headers == (
        ("a", b"b"),
        ("c", None),
    )


def test_missing_fields_are_null() -> None:
    assert from_json(b"{}") == Line(None, None)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "invalid JSON"),
        (b"{", "invalid JSON"),
        (b"\xff", "invalid JSON"),
        (b"[1]", "expected a JSON object"),
        (b'{"vlaue": "x"}', "unknown field 'vlaue'"),
        (b'{"value": 5}', "value: expected a string or null, not 5"),
        (b'{"value_base64": "?"}', "not valid base64"),
        (b'{"value_base64": 5}', "not valid base64"),
        (b'{"partition": "1"}', "partition: expected an integer"),
        (b'{"timestamp": true}', "timestamp: expected an integer"),
        (b'{"headers": [1]}', "headers: expected a list"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"value": [[1]]}', "not a list"),
        (b'{"value": "\\ud800"}', "lone surrogate"),
        (b'{"key": "\\ud800"}', "lone surrogate"),
        (b'{"headers": {"\\ud800": "x"}}', "lone surrogate"),
        (b'{"value": "a", "value_base64": "YQ=="}', "give one of them"),
        (b'{"timestamp": 99999999999999999999}', "timestamp: expected an integer from -1"),
        (b'{"partition": -1}', "partition: expected an integer from 0"),
        (b'{"partition": 2147483648}', "partition: expected an integer from 0"),
        (b'{"headers": [{"value": "x"}]}', "headers: expected a list"),
    ],
)
def test_invalid_line_is_refused_with_the_reason(line: bytes, reason: str) -> None:
    with pytest.raises(InvalidRecord, match=reason):
        from_json(line)


def test_columns_are_printed_before_the_value_as_raw_bytes() -> None:
    shown = record(b"\xff", b"v\x00", (("a", b"b"), ("c", None)))
    columns = ("partition", "offset", "timestamp", "headers", "key")
    assert to_columns(shown, columns, b"|") == b"3|17|1000|a=b,c=|\xff|v\x00"
    assert to_columns(record(None, None), ("key",), b"|") == b"|"
