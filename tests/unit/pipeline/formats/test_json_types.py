"""Values that fit a known column, and the types of new fields."""

import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sawlog.pipeline.formats import Format, parser
from sawlog.pipeline.formats import json_format as json_format_module
from sawlog.pipeline.formats.json_fields import MAX_NEW_FIELDS
from sawlog.pipeline.formats.schema_inference import from_ddl
from sawlog.pipeline.formats.spark_types import type_name
from support.pipeline.formats import outcome_of, parse

UTC = dt.UTC


def field(value: str) -> bytes:
    return f'{{"a": {value}}}'.encode()


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("bigint", "9223372036854775807", 2**63 - 1),
        ("bigint", "-9223372036854775808", -(2**63)),
        ("bigint", "-0", 0),
        ("bigint", "null", None),
        ("int", "-2147483648", -(2**31)),
        ("tinyint", "127", 127),
        ("double", "1", 1.0),
        ("double", "-0.0", -0.0),
        ("double", "0.1", 0.1),
        ("double", "123456789012345678901234567890", 123456789012345678901234567890.0),
        ("double", "9223372036854775808", 2.0**63),
        ("double", "-99999999999999999.9", -1e17),
        ("double", "5e-324", 5e-324),
        ("double", "1.7976931348623157e308", 1.7976931348623157e308),
        ("double", "-Infinity", -math.inf),
        ("double", '"Infinity"', math.inf),
        ("double", "-0", -0.0),
        ("double", "0e-400", 0.0),
        ("double", f"0.{'0' * 400}", 0.0),
        ("double", "9007199254740993", 2.0**53),  # the nearest, as for a declared double
        ("double", "1" * 45, float("1" * 45)),
        ("float", "3.4028235e38", 3.4028234663852886e38),
        ("float", "0.5", 0.5),
        ("boolean", "true", True),
        ("boolean", "false", False),
        ("string", '"x"', "x"),
        ("string", "12.50", "12.50"),
        ("string", "true", "true"),
        ("string", '{"b": [1, "c"]}', '{"b": [1, "c"]}'),
        ("decimal(5,2)", "1.5", Decimal("1.50")),
        ("decimal(5,2)", '"-123.45"', Decimal("-123.45")),
        ("decimal(38,0)", "99999999999999999999", Decimal("99999999999999999999")),
        ("decimal(38,0)", f"-{'9' * 38}", Decimal(f"-{'9' * 38}")),
        ("decimal(38,38)", f"0.{'1' * 38}", Decimal(f"0.{'1' * 38}")),
        ("decimal(5,2)", f"1.{'0' * 60}", Decimal("1.00")),
        ("decimal(5,2)", "12345e-2", Decimal("123.45")),
        ("decimal(5,2)", '"0e1000000000"', Decimal("0.00")),
        ("date", '"2024-02-29"', dt.date(2024, 2, 29)),
        ("date", '"0001-01-01"', dt.date(1, 1, 1)),
        ("timestamp", '"2024-02-29T12:30:00Z"', dt.datetime(2024, 2, 29, 12, 30, tzinfo=UTC)),
        ("timestamp", '"2024-02-29T12:30:00+02:00"', dt.datetime(2024, 2, 29, 10, 30, tzinfo=UTC)),
        ("timestamp", '"2024-02-29 12:30:00"', dt.datetime(2024, 2, 29, 12, 30, tzinfo=UTC)),
        ("timestamp", '"2024-02-29"', dt.datetime(2024, 2, 29, tzinfo=UTC)),
        (
            "timestamp",
            '"2024-02-29T12:30:00.123456789Z"',
            dt.datetime(2024, 2, 29, 12, 30, 0, 123456, tzinfo=UTC),
        ),
        (
            "timestamp",
            '"9999-12-31T23:59:59.999999999Z"',
            dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        ),
        ("timestamp", '"0001-01-01"', dt.datetime(1, 1, 1, tzinfo=UTC)),
        ("timestamp", "1700000000", dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)),
        ("binary", '"AAH/"', b"\x00\x01\xff"),
        ("array<bigint>", "[1, null, 2]", [1, None, 2]),
        ("array<bigint>", "[]", []),
        ("array<array<string>>", '[["a"], null, [], [1]]', [["a"], None, [], ["1"]]),
        ("map<string,bigint>", '{"x": 1, "y": null}', [("x", 1), ("y", None)]),
        ("map<string,bigint>", '{"x": 1, "y": 2, "x": 3}', [("y", 2), ("x", 3)]),
        ("struct<b:bigint,c:string>", '{"c": "d", "other": 1}', {"b": None, "c": "d"}),
        ("struct<b:struct<c:bigint>>", '{"b": {"c": 1}}', {"b": {"c": 1}}),
        ("array<struct<b:bigint>>", '[{"b": 1}, {}, null]', [{"b": 1}, {"b": None}, None]),
    ],
)
def test_what_fits(type_: str, value: str, expected: Any) -> None:
    found = parse("json", field(value), field("null"), b"{}", known=from_ddl(f"a {type_}"))
    assert found.bad == {}
    assert found.rows == [{"a": expected}, {"a": None}, {"a": None}]
    if isinstance(expected, float):
        assert math.copysign(1, found.rows[0]["a"]) == math.copysign(1, expected)


@pytest.mark.parametrize(
    ("type_", "value", "found"),
    [
        ("bigint", "9223372036854775808", "9223372036854775808"),
        ("bigint", "1.0", "1.0"),
        ("bigint", '"1"', 'the string "1"'),
        ("bigint", "true", "true"),
        ("tinyint", "128", "128"),
        ("double", '"1.5"', 'the string "1.5"'),
        ("double", "1e400", "1e400, which is beyond the range of double"),
        ("double", "-1e400", "-1e400, which is beyond the range of double"),
        ("double", "1e-400", "1e-400, which is beyond the range of double"),
        ("double", "9" * 400, f"{'9' * 40}…, which is beyond the range of double"),
        ("float", "1e39", "1e39, which is beyond the range of float"),
        ("float", "-1e-60", "-1e-60, which is beyond the range of float"),
        ("boolean", "1", "1"),
        ("decimal(5,2)", "1234.5", "1234.5"),
        ("decimal(5,2)", "1.005", "1.005"),
        # Arrow's cast reads these as other numbers, or crashes.
        (
            "decimal(38,0)",
            "344978690736625851781286570704999622830",
            "344978690736625851781286570704999622830",
        ),
        ("decimal(38,0)", "4705483442485810228020100670e33", "4705483442485810228020100670e33"),
        ("decimal(38,38)", "-1234567890123456789", "-1234567890123456789"),
        ("decimal(5,2)", "1e-1000000000", "1e-1000000000"),
        ("decimal(5,2)", '"1e-1000000000"', 'the string "1e-1000000000"'),
        ("decimal(5,2)", '"NaN"', 'the string "NaN"'),
        ("date", '"yesterday"', 'the string "yesterday"'),
        ("date", "19000", "19000"),
        ("timestamp", '"2024-13-01T00:00:00Z"', 'the string "2024-13-01T00:00:00Z"'),
        ("timestamp", '"0000-12-31T23:59:59Z"', 'the string "0000-12-31T23:59:59Z"'),
        ("timestamp", '"9999-12-31T23:00-01:00"', 'the string "9999-12-31T23:00-01:00"'),
        ("date", '"0000-12-31"', 'the string "0000-12-31"'),
        ("timestamp", "1.5", "1.5"),
        ("binary", '"no base64!"', 'the string "no base64!"'),
        ("array<bigint>", "1", "1"),
        ("array<bigint>", '{"a": 1}', 'the object {"a": 1}'),
        ("map<string,bigint>", "[1]", "the array [1]"),
        ("struct<b:bigint>", '"x"', 'the string "x"'),
    ],
)
def test_what_does_not_fit_names_field_expected_and_found(
    type_: str, value: str, found: str
) -> None:
    known = from_ddl(f"a {type_}, z bigint")
    outcome = parse("json", b'{"z": 1}', field(value), b'{"z": 2}', known=known)
    assert outcome.bad == {1: f"field a: expected {type_}, found {found}"}
    assert outcome.rows == [{"a": None, "z": 1}, {"a": None, "z": 2}]


def test_what_does_not_fit_inside_names_its_path() -> None:
    known = from_ddl("a array<struct<b:map<string,int>>>")
    outcome = parse("json", b'{"a": [{"b": {"x": 1}}, {"b": {"x": "y"}}]}', b"{}", known=known)
    assert outcome.bad == {0: 'field a[].b{}: expected int, found the string "y"'}
    assert outcome.rows == [{"a": None}]


def test_a_long_value_is_shortened_in_the_reason() -> None:
    outcome = parse("json", field(f'"{"x" * 1000}"'), known=from_ddl("a int"))
    assert outcome.bad == {0: f'field a: expected int, found the string "{"x" * 40}…"'}


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (["1", "2"], "bigint"),
        (["1", "2.5"], "double"),
        (["NaN"], "double"),
        (["true", "false", "null"], "boolean"),
        (['"a"', '"\\n"'], "string"),
        (['"2024-01-01T00:00:00Z"'], "string"),
        (["1", '"a"'], "string"),
        (["true", "1"], "string"),
        (["[1]", '{"b": 1}'], "string"),
        (["18446744073709551615", "1"], "decimal(38,0)"),
        (["9007199254740992", "-18014398509481988", "0.5"], "double"),
        (["-" + "1" * 38, "1"], "decimal(38,0)"),
        (["1" * 45, '"a"'], "string"),
        (["1e400", "true"], "string"),
        (["[1]", "[]", "[2.5]"], "array<double>"),
        (["[[1], [[]]]"], "array<array<string>>"),
        (['{"b": 1}', '{"c": "d"}'], "struct<b:bigint,c:string>"),
        (['[{"b": 1}, {"b": 2.5}]'], "array<struct<b:double>>"),
    ],
)
def test_the_type_of_a_new_field_holds_all_its_values(values: list[str], type_: str) -> None:
    outcome = parse("json", *map(field, values))
    assert outcome.bad == {}
    assert type_name(outcome.schema.field("a").type) == type_


@pytest.mark.parametrize(
    ("values", "type_", "bad"),
    [
        (["1", "1" * 45], "bigint", f"expected bigint, found {'1' * 40}…"),
        (["1" * 20, "1" * 45], "decimal(38,0)", f"expected decimal(38,0), found {'1' * 40}…"),
        (["1.5", "1e400"], "double", "expected double, found 1e400, which is beyond the range of"),
        (["1.5", "1e-400"], "double", "found 1e-400, which is beyond the range of double"),
        (["1.5", "9007199254740993"], "double", "9007199254740993, which a double does not hold"),
        (["1.5", "18446744073709551615"], "double", "which a double does not hold exactly"),
        (["[1.5]", "[-9007199254740993]"], "array<double>", "field a[]: expected double, found -"),
    ],
)
def test_a_number_that_the_type_of_a_new_field_does_not_hold_is_bad(
    values: list[str], type_: str, bad: str
) -> None:
    outcome = parse("json", *map(field, values))
    assert type_name(outcome.schema.field("a").type) == type_
    assert list(outcome.bad) == [1]
    assert bad in outcome.bad[1]
    assert len(outcome.rows) == 1


def test_a_whole_number_that_no_column_of_numbers_holds_is_bad_by_itself() -> None:
    outcome = parse("json", field("1" * 45))
    assert outcome.rows == []
    assert outcome.bad == {0: f"field a: expected decimal(38,0), found {'1' * 40}…"}


def test_an_inferred_double_of_the_table_takes_whole_numbers_only_as_they_are() -> None:
    known = from_ddl("a double")
    values = (field("9007199254740993"), field("9007199254740994"))
    outcome = parse("json", *values, known=known, infer=True)
    assert outcome.rows == [{"a": 9007199254740994.0}]
    assert "a schema or a hint can make the column DECIMAL or STRING" in outcome.bad[0]


@pytest.mark.parametrize("value", ["null", "[]", "{}", "[null, []]", '{"b": null, "c": [{}]}'])
def test_a_new_field_without_any_value_gets_no_column(value: str) -> None:
    outcome = parse("json", field(value), b'{"z": 1}')
    assert outcome.schema.names == ["z"]
    assert outcome.rows == [{"z": None}, {"z": 1}]


def test_new_fields_come_after_known_columns_in_order_of_appearance() -> None:
    known = from_ddl("k bigint, s struct<b:bigint>")
    outcome = parse("json", b'{"z": 1, "s": {"c": "x"}, "y": 2}', known=known, infer=True)
    assert [f"{part.name} {type_name(part.type)}" for part in outcome.schema] == [
        "k bigint",
        "s struct<b:bigint,c:string>",
        "z bigint",
        "y bigint",
    ]
    assert outcome.rows == [{"k": None, "s": {"b": None, "c": "x"}, "z": 1, "y": 2}]


def test_without_inference_unknown_fields_are_ignored() -> None:
    known = from_ddl("k bigint")
    outcome = parse("json", b'{"z": {"a": [1]}, "k": 1, "y": "x"}', known=known)
    assert outcome.rows == [{"k": 1}]
    assert outcome.schema == known


def test_a_known_type_binds_also_with_inference() -> None:
    outcome = parse("json", field("1"), field('"x"'), known=from_ddl("a bigint"), infer=True)
    assert outcome.rows == [{"a": 1}]
    assert outcome.bad == {1: 'field a: expected bigint, found the string "x"'}


def test_fields_named_as_the_record_s_own_columns_get_a_prefix() -> None:
    outcome = parse("json", b'{"timestamp": 1, "Topic": "x", "key": true, "s": {"topic": 2}}')
    assert outcome.rows == [
        {"value_timestamp": 1, "value_Topic": "x", "value_key": True, "s": {"topic": 2}}
    ]
    known = from_ddl("value_timestamp bigint")
    assert parse("json", b'{"timestamp": 1}', known=known).rows == [{"value_timestamp": 1}]


def test_characters_that_a_column_s_name_cannot_have_are_replaced() -> None:
    outcome = parse("json", b'{"a b": 1, "c.d": 2, "": 3, "{e}": 4, "\\u00e4=": 5}')
    assert outcome.rows == [{"a_b": 1, "c.d": 2, "_": 3, "_e_": 4, "ä_": 5}]


def test_control_characters_do_not_reach_a_column_s_name() -> None:
    """Some libraries cannot read a table with a NUL in a column name."""
    outcome = parse("json", rb'{"a\u0000b": 1, "c\rd": {"e\u001ff": 2}}')
    assert outcome.rows == [{"a_b": 1, "c_d": {"e_f": 2}}]


def test_fields_that_differ_in_case_share_a_column_but_not_in_one_row() -> None:
    values = (b'{"userId": 1}', b'{"userid": 2}', b'{"UserId": 3, "userId": 4}')
    outcome = parse("json", *values)
    assert outcome.rows == [{"userId": 1}, {"userId": 2}]
    assert "belong to column userId" in outcome.bad[2]
    exact = parse("json", *values, known=from_ddl("userId bigint"))
    assert exact.rows == [{"userId": 1}, {"userId": 2}, {"userId": 4}]


def test_a_parser_remembers_fields_but_not_their_types() -> None:
    parse_values = parser(Format("json"), None, infer=True)
    first = outcome_of(parse_values(pa.array([field("1")], pa.binary())), 1)
    second = outcome_of(parse_values(pa.array([field('"x"'), b'{"b": 1}'], pa.binary())), 2)
    third = outcome_of(parse_values(pa.array([b'{"b": 1.5}'], pa.binary())), 1)
    assert first.rows == [{"a": 1}]
    assert second.rows == [{"a": "x", "b": None}, {"a": None, "b": 1}]
    assert third.rows == [{"b": 1.5}]


def test_objects_that_use_data_as_keys_do_not_add_columns_without_bound() -> None:
    values = [json.dumps({f"user-{number}": 1}).encode() for number in range(3 * MAX_NEW_FIELDS)]
    outcome = parse("json", *values)
    assert len(outcome.schema) == MAX_NEW_FIELDS
    assert len(outcome.bad) == 2 * MAX_NEW_FIELDS
    assert "give the table a schema" in outcome.bad[3 * MAX_NEW_FIELDS - 1]
    nested = [b'{"a": {"b": 1}}', *(b'{"a": ' + value + b"}" for value in values)]
    found = parse("json", *nested)
    assert len(found.rows) == MAX_NEW_FIELDS - 1
    assert "too many new fields" in found.bad[len(nested) - 1]


def test_a_wide_table_is_parsed_in_several_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_format_module, "_MAX_SLOTS", 40)
    monkeypatch.setattr(json_format_module, "_MIN_ROWS", 2)
    for names, rows in ((10, 4), (40, 2)):
        values = [b'{"n%d": 1}' % number for number in range(names)]
        values.insert(5, b"broken")
        parts = list(parser(Format("json"), None, infer=True)(pa.array(values, pa.binary())))
        assert max(part.values for part in parts) == rows
        outcome = outcome_of(parts, len(values))
        assert list(outcome.bad) == [5]
        for number, row in enumerate(outcome.rows):
            assert {name for name, value in row.items() if value} == {f"n{number}"}


def test_nested_fields_count_for_how_much_is_parsed_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(json_format_module, "_MAX_SLOTS", 40)
    values = [b'{"a": {"b": [{"n%d": 1}]}}' % (number % 10) for number in range(30)]
    values.append(b'{"a": {"b": [%s]}}' % b",".join([b'{"n1": 1}'] * 50))
    parts = list(parser(Format("json"), None, infer=True)(pa.array(values, pa.binary())))
    assert max(part.values for part in parts) * 10 <= 40
    rows = outcome_of(parts, len(values)).rows
    assert [len(row["a"]["b"]) for row in rows] == [*([1] * 30), 50]


def test_a_frozen_parser_accepts_new_fields_that_need_no_column() -> None:
    values = [
        b'{"a": 1, "b": null, "c": [], "s": {"u": {}}}',
        b'{"a": 2, "d": 3}',
        b'{"s": {"t": 1, "u": {"v": [[true]]}}}',
        b'{"s": {"t": 1}, "b": null}',
    ]
    parse_values = parser(
        Format("json"), from_ddl("a int, s struct<t: int>"), infer=True, columns_are_final=True
    )
    outcome = outcome_of(parse_values(pa.array(values, pa.binary())), len(values))
    assert outcome.rows == [{"a": 1, "s": {"t": None}}, {"a": None, "s": {"t": 1}}]
    assert outcome.bad == {
        1: "field d: too many new fields in all",
        2: "field s.u.v[][]: too many new fields in all",
    }
