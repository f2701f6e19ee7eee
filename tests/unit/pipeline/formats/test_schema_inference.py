"""Schemas from text, and one schema from those that several tasks inferred."""

import pyarrow as pa
import pytest

from sawlog.pipeline.formats import FormatError
from sawlog.pipeline.formats.schema_inference import ddl, from_ddl, merge
from sawlog.pipeline.formats.spark_types import plain, type_name

ALL_TYPES = (
    "a string, b binary, c boolean, d tinyint, e smallint, f int, g bigint, h float, i double,"
    " j decimal(12,3), k date, l timestamp, m array<map<string,array<int>>>,"
    " n struct<x:bigint,`y z`:struct<w:date>>"
)


def test_every_type_is_read_and_written() -> None:
    assert ddl(from_ddl(ALL_TYPES)) == ALL_TYPES


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("A BYTE, b Short, c INTEGER, d long, e REAL", "A tinyint, b smallint, c int, d bigint"),
        ("a decimal, b dec(5), c numeric(5, 2)", "a decimal(10,0), b decimal(5,0)"),
        ("a: int, b struct<c int, d: string>", "a int, b struct<c:int,d:string>"),
        ("`a``b` int COMMENT 'it''s'", "`a``b` int"),
        ('a int comment "x, y",\n b\tarray < array<int>>', "a int, b array<array<int>>"),
        ("date date, ünïcode int, 1st int", "date date, `ünïcode` int, `1` int"),
    ],
)  # fmt: skip
def test_other_notations_of_a_type_are_accepted(text: str, same: str) -> None:
    if "''" in text or "1st" in text:
        with pytest.raises(FormatError):
            from_ddl(text)
        return
    assert ddl(from_ddl(text)).startswith(same)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "no columns"),
        ("a", r"expected a type, found the end \(character 2\)"),
        ("a int,", "expected the name of a column, found the end"),
        ("a int b int", "expected ',', found 'b'"),
        ("a bigit", r"no such type: bigit; did you mean bigint\? \(character 3\)"),
        ("a geometry", "no such type: geometry; there are string, binary, "),
        ("a timestamp_ntz", r"no such type: timestamp_ntz; did you mean timestamp\?"),
        ("a int64", r"no such type: int64; did you mean bigint\?"),
        ("a FLOAT64", r"no such type: FLOAT64; did you mean double\?"),
        ("a varchar(10)", r"no such type: varchar; did you mean string\?"),
        ("a datetime", r"no such type: datetime; did you mean timestamp\?"),
        ("a int NOT NULL", "column 'a' is NOT NULL; every column of a landed table may be null"),
        ("a int, A string", "columns 'a' and 'A': names must differ in more than case"),
        ("a struct<b:int,B:int>", "names must differ in more than case"),
        ("a struct<>", "a struct without fields"),
        ("a array<int", "expected '>', found the end"),
        ("a map<array<int>,int>", "the keys of a map must be of a simple type"),
        ("a decimal(39)", "expected 1 to 38 digits"),
        ("a decimal(2,3)", "and no more than that after the point"),
        ("a decimal(x)", "expected a number"),
        ("a int comment", "expected a text in quotes"),
        ("a int;", "';' means nothing here"),
        ("a " + "array<" * 60 + "int" + ">" * 60, "more than 50 types inside of each other"),
    ],
)
def test_a_ddl_error_has_its_position(text: str, error: str) -> None:
    with pytest.raises(FormatError, match=error):
        from_ddl(text)


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("a bigint", "b string", "a bigint, b string"),
        ("a bigint", "a bigint", "a bigint"),
        ("a bigint", "a double", "a double"),
        ("a int", "a bigint", "a bigint"),
        ("a bigint", "a decimal(38,0)", "a decimal(38,0)"),
        ("a double", "a decimal(38,0)", "a double"),
        ("a bigint", "a string", "a string"),
        ("a boolean", "a bigint", "a string"),
        ("a date", "a timestamp", "a string"),
        ("a struct<b:bigint>", "a struct<c:string>", "a struct<b:bigint,c:string>"),
        ("a struct<b:bigint>", "a bigint", "a string"),
        ("a array<bigint>", "a array<double>", "a array<double>"),
        ("a array<bigint>", "a struct<b:bigint>", "a string"),
        ("a map<string,int>", "a map<string,string>", "a map<string,string>"),
    ],
)
def test_new_fields_get_a_type_that_holds_the_values_of_both(
    one: str, other: str, both: str
) -> None:
    merged = merge(None, from_ddl(one), from_ddl(other))
    assert ddl(merged.schema) == both


def test_a_clash_names_what_must_be_parsed_again() -> None:
    found = (
        from_ddl("k bigint, a bigint, s struct<b:bigint>, same string"),
        from_ddl("k bigint, a double, s struct<b:string,c:int>, same string"),
    )
    merged = merge(from_ddl("k bigint"), *found)
    assert ddl(merged.schema) == "k bigint, a double, s struct<b:string,c:int>, same string"
    assert merged.clashes == ["a", "s.b"]


def test_a_column_that_only_one_schema_has_is_no_clash() -> None:
    merged = merge(from_ddl("k bigint"), from_ddl("k bigint, s struct<a:int>"), from_ddl("b int"))
    assert merged.clashes == []
    assert merge(from_ddl("k bigint")).clashes == []


def test_names_that_differ_in_case_are_one_column_and_a_clash() -> None:
    merged = merge(None, from_ddl("userId bigint"), from_ddl("userid bigint"))
    assert ddl(merged.schema) == "userId bigint"
    assert merged.clashes == ["userid"]


def test_the_types_of_a_table_are_never_changed() -> None:
    known = from_ddl("a bigint, s struct<b:bigint>, l array<struct<b:bigint>>")
    found = from_ddl("a double, s struct<b:string,c:int>, l array<struct<b:string,c:int>>")
    merged = merge(known, found)
    assert ddl(merged.schema) == (
        "a bigint, s struct<b:bigint,c:int>, l array<struct<b:bigint,c:int>>"
    )
    assert merged.clashes == ["a", "s.b", "l[].b"]


def test_arrow_types_that_mean_the_same_in_a_table_are_the_same_here() -> None:
    odd = pa.struct(
        [
            pa.field("a", pa.large_string(), nullable=False),
            pa.field("b", pa.list_(pa.field("element", pa.string_view()))),
            pa.field("c", pa.dictionary(pa.int32(), pa.large_binary())),
            pa.field("d", pa.timestamp("ms", "UTC")),
            pa.field("e", pa.map_(pa.string(), pa.large_list(pa.int8()))),
        ]
    )
    assert type_name(odd) == (
        "struct<a:string,b:array<string>,c:binary,d:timestamp,e:map<string,array<tinyint>>>"
    )
    usual = from_ddl(
        "a string, b array<string>, c binary, d timestamp, e map<string,array<tinyint>>"
    )
    assert plain(odd) == pa.struct(list(usual))
