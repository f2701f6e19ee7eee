"""CSV lines: quotes, types, and values that do not fit."""

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pytest

from sawlog.pipeline.formats import FormatError
from sawlog.pipeline.formats.schema_inference import from_ddl
from support.pipeline.formats import parse

TWO = from_ddl("a string, b bigint")


@pytest.mark.parametrize(
    ("line", "row"),
    [
        (b"x,1", {"a": "x", "b": 1}),
        (b"x,1\r\n", {"a": "x", "b": 1}),
        (b"x,1\n", {"a": "x", "b": 1}),
        (b" x , 1 ", {"a": " x ", "b": 1}),
        (b'"x,y","1"', {"a": "x,y", "b": 1}),
        (b'"he said ""no""",2', {"a": 'he said "no"', "b": 2}),
        (b'"two\nlines",3', {"a": "two\nlines", "b": 3}),
        (b'x"y,4', {"a": 'x"y', "b": 4}),
        (b",", {"a": None, "b": None}),
        (b'"",', {"a": "", "b": None}),
        (b'"""",1', {"a": '"', "b": 1}),
        ("ä€,5".encode(), {"a": "ä€", "b": 5}),
        ('\ufeff"x",6'.encode(), {"a": "x", "b": 6}),
    ],
)
def test_a_line_is_a_row(line: bytes, row: dict[str, Any]) -> None:
    outcome = parse("csv", b"w,0", line, known=TWO)
    assert outcome.rows == [{"a": "w", "b": 0}, row]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (None, "no value"),
        (b"", "1 field where 2 were expected"),
        (b"x", "1 field where 2 were expected"),
        (b"x,1,2", "3 fields where 2 were expected"),
        (b"x,1,", "3 fields where 2 were expected"),
        (b'"x,1', "a quote is not closed, at byte 0"),
        (b'"x"y,1', "something stands behind a closing quote, at byte 3"),
        (b"x,1\ny,2", "a second line in one value, at byte 3"),
        (b"\xff,1", "not UTF-8, at byte 0"),
        (b"x,one", 'field b: expected bigint, found "one"'),
        (b"x,0x10", 'field b: expected bigint, found "0x10"'),
        (b"x,1.5", 'field b: expected bigint, found "1.5"'),
        (b'x,""', 'field b: expected bigint, found ""'),
    ],
)
def test_malformed_lines_are_bad_and_their_neighbours_are_not(
    line: bytes | None, reason: str
) -> None:
    outcome = parse("csv", b"w,0", line, b"z,1", known=TWO)
    assert outcome.bad == {1: reason}
    assert outcome.rows == [{"a": "w", "b": 0}, {"a": "z", "b": 1}]


def test_all_simple_types() -> None:
    known = from_ddl("a double, b boolean, c date, d timestamp, e decimal(5,2), f tinyint")
    outcome = parse("csv", b"1.5,true,2024-02-29,2024-02-29 01:02:03,1.25,-1", known=known)
    assert outcome.rows == [
        {
            "a": 1.5,
            "b": True,
            "c": dt.date(2024, 2, 29),
            "d": dt.datetime(2024, 2, 29, 1, 2, 3, tzinfo=dt.UTC),
            "e": Decimal("1.25"),
            "f": -1,
        }
    ]


@pytest.mark.parametrize(
    ("type_", "text", "expected"),
    [
        ("double", "1.7976931348623157e308", 1.7976931348623157e308),
        ("double", "5e-324", 5e-324),
        ("double", "-0", -0.0),
        ("double", "0e-400", 0.0),
        ("double", "0.1", 0.1),
        ("double", "9007199254740993", 2.0**53),  # the nearest, as for a declared double
        ("double", "-inf", -math.inf),
        ("double", "Infinity", math.inf),
        ("float", "3.4028235e38", 3.4028234663852886e38),
        ("float", "0.1", 0.10000000149011612),
    ],
)
def test_a_float_is_the_nearest_to_what_was_sent(type_: str, text: str, expected: float) -> None:
    outcome = parse("csv", text.encode(), known=from_ddl(f"a {type_}"))
    assert outcome.bad == {}
    assert outcome.rows == [{"a": expected}]
    assert math.copysign(1, outcome.rows[0]["a"]) == math.copysign(1, expected)


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("double", "1e400"),
        ("double", "-1e400"),
        ("double", "1e-400"),
        ("double", " 1e400 "),
        ("float", "1e39"),
        ("float", "1e-60"),
        ("float", "9" * 39),
    ],
)
def test_a_number_beyond_the_range_of_its_column_is_bad(type_: str, text: str) -> None:
    outcome = parse("csv", b"0", text.encode(), b"1.5", known=from_ddl(f"a {type_}"))
    assert outcome.rows == [{"a": 0.0}, {"a": 1.5}]
    assert outcome.bad == {
        1: f'field a: expected {type_}, found "{text}", which is beyond the range of {type_}'
    }


def test_delimiter_quote_and_null_can_be_chosen() -> None:
    options = {"delimiter": "\\t", "quote": "'", "null": "-"}
    outcome = parse("csv", b"'x\ty'\t1", b"-\t-", b'"\t1', known=TWO, **options)
    assert outcome.rows == [{"a": "x\ty", "b": 1}, {"a": None, "b": None}, {"a": '"', "b": 1}]
    assert parse("csv", b'"x,1', known=TWO, quote="").rows == [{"a": '"x', "b": 1}]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"delimiter": ";;"}, "option delimiter of format csv is ';;'; expected one ASCII"),
        ({"delimiter": '"'}, "expected one other than the quote"),
        ({"separator": ";"}, "format csv has no option 'separator'; there are: delimiter, null"),
    ],
)
def test_invalid_options_are_rejected(options: dict[str, str], text: str) -> None:
    with pytest.raises(FormatError, match=text):
        parse("csv", known=TWO, **options)


def test_a_schema_is_needed_and_must_be_flat() -> None:
    with pytest.raises(FormatError, match="csv needs a schema"):
        parse("csv")
    with pytest.raises(FormatError, match="column a: csv has no array<int>"):
        parse("csv", known=from_ddl("a array<int>"))
