"""Parses a schema in Spark's DDL, `id BIGINT, tags ARRAY<STRING>`, with the types of tables.

`TIMESTAMP(MILLIS)` is an addition: a timestamp whose numbers are milliseconds since 1970, not
seconds. It becomes an Arrow timestamp in milliseconds, and a plain timestamp in a table.
"""

import difflib
import re
from collections.abc import Callable, Iterator
from typing import NoReturn

import pyarrow as pa

from sawlog.pipeline.formats.parsed import FormatError
from sawlog.pipeline.formats.spark_types import MAX_DIGITS, SIMPLE, TIMESTAMP, is_list

_OTHER_NAMES = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "bool": "boolean",
    "timestamp_ltz": "timestamp",
    "dec": "decimal",
    "numeric": "decimal",
}
_OF_OTHER_SYSTEMS = {  # types that are not accepted here; the hint names the one to write
    **dict.fromkeys(
        ("char", "varchar", "text", "str", "utf8", "uuid", "json", "variant"), "string"
    ),
    **dict.fromkeys(("bytes", "bytea", "blob", "varbinary"), "binary"),
    **dict.fromkeys(("int8", "uint8"), "tinyint or smallint"),
    "int16": "smallint",
    "int32": "int",
    **dict.fromkeys(("int64", "uint32", "serial", "bigserial"), "bigint"),
    **dict.fromkeys(("uint64", "number", "money"), "decimal"),
    "float32": "float",
    "float64": "double",
    **dict.fromkeys(("datetime", "timestamptz", "timestamp_ntz"), "timestamp"),
    "list": "array",
    **dict.fromkeys(("record", "row", "object"), "struct"),
}
_WORDS = (*SIMPLE, "decimal", "array", "map", "struct", *_OTHER_NAMES)
_TOKEN = re.compile(
    r"\s*(?:(?P<word>[^\W\d]\w*)|`(?P<quoted>(?:[^`]|``)+)`|(?P<number>\d+)"
    r"|(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(?P<sign>[<>(),:]))",
    re.DOTALL,
)
_EPOCH_UNITS = {"seconds": TIMESTAMP, "millis": pa.timestamp("ms", tz="UTC")}
_MAX_LEVELS = 50
_USUAL_DIGITS = 10


class _Token:
    __slots__ = ("at", "kind", "text")

    def __init__(self, kind: str, text: str, at: int) -> None:
        self.kind, self.text, self.at = kind, text, at


class _Reader:
    """A recursive descent parser over tokens."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._cut(text))
        self._next = 0

    def _cut(self, text: str) -> "list[_Token]":
        tokens, at = [], 0
        end = len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at, end)
            if match is None:
                self._fail(f"{text[at:].lstrip()[:1]!r} means nothing here", at)
            kind = match.lastgroup or ""
            tokens.append(_Token(kind, match[kind], match.start(kind)))
            at = match.end()
        tokens.append(_Token("end", "", end))
        return tokens

    def _fail(self, what: str, at: int) -> NoReturn:
        raise FormatError(f"schema {self._text!r}: {what} (character {at + 1})")

    @property
    def _here(self) -> _Token:
        return self._tokens[self._next]

    def _is(self, sign: str) -> bool:
        return self._here.kind == "sign" and self._here.text == sign

    def _take(self, sign: str) -> None:
        if not self._is(sign):
            found = repr(self._here.text) if self._here.text else "the end"
            self._fail(f"expected {sign!r}, found {found}", self._here.at)
        self._next += 1

    def schema(self) -> pa.Schema:
        fields = self._fields("end", "", 0)
        if not fields:
            self._fail("no columns; expected for example 'id BIGINT, name STRING'", 0)
        return pa.schema(fields)

    def _fields(self, end_kind: str, end: str, level: int) -> list[pa.Field]:
        fields: list[pa.Field] = []
        seen: dict[str, str] = {}
        while not (self._here.kind == end_kind and self._here.text == end):
            if fields:
                self._take(",")
            at = self._here.at
            name = self._name()
            if name.lower() in seen:
                self._fail(
                    f"columns {seen[name.lower()]!r} and {name!r}: names must differ in more"
                    " than case",
                    at,
                )
            seen[name.lower()] = name
            if self._is(":"):
                self._next += 1
            type_ = self._type(level)
            self._rest_of_field(name)
            fields.append(pa.field(name, type_))
        return fields

    def _name(self) -> str:
        token = self._here
        if token.kind not in ("word", "quoted", "number"):
            found = repr(token.text) if token.text else "the end"
            self._fail(f"expected the name of a column, found {found}", token.at)
        self._next += 1
        return token.text.replace("``", "`") if token.kind == "quoted" else token.text

    def _rest_of_field(self, name: str) -> None:
        if self._here.kind == "word" and self._here.text.lower() == "not":
            self._fail(
                f"column {name!r} is NOT NULL; every column of a landed table may be null:"
                " leave it out",
                self._here.at,
            )
        if self._here.kind == "word" and self._here.text.lower() == "comment":
            self._next += 1
            if self._here.kind != "text":
                self._fail("expected a text in quotes after COMMENT", self._here.at)
            self._next += 1

    def _type(self, level: int) -> pa.DataType:
        token = self._here
        if token.kind != "word":
            found = repr(token.text) if token.text else "the end"
            self._fail(f"expected a type, found {found}", token.at)
        if level > _MAX_LEVELS:
            self._fail(f"more than {_MAX_LEVELS} types inside of each other", token.at)
        self._next += 1
        written = token.text.lower()
        name = _OTHER_NAMES.get(written, written)
        if name == "timestamp":
            return self._timestamp()
        if name in SIMPLE:
            return SIMPLE[name]
        if name == "decimal":
            return self._decimal(token.at)
        if name == "array":
            (inside,) = self._inside(1, level)
            return pa.list_(inside)
        if name == "map":
            at = self._here.at
            of_key, of_value = self._inside(2, level)
            if pa.types.is_map(of_key) or is_list(of_key) or pa.types.is_struct(of_key):
                self._fail("the keys of a map must be of a simple type", at)
            return pa.map_(of_key, of_value)
        if name != "struct":
            self._fail(f"no such type: {token.text}{_hint(written)}", token.at)
        self._take("<")
        fields = self._fields("sign", ">", level + 1)
        if not fields:
            self._fail("a struct without fields", token.at)
        self._take(">")
        return pa.struct(fields)

    def _inside(self, count: int, level: int) -> list[pa.DataType]:
        self._take("<")
        types = [self._type(level + 1)]
        for _ in range(count - 1):
            self._take(",")
            types.append(self._type(level + 1))
        self._take(">")
        return types

    def _decimal(self, at: int) -> pa.DataType:
        precision, scale = _USUAL_DIGITS, 0
        if self._is("("):
            self._next += 1
            precision = self._number()
            if self._is(","):
                self._next += 1
                scale = self._number()
            self._take(")")
        if not 1 <= precision <= MAX_DIGITS or scale > precision:
            self._fail(
                f"decimal({precision},{scale}): expected 1 to {MAX_DIGITS} digits, and no more"
                " than that after the point",
                at,
            )
        return pa.decimal128(precision, scale)

    def _timestamp(self) -> pa.DataType:
        if not self._is("("):
            return TIMESTAMP
        self._next += 1
        token = self._here
        if token.text.lower() not in _EPOCH_UNITS:
            self._fail("expected TIMESTAMP(SECONDS) or TIMESTAMP(MILLIS)", token.at)
        self._next += 1
        self._take(")")
        return _EPOCH_UNITS[token.text.lower()]

    def _number(self) -> int:
        if self._here.kind != "number":
            self._fail("expected a number", self._here.at)
        self._next += 1
        return int(self._tokens[self._next - 1].text)


def _hint(written: str) -> str:
    if (known := _OF_OTHER_SYSTEMS.get(written)) is not None:
        return f"; did you mean {known}?"
    near = difflib.get_close_matches(written, _WORDS, n=1)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(_WORDS[:15])}"


def from_ddl(text: str) -> pa.Schema:
    """Parse a schema. FormatError says what is wrong and at which character."""
    return _Reader(text).schema()


def epoch_millis(schema: pa.Schema) -> list[str]:
    """The paths of the `TIMESTAMP(MILLIS)` in a schema, as the JSON parser writes them."""
    return list(leaf_paths(schema, lambda leaf: pa.types.is_timestamp(leaf) and leaf.unit == "ms"))


def leaf_paths(schema: pa.Schema, is_wanted: Callable[[pa.DataType], bool]) -> Iterator[str]:
    """The paths of the wanted types in a schema: `a`, `a.b`, `a[].b`, `a{}`."""
    waiting = [(part.name, part.type) for part in reversed(schema)]
    while waiting:
        path, type_ = waiting.pop()
        if pa.types.is_struct(type_):
            waiting += [(f"{path}.{part.name}", part.type) for part in reversed(list(type_))]
        elif is_list(type_):
            waiting.append((f"{path}[]", type_.value_type))
        elif pa.types.is_map(type_):
            waiting.append((f"{path}{{}}", type_.item_type))
        elif is_wanted(type_):
            yield path
