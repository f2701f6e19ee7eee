"""Valid and malformed JSON objects: one value is one row, whatever its neighbours are."""

import json

import pytest

from support.pipeline.formats import parse

GOOD = b'{"a": 1}'


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "no value"),
        (b"", "an empty value"),
        (b" \n\t", "an empty value"),
        (b"\xef\xbb\xbf", "an empty value"),
        (b"{}{}", "something behind the object, at byte 2"),
        (b'{"a": 1} {"a": 2}', "something behind the object, at byte 9"),
        (b'{"a": 1}x', "something behind the object"),
        (b"12", "a number where an object was expected"),
        (b"NaN", "a number where an object was expected"),
        (b"99999999999999999999", "a number where an object was expected"),
        (b'"a"', "a string where an object was expected"),
        (b'["a", {"b": 1}]', "an array where an object was expected"),
        (b"true", "a boolean where an object was expected"),
        (b"false", "a boolean where an object was expected"),
        (b"null", "null where an object was expected"),
        (b"nul", "it ends too early"),
        (b'{"a": 1', "it ends too early, at byte 7"),
        (b'{"a": ', "it ends too early"),
        (b'{"a"', "it ends too early"),
        (b'{"a', "it ends too early"),
        (b"{", "it ends too early"),
        (b'{"a": [1, {"b": "c"}', "it ends too early"),
        (b'{"a": [1, {"b": "c"]}', "unexpected character, at byte 19"),
        (b', "b": 2}', "unexpected character, at byte 0"),
        (b'{"a": 1,}', "unexpected character, at byte 8"),
        (b'{"a": [1,]}', "unexpected character, at byte 9"),
        (b'{"a": [,]}', "unexpected character, at byte 7"),
        (b"{'a': 1}", "unexpected character, at byte 1"),
        (b'{"a" 1}', "unexpected character, at byte 5"),
        (b'{"a": 1 "b": 2}', "unexpected character, at byte 8"),
        (b'{"a": nope}', "unexpected character, at byte 7"),
        (b'{"a": 01}', "not a number"),
        (b'{"a": -}', "not a number"),
        (b'{"a": -NaN}', "not a number"),
        (b'{"a": 1.}', "not a number"),
        (b'{"a": 1e+}', "not a number"),
        (b'{"a": .5}', "unexpected character"),
        (b'{"a": "\\x"}', "unknown escape in a string"),
        (b'{"a": "\\u12g4"}', "unknown escape in a string"),
        (b'{"a": "\\u12', "unknown escape in a string"),
        (b'{"a": "\\', "it ends too early"),
        (b'{"a": "\\ud800"}', "half of a surrogate pair"),
        (b'{"a": "\\udc00"}', "half of a surrogate pair"),
        (b'{"a": "\\ud800\\u0041"}', "half of a surrogate pair"),
        (b'{"a": "\n"}', "control character in a string, at byte 7"),
        (b'{"a": "\xff"}', "not UTF-8, at byte 7"),
        (b'{"\xc3": 1}', "not UTF-8"),
        (b'{"a": ["\xed\xa0\x80"]}', "not UTF-8"),
        (b'{"a": "\xc0\xaf"}', "not UTF-8"),
        (b'{"a": "\xf4\x90\x80\x80"}', "not UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "unexpected character"),
        (b'{"a": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", "nested deeper than 500 levels"),
    ],
)  # fmt: skip
def test_malformed_values_are_bad_and_their_neighbours_are_not(
    value: bytes | None, reason: str
) -> None:
    found = parse("json", GOOD, value, GOOD)
    assert found.rows == [{"a": 1}, {"a": 1}]
    assert list(found.bad) == [1]
    assert reason in found.bad[1]


@pytest.mark.parametrize(
    "value",
    [
        b'\xef\xbb\xbf{"a": 1}',
        b'\n{"a"\r\n:\t1\n}\n',
        b'{"a": 2, "a": 1}',
        b'{"\\u0061": 1}',
    ],
)
def test_equal_objects_in_other_notation_are_equal_rows(value: bytes) -> None:
    found = parse("json", value, GOOD)
    assert found.rows == [{"a": 1}, {"a": 1}]
    assert found.bad == {}


def test_two_halves_of_an_object_in_two_values_do_not_become_one() -> None:
    found = parse("json", b'{"a": 1', b', "b": 2}', b"{}{}", GOOD)
    assert found.rows == [{"a": 1}]
    assert list(found.bad) == [0, 1, 2]


def test_an_empty_object_is_a_row_without_values() -> None:
    assert parse("json", GOOD, b"{}").rows == [{"a": 1}, {"a": None}]
    assert parse("json", b"{}", b" { } ").rows == [{}, {}]


def test_no_values_at_all() -> None:
    found = parse("json")
    assert found.rows == []
    assert found.bad == {}


def test_escapes_are_read_as_json_has_them() -> None:
    text = '"\\/\b\f\n\r\t é € 😀 \x00 \x7f'
    for value in (json.dumps({"a": text}), json.dumps({"a": text}, ensure_ascii=False)):
        assert parse("json", value.encode()).rows == [{"a": text}]
    assert parse("json", b'{"a": "\\/"}').rows == [{"a": "/"}]


def test_a_row_of_ten_megabytes_is_a_row() -> None:
    text = "x" * 10_000_000
    found = parse("json", GOOD, json.dumps({"a": 2, "b": text}).encode())
    assert found.rows == [{"a": 1, "b": None}, {"a": 2, "b": text}]


def test_deep_but_allowed_nesting_is_text_where_it_is_too_deep_for_columns() -> None:
    nested = b"[" * 400 + b"]" * 400
    found = parse("json", b'{"a": ' + nested + b', "b": 1}')
    inside = found.rows[0]["a"]
    while isinstance(inside, list):
        (inside,) = inside
    assert set(inside) == {"[", "]"}
    assert found.rows[0]["b"] == 1


def test_a_slice_of_an_array_is_read() -> None:
    import pyarrow as pa

    from sawlog.pipeline.formats import Format, parser

    values = pa.array([b"[]", b'{"a": 1}', None, b'{"a": 2}', b"[]"], pa.binary())
    (parsed,) = parser(Format("json"), None, infer=True)(values.slice(1, 3))
    assert parsed.rows.to_pylist() == [{"a": 1}, {"a": 2}]
    assert [row.row for row in parsed.bad] == [1]
