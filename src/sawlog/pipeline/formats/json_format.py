"""JSON objects to columns: one value is one object and one row.

Compiled loops parse every value on its own, so a malformed value costs no more than a good one and
never affects its neighbours. A key that occurs twice has its last value. Options: `encoding`, which
is `plain` here; `framed_json.py` has the other.
"""

import sys
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sawlog.pipeline.formats import json_grammar as grammar
from sawlog.pipeline.formats import json_kernels
from sawlog.pipeline.formats.json_columns import Builder, FieldIndexes, TooWide
from sawlog.pipeline.formats.json_fields import MAX_NEW_FIELDS, FieldIndex
from sawlog.pipeline.formats.json_slots import empty_slots, empty_unknown, texts_of
from sawlog.pipeline.formats.parsed import BadRow, ColumnRules, Format, Parsed, check_options
from sawlog.pipeline.formats.value_buffers import Values, values_of

_MAX_SLOTS = (64 << 20) // 9
"""Slots held at once, top-level and nested each, of 9 bytes: values of a wide table are parsed in
several parts, down to one row.
"""
_MIN_ROWS = 256
_ROUNDS = 4
"""How often values are parsed again without rows that do not land."""
_REASONS = {
    grammar.NO_VALUE: "no value",
    grammar.EMPTY: "an empty value",
    grammar.CUT_OFF: "not JSON: it ends too early",
    grammar.UNEXPECTED: "not JSON: unexpected character",
    grammar.BAD_ESCAPE: "not JSON: unknown escape in a string",
    grammar.BAD_SURROGATE: "not JSON: half of a surrogate pair in a string",
    grammar.CONTROL: "not JSON: control character in a string",
    grammar.BAD_NUMBER: "not JSON: not a number",
    grammar.TOO_DEEP: f"nested deeper than {grammar.MAX_LEVELS} levels",
    grammar.NOT_UTF8: "not JSON: not UTF-8",
    grammar.TRAILING: "not JSON: something behind the object",
    grammar.TOO_MANY_FIELDS: f"more than {MAX_NEW_FIELDS} new fields; give the table a schema",
}
_KINDS = {
    grammar.NULL: "null",
    grammar.FALSE: "a boolean",
    grammar.TRUE: "a boolean",
    grammar.INTEGER: "a number",
    grammar.BIG_INTEGER: "a number",
    grammar.FLOAT: "a number",
    grammar.STRING: "a string",
    grammar.ESCAPED: "a string",
    grammar.ARRAY: "an array",
}
_WITHOUT_PLACE = (grammar.NO_VALUE, grammar.EMPTY)


class JsonParser:
    """Keys are remembered between calls; inferred types are not."""

    def __init__(self, format_: Format, columns: ColumnRules) -> None:
        check_options(format_, {"encoding": ("plain",)})
        self._indexes = FieldIndexes(format_, columns)
        self._known = columns.known
        self._index = self._indexes.at("", pa.struct(list(columns.known)))

    def __call__(self, values: pa.Array) -> Iterator[Parsed]:
        return self.parse(values_of(values))

    def parse(self, left: Values) -> Iterator[Parsed]:
        """Parse values at these positions; see Parser."""
        most = max(1, len(left.begins))
        while True:
            try:
                part = self._part(left.first(most))
            except TooWide:
                most //= 2
                continue
            yield part
            left = left.after(part.values)
            if not len(left.begins):
                return

    def _part(self, values: Values) -> Parsed:
        """Parse as many of the first values as stay within the slot limit.

        New columns and their types come from rows that land: if rows do not fit and others have
        new fields, the others are parsed again without them.
        """
        attempt = self._attempt(values)
        values = values.first(attempt.count)
        numbers = np.arange(attempt.count)  # of the values that are still parsed
        bad: dict[int, str] = {}
        widen = attempt.widen
        for _ in range(_ROUNDS):
            if not attempt.misfits or attempt.batch.schema.equals(self._known):
                break
            refused = attempt.bad | (attempt.bound or attempt.inferred)
            bad |= {int(numbers[at]): reason for at, reason in refused.items()}
            stays = np.ones(len(numbers), np.bool_)
            stays[list(refused)] = False
            numbers = numbers[stays]
            attempt = self._attempt(values.among(numbers))
            assert attempt.count == len(numbers), "the same keys need as many slots"
            widen |= attempt.widen
        bad |= {int(numbers[at]): reason for at, reason in (attempt.bad | attempt.misfits).items()}
        found = [BadRow(row, bad[row]) for row in sorted(bad)]
        kept = np.setdiff1d(np.arange(len(values.begins)), list(bad)) if found else None
        return Parsed(attempt.fitting(), None if kept is None else pa.array(kept), found, widen)

    def _attempt(self, values: Values) -> "_Attempt":
        """Parse the first values; each becomes a row or is bad."""
        index = self._index
        while True:
            most = _MAX_SLOTS // max(1, index.slots)
            data, begins, ends = values.first(max(_MIN_ROWS, most))
            slots, unknown = empty_slots(index.slots, len(begins)), empty_unknown()
            kept = np.empty(len(begins), np.int32)
            codes = np.zeros(len(begins), np.uint8)
            places = np.zeros(len(begins), np.int32)
            good = json_kernels.split_objects(
                data, begins, ends, index.names(), index.mode, slots, unknown,
                kept, codes, places,
            )  # fmt: skip
            if not unknown[2][0]:
                break
            index.add_keys(texts_of(data, unknown))
        builder = Builder(data, self._indexes, _MAX_SLOTS if len(begins) > 1 else sys.maxsize)
        batch = _batch(builder, index, slots, good)
        bad = {int(at): _reason(-int(codes[at]), int(places[at])) for at in np.flatnonzero(codes)}
        return _Attempt(len(begins), batch, kept[:good].astype(np.int64), bad, builder)


class _Attempt:
    """The rows of the first `count` values, and why values are bad, by their index.

    `bad` are malformed; `bound` do not fit the columns of the table, and `inferred` only types that
    were inferred from these values. `widen` are the paths of bigint columns that would fit more
    rows if they were double.
    """

    def __init__(
        self,
        count: int,
        batch: pa.RecordBatch,
        rows: npt.NDArray[np.int64],
        bad: dict[int, str],
        builder: Builder,
    ) -> None:
        self.count = count
        self.batch = batch
        self.bad = bad
        self._rows = rows
        widenings = {
            row: one for row, one in builder.widenings.items() if row not in builder.misfits
        }
        bound = {row: one.reason for row, one in widenings.items()} | builder.misfits
        self.widen = {one.path for one in widenings.values()}
        self.bound = {int(rows[row]): reason for row, reason in bound.items()}
        self.inferred = {
            int(rows[row]): reason
            for row, reason in builder.inferred_misfits.items()
            if row not in bound
        }

    @property
    def misfits(self) -> dict[int, str]:
        return self.bound | self.inferred

    def fitting(self) -> pa.RecordBatch:
        """The rows without misfits."""
        if not self.misfits:
            return self.batch
        return self.batch.filter(pa.array(~np.isin(self._rows, list(self.misfits))))


def _batch(
    builder: Builder, index: FieldIndex, slots: json_kernels.Slots, good: int
) -> pa.RecordBatch:
    fields: list[pa.Field] = []
    arrays: list[pa.Array] = []
    slots = (slots[0][:, :good], slots[1][:, :good], slots[2][:, :good])
    for column in index.columns:
        chosen = builder.choose(index, column, slots, None, "")
        array = builder.column(chosen, column.type, column.name, 1)
        if array is not None:
            arrays.append(array)
            fields.append(pa.field(column.name, array.type))
    if not fields:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * good, pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _reason(code: int, place: int) -> str:
    if code <= grammar.NOT_AN_OBJECT:
        kind = _KINDS[grammar.NOT_AN_OBJECT - code]
        return f"{kind} where an object was expected"
    if code in _WITHOUT_PLACE:
        return _REASONS[code]
    return f"{_REASONS[code]}, at byte {place}"
