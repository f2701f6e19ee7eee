"""Conditions on the columns of a row, such as `op = 'd' AND NOT archived`, evaluated by Arrow.

A subset of SQL: comparisons, `IN`, `IS NULL`, `AND`, `OR`, `NOT` and parentheses over columns,
fields of structs (`source.table`), strings, numbers, TRUE, FALSE and NULL. As in SQL, a comparison
with null is neither true nor false. A column that a batch lacks is null.
"""

import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sawlog.pipeline.formats.spark_types import type_name

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<string>'(?:[^']|'')*')
  | (?P<number>-?\d+(?:\.\d+)?)
  | (?P<name>(?:`[^`]+`|[^\W\d]\w*)(?:\.(?:`[^`]+`|[^\W\d]\w*))*)
  | (?P<symbol><>|!=|<=|>=|==|[=<>(),])
    )""",
    re.VERBOSE,
)
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "==": pc.equal,
    "<>": pc.not_equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_CONSTANTS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_WORDS = frozenset({"and", "or", "not", "is", "in", *_CONSTANTS})

Operand = Callable[[pa.RecordBatch], Any]
"""Returns an array, or a scalar for a literal."""


class InvalidCondition(ValueError):
    """A condition that cannot be parsed, or that does not fit the types of the columns."""


class _Token(NamedTuple):
    kind: str  # string, number, name, symbol, or end
    text: str
    at: int

    @property
    def word(self) -> str:
        return self.text.lower()


class Condition:
    """A parsed condition; `columns` are the top-level columns that it reads."""

    def __init__(self, text: str) -> None:
        """Raises InvalidCondition."""
        parser = _Parser(text)
        self.text = text
        self._evaluate = parser.condition()
        self.columns = frozenset(parser.columns)

    def holds(self, rows: pa.RecordBatch) -> pa.Array:
        """Whether the condition is true, for each row. Raises InvalidCondition."""
        found = _as_array(_boolean(self._evaluate(rows), self.text), rows.num_rows)
        return pc.fill_null(found, False)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._at = 0
        self.columns: set[str] = set()

    def condition(self) -> Operand:
        found = self._either()
        if self._next.kind != "end":
            raise self._unexpected("AND, OR or the end")
        return found

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self, *words: str) -> bool:
        """Consume the next tokens if they are these words or symbols."""
        ahead = self._tokens[self._at : self._at + len(words)]
        if [token.word for token in ahead if token.kind in ("name", "symbol")] != list(words):
            return False
        self._at += len(words)
        return True

    def _expect(self, word: str) -> None:
        if not self._take(word):
            raise self._unexpected(repr(word))

    def _unexpected(self, wanted: str) -> InvalidCondition:
        token = self._next
        found = "the end" if token.kind == "end" else repr(token.text)
        return InvalidCondition(
            f"expected {wanted} and found {found} at character {token.at + 1} of {self._text!r}"
        )

    def _either(self) -> Operand:
        found = self._both()
        while self._take("or"):
            found = _logical(pc.or_kleene, found, self._both(), self._text)
        return found

    def _both(self) -> Operand:
        found = self._negated()
        while self._take("and"):
            found = _logical(pc.and_kleene, found, self._negated(), self._text)
        return found

    def _negated(self) -> Operand:
        if self._take("not"):
            inner, text = self._negated(), self._text
            return lambda rows: pc.invert(_boolean(inner(rows), text))
        if self._take("("):
            found = self._either()
            self._expect(")")
            return found
        return self._comparison()

    def _comparison(self) -> Operand:
        left = self._operand()
        if self._next.text in _COMPARISONS and self._next.kind == "symbol":
            compare = _COMPARISONS[self._next.text]
            self._at += 1
            right = self._operand()
            text = self._text
            return lambda rows: _compared(compare, left(rows), right(rows), text)
        if self._take("is", "not", "null"):
            return lambda rows: pc.is_valid(left(rows))
        if self._take("is", "null"):
            return lambda rows: pc.is_null(left(rows))
        if self._take("not", "in"):
            found = self._among(left)
            return lambda rows: pc.invert(found(rows))
        if self._take("in"):
            return self._among(left)
        return left

    def _among(self, left: Operand) -> Operand:
        self._expect("(")
        values = [self._operand()]
        while self._take(","):
            values.append(self._operand())
        self._expect(")")
        text = self._text

        def found(rows: pa.RecordBatch) -> Any:
            one, *others = [_compared(pc.equal, left(rows), value(rows), text) for value in values]
            for other in others:
                one = pc.or_kleene(one, other)
            return one

        return found

    def _operand(self) -> Operand:
        token = self._next
        if token.kind in ("end", "symbol") or (token.word in _WORDS - _CONSTANTS.keys()):
            raise self._unexpected("a column or a value")
        self._at += 1
        if token.kind == "string":
            value: Any = pa.scalar(token.text[1:-1].replace("''", "'"))
        elif token.kind == "number":
            value = pa.scalar(Decimal(token.text) if "." in token.text else int(token.text))
        elif token.word in _CONSTANTS:
            value = pa.scalar(_CONSTANTS[token.word])
        else:
            path = [part.strip("`") for part in re.findall(r"`[^`]+`|[^.`]+", token.text)]
            self.columns.add(path[0])
            return lambda rows: _column(rows, path)
        return lambda _: value


def _tokens(text: str) -> Iterator[_Token]:
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            raise InvalidCondition(f"unexpected {text[at]!r} at character {at + 1} of {text!r}")
        kind = str(match.lastgroup)
        yield _Token(kind, match[kind], match.start(kind))
        at = match.end()
    yield _Token("end", "", end)


def _column(rows: pa.RecordBatch, path: list[str]) -> pa.Array:
    """A column or a field of one; nulls if the rows lack it. Case is ignored if needed."""
    place = _place([field.name for field in rows.schema], path[0])
    if place < 0:
        return pa.nulls(rows.num_rows)
    column = rows.column(place)
    for name in path[1:]:
        fields = list(column.type) if pa.types.is_struct(column.type) else []
        place = _place([field.name for field in fields], name)
        if place < 0:
            return pa.nulls(rows.num_rows)
        column = pc.struct_field(column, [place])
    return column


def _place(names: list[str], name: str) -> int:
    if name in names:
        return names.index(name)
    lower = [other.lower() for other in names]
    return lower.index(name.lower()) if name.lower() in lower else -1


def _logical(
    join: Callable[[Any, Any], Any], left: Operand, right: Operand, text: str
) -> Operand:  # fmt: skip
    return lambda rows: join(
        _as_array(_boolean(left(rows), text), rows.num_rows),
        _as_array(_boolean(right(rows), text), rows.num_rows),
    )


def _compared(compare: Callable[[Any, Any], Any], left: Any, right: Any, text: str) -> Any:
    if pa.types.is_null(left.type) or pa.types.is_null(right.type):
        length = len(left) if isinstance(left, pa.Array) else None
        length = len(right) if length is None and isinstance(right, pa.Array) else length
        return pa.scalar(None, pa.bool_()) if length is None else pa.nulls(length, pa.bool_())
    try:
        if isinstance(right, pa.Scalar) and _is_text_of(right.type, left.type):
            right = right.cast(left.type)
        elif isinstance(left, pa.Scalar) and _is_text_of(left.type, right.type):
            left = left.cast(right.type)
        if _family(left.type) != _family(right.type):
            raise pa.ArrowInvalid("types differ")
        return compare(left, right)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise InvalidCondition(
            f"{text!r} compares {type_name(left.type)} with {type_name(right.type)}"
        ) from error


def _is_text_of(text: pa.DataType, kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(text)
        and (
            pa.types.is_temporal(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind)
        )
    )


def _family(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    return str(kind)


def _boolean(found: Any, text: str) -> Any:
    if pa.types.is_null(found.type):
        return found.cast(pa.bool_())
    if not pa.types.is_boolean(found.type):
        raise InvalidCondition(f"{text!r}: expected a condition, found {type_name(found.type)}")
    return found


def _as_array(found: Any, rows: int) -> pa.Array:
    return pa.repeat(found, rows) if isinstance(found, pa.Scalar) else found
