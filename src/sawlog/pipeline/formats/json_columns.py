"""Builds Arrow columns from the slots of JSON members, and collects rows that do not fit.

Known columns have binding types, as in Spark's `from_json`: integers fit floats, any value fits a
string as its text, and nothing else is converted. A new field gets a type that holds all its
values; a field that is always null gets no column.
"""

import math
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sawlog.pipeline.formats import json_grammar as grammar
from sawlog.pipeline.formats import json_kernels, value_kernels
from sawlog.pipeline.formats.casts import beyond_range, cast_texts, is_zero
from sawlog.pipeline.formats.compiled import Bytes, Flags, Places
from sawlog.pipeline.formats.json_fields import Column, FieldBudget, FieldIndex
from sawlog.pipeline.formats.json_slots import (
    Slots,
    array_of,
    empty_slots,
    empty_unknown,
    last_per_owner,
    places_of,
    texts_of,
    validity,
)
from sawlog.pipeline.formats.parsed import ColumnRules, Format
from sawlog.pipeline.formats.spark_types import (
    END_S,
    FIRST_S,
    MAX_DIGITS,
    column_name,
    field_column,
    is_list,
    quoted,
    type_name,
)

MAX_INFERRED_LEVELS = 20
"""Deeper values of a new field become text."""
_EXCERPT = 40
_FOUND = {
    grammar.FALSE: "",
    grammar.TRUE: "",
    grammar.INTEGER: "",
    grammar.BIG_INTEGER: "",
    grammar.FLOAT: "",
    grammar.STRING: "the string ",
    grammar.ESCAPED: "the string ",
    grammar.OBJECT: "the object ",
    grammar.ARRAY: "the array ",
}
_STRINGS = (grammar.STRING, grammar.ESCAPED)
_WHOLE = (grammar.INTEGER, grammar.BIG_INTEGER)
_NUMBERS = (*_WHOLE, grammar.FLOAT)
_MINUS = ord("-")
_ALL = tuple(range(grammar.FALSE, grammar.KINDS))
Doubles = npt.NDArray[np.float64]
_NOT_FINITE = frozenset((b"NaN", b"Infinity", b"-Infinity"))


class TooWide(Exception):
    """There are more slots than the limit: parse fewer rows at once."""


class FieldIndexes:
    """The field indexes of all nesting levels, kept between calls."""

    def __init__(self, format_: Format, columns: ColumnRules) -> None:
        self.infer = columns.infer
        self.columns_are_final = columns.are_final
        self.epoch_millis = frozenset(format_.epoch_millis)
        self.hinted_bigints = frozenset(format_.hinted_bigints)
        self.budget = FieldBudget()
        self._generated = columns.generated
        self._by_path: dict[str, tuple[pa.DataType | None, FieldIndex]] = {}

    def at(self, path: str, type_: pa.DataType | None) -> FieldIndex:
        known, index = self._by_path.get(path, (None, None))
        if index is None or known != type_:
            name = column_name if path else partial(field_column, generated=self._generated)
            index = FieldIndex(name, self.infer, self.budget)
            index.add_columns(list(type_) if type_ is not None else [])
            self._by_path[path] = (type_, index)
        return index


class Widening(NamedTuple):
    """A number that a bigint column would fit if it were double."""

    path: str
    reason: str


class Builder:
    """Builds columns over one buffer of values.

    `misfits` has the first reason per row that does not fit the table, `inferred_misfits` the
    first one for a type that was inferred here, and `widenings` the rows that would fit a wider
    column. Raises TooWide if nested fields have more than `most_slots` slots in total.
    """

    def __init__(self, data: Bytes, indexes: FieldIndexes, most_slots: int) -> None:
        self._data = data
        self._indexes = indexes
        self._slots_left = most_slots
        self._is_new = False  # whether the type of the current column was inferred here
        self.misfits: dict[int, str] = {}
        self.inferred_misfits: dict[int, str] = {}
        self.widenings: dict[int, Widening] = {}

    def column(self, slots: Slots, known: pa.DataType | None, path: str, level: int) -> pa.Array:
        """Build a column; None for a new field without a type yet."""
        if not slots.kinds.any():
            return None if known is None else pa.nulls(len(slots.kinds), known)
        if known is not None:
            return self._typed(slots, known, path, level)
        present = {int(kind) for kind in np.unique(slots.kinds)} - {grammar.MISSING, grammar.NULL}
        if not present:
            return None
        if level < MAX_INFERRED_LEVELS:
            if present == {grammar.OBJECT}:
                return self._struct(slots, None, path, level)
            if present == {grammar.ARRAY}:
                return self._list(slots, None, path, level)
        if self._indexes.columns_are_final:
            self._refuse(slots, slots.kinds > grammar.NULL, path)
            return None
        self._is_new = True
        array = self._typed(slots, self._inferred(slots, present), path, level)
        self._is_new = False
        return array

    def _inferred(self, slots: Slots, present: set[int]) -> pa.DataType:
        """The type of a new field. Strings stay strings even if they look like times: one other
        value must not cost rows, and a hint can declare the type.
        """
        if present <= {grammar.FALSE, grammar.TRUE}:
            return pa.bool_()
        if present == {grammar.INTEGER}:
            return pa.int64()
        if present <= set(_WHOLE):
            big = slots.are(grammar.BIG_INTEGER)
            digits = slots.lengths(big) - (self._data[slots.begins[big]] == _MINUS)
            # A number too large for a decimal does not fit, and does not make the others decimals.
            is_decimal = digits.min() <= MAX_DIGITS or grammar.INTEGER not in present
            return pa.decimal128(MAX_DIGITS, 0) if is_decimal else pa.int64()
        if present <= set(_NUMBERS):
            return pa.float64()
        return pa.string()

    def _typed(self, slots: Slots, type_: pa.DataType, path: str, level: int) -> pa.Array:
        if pa.types.is_struct(type_):
            return self._struct(slots, type_, path, level)
        if is_list(type_):
            return self._list(slots, type_, path, level)
        if pa.types.is_map(type_):
            return self._map(slots, type_, path, level)
        if pa.types.is_boolean(type_):
            return self._booleans(slots, type_, path)
        if pa.types.is_integer(type_):
            return self._integers(slots, type_, path)
        if pa.types.is_floating(type_):
            return self._floats(slots, type_, path)
        if pa.types.is_timestamp(type_):
            return self._timestamps(slots, type_, path)
        return self._texts(slots, type_, path)

    # Simple types.

    def _booleans(self, slots: Slots, type_: pa.DataType, path: str) -> pa.Array:
        fits = slots.are(grammar.FALSE, grammar.TRUE)
        self._note_misfits(slots, fits, type_, path)
        return array_of(type_, fits, np.packbits(slots.kinds == grammar.TRUE, bitorder="little"))

    def _integers(self, slots: Slots, type_: pa.DataType, path: str) -> pa.Array:
        numbers = np.empty(len(slots.kinds), np.int64)
        value_kernels.integers(self._data, *slots[:3], numbers)
        fits = slots.kinds == grammar.INTEGER
        if type_.bit_width < 64:
            limit = 1 << (type_.bit_width - 1)
            fits &= (numbers >= -limit) & (numbers < limit)
        widens = self._note_widenings(slots, path) if type_.bit_width == 64 else fits
        self._note_misfits(slots, fits | widens, type_, path)
        return array_of(type_, fits, numbers.astype(type_.to_pandas_dtype(), copy=False))

    def _note_widenings(self, slots: Slots, path: str) -> Flags:
        """Flag the numbers that fit a double, if the column may become one."""
        widens = slots.are(grammar.FLOAT)
        if not self._indexes.infer or path in self._indexes.hinted_bigints:
            widens[:] = False
        for at in places_of(widens):
            text = self._text(slots, at).decode()
            number = float(text)
            if (math.isinf(number) and text.encode() not in _NOT_FINITE) or (
                number == 0 and not is_zero(text)
            ):
                widens[at] = False
                continue
            reason = (
                f"field {path}: expected bigint, found {self._excerpt(slots, at)}; the column has"
                " integers beyond 2^53, which no double holds: land the topic in a new table with"
                f" hints: {quoted(path)} DECIMAL(38,9)"
            )
            row = int(at if slots.rows is None else slots.rows[at])
            self.widenings.setdefault(row, Widening(path, reason))
        return widens

    def _floats(self, slots: Slots, type_: pa.DataType, path: str) -> pa.Array:
        """The nearest floats; numbers out of range do not fit.

        In inferred columns an integer fits only if a double represents it exactly.
        """
        numbers = np.empty(len(slots.kinds), np.float64)
        left = np.empty(len(slots.kinds), np.bool_)
        fits = slots.are(*_NUMBERS)
        if value_kernels.doubles(self._data, *slots[:3], numbers, left):
            for at in places_of(left):
                numbers[at] = float(self._text(slots, at))
            self._refuse_beyond(slots, left, numbers, fits)
            if self._indexes.infer and type_.bit_width == 64:
                self._refuse_rounded(slots, left & fits, numbers, fits, path)
        for at in places_of(slots.are(*_STRINGS)):
            # Spark also writes and reads these three as strings.
            if self._text(slots, at) in _NOT_FINITE:
                numbers[at], fits[at] = float(self._text(slots, at)), True
        with np.errstate(over="ignore", under="ignore"):
            stored = numbers.astype(type_.to_pandas_dtype(), copy=False)
        fits &= (np.isinf(stored) == np.isinf(numbers)) & ((stored == 0) == (numbers == 0))
        self._note_misfits(slots, fits, type_, path)
        return array_of(type_, fits, stored)

    def _refuse_beyond(self, slots: Slots, left: Flags, numbers: Doubles, fits: Flags) -> None:
        """Remove numbers that became infinite or zero from `fits`.

        Numbers that were not `left` to Python's parser are in range.
        """
        for at in places_of(left & (np.isinf(numbers) | (numbers == 0))):
            text = self._text(slots, at)
            if text not in _NOT_FINITE and not (numbers[at] == 0 and is_zero(text.decode())):
                fits[at] = False

    def _refuse_rounded(
        self, slots: Slots, left: Flags, numbers: Doubles, fits: Flags, path: str
    ) -> None:
        """Remove integers that changed their value from `fits`; up to 2^53 all are exact."""
        for at in places_of(left & slots.are(*_WHOLE)):
            if int(self._text(slots, at)) != int(numbers[at]):
                fits[at] = False
                found = f"expected double, found {self._excerpt(slots, at)}"
                advice = "a schema or a hint can make the column DECIMAL or STRING"
                reason = f"{found}, which a double does not hold exactly; {advice}"
                self._misfit(slots, at, f"field {path}: {reason}")

    def _timestamps(self, slots: Slots, type_: pa.DataType, path: str) -> pa.Array:
        """Timestamps from strings, and from integers as seconds, as in Spark, or milliseconds."""
        whole = slots.kinds == grammar.INTEGER
        texts, fits = self._cast(slots, type_, _STRINGS)
        if not whole.any():
            self._note_misfits(slots, fits, type_, path)
            return texts
        numbers = np.empty(len(slots.kinds), np.int64)
        value_kernels.integers(self._data, *slots[:3], numbers)
        per_s = 1_000 if path in self._indexes.epoch_millis else 1
        is_within = (numbers >= FIRST_S * per_s) & (numbers < END_S * per_s)
        if per_s == 1:
            self._refuse_epochs(slots, whole & ~is_within, path)
        whole &= is_within
        micros = np.where(whole, numbers, 0) * (1_000_000 // per_s)
        strings = np.asarray(texts.cast(pa.int64()).fill_null(0))
        self._note_misfits(slots, fits | whole, type_, path)
        return array_of(type_, fits | whole, np.where(whole, micros, strings))

    def _refuse_epochs(self, slots: Slots, refused: Flags, path: str) -> None:
        for at in places_of(refused):
            self._misfit(
                slots, at, f"field {path}: expected timestamp, found {self._excerpt(slots, at)},"
                " which as seconds is outside the years 1 to 9999; for milliseconds declare it"
                " TIMESTAMP(MILLIS)"
            )  # fmt: skip

    def _texts(self, slots: Slots, type_: pa.DataType, path: str) -> pa.Array:
        kinds: tuple[int, ...] = _STRINGS
        if pa.types.is_string(type_):
            kinds = _ALL
        elif pa.types.is_decimal(type_):
            kinds = (*_NUMBERS, *_STRINGS)
        array, fits = self._cast(slots, type_, kinds)
        self._note_misfits(slots, fits, type_, path)
        return array

    def _cast(
        self, slots: Slots, type_: pa.DataType, kinds: tuple[int, ...]
    ) -> tuple[pa.Array, Flags]:
        wanted = slots.are(*kinds)
        out = np.empty(int(slots.lengths(wanted).sum()), np.uint8)
        bounds = np.empty(len(wanted) + 1, np.int32)
        value_kernels.texts(self._data, *slots[:3], wanted, out, bounds)
        buffers = [validity(wanted), pa.py_buffer(bounds), pa.py_buffer(out)]
        texts = pa.Array.from_buffers(pa.string(), len(wanted), buffers)
        array, bad = cast_texts(texts, type_)
        return array, wanted & ~bad

    def _text(self, slots: Slots, at: int) -> bytes:
        return self._data[slots.begins[at] : slots.ends[at]].tobytes()

    # Nested types.

    def _struct(
        self, slots: Slots, type_: pa.DataType | None, path: str, level: int
    ) -> pa.Array | None:
        index = self._indexes.at(path, type_)
        count = len(slots.kinds)
        refused = np.zeros(count, np.bool_)
        while True:
            if index.slots * count > self._slots_left:
                raise TooWide
            inside = empty_slots(index.slots, count)
            unknown = empty_unknown()
            json_kernels.split_nested_objects(
                self._data, *slots[:3], index.names(), index.mode, inside, unknown, refused
            )
            if not unknown[2][0]:
                break
            index.add_keys(texts_of(self._data, unknown))
        self._slots_left -= index.slots * count
        self._refuse(slots, refused, path)
        arrays: list[pa.Array] = []
        fields: list[pa.Field] = []
        for column in index.columns:
            inner = self.choose(index, column, inside, slots.rows, path)
            array = self.column(inner, column.type, f"{path}.{column.name}", level + 1)
            if array is not None:
                arrays.append(array)
                fields.append(pa.field(column.name, array.type))
        if not fields:
            return None
        fits = slots.kinds == grammar.OBJECT
        if type_ is not None:
            self._note_misfits(slots, fits, type_, path)
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=pa.array(~fits))

    def choose(
        self,
        index: FieldIndex,
        column: Column,
        found: json_kernels.Slots,
        rows: npt.NDArray[np.int64] | None,
        path: str,
    ) -> Slots:
        """The slots of a column, from all keys of its field."""
        first, *others = column.slots
        slots = Slots(found[0][first], found[1][first], found[2][first], rows)
        for other in others:
            kinds, begins, ends = (array[other] for array in found)
            if not kinds.any():
                continue
            both = (slots.kinds != grammar.MISSING) & (kinds != grammar.MISSING)
            if index.infer and both.any():
                names = " and ".join(map(repr, index.keys_of(column)))
                where = f"{path}.{column.name}" if path else column.name
                for at in places_of(both):
                    self._misfit(slots, at, f"fields {names} both belong to column {where}")
            takes = (slots.kinds == grammar.MISSING) & (kinds != grammar.MISSING)
            slots = Slots(
                np.where(takes, kinds, slots.kinds),
                np.where(takes, begins, slots.begins),
                np.where(takes, ends, slots.ends),
                rows,
            )
        return slots

    def _inside(
        self, slots: Slots, kind: int
    ) -> tuple[Places, json_kernels.Slots, json_kernels.Slots, npt.NDArray[np.int64]]:
        """The bounds, keys, values and rows of the content of all arrays or objects."""
        bounds = np.empty(len(slots.kinds) + 1, np.int32)
        total = json_kernels.count_items(self._data, *slots[:3], kind, bounds)
        keys, values = empty_slots(1, total), empty_slots(1, total)
        json_kernels.list_items(self._data, *slots[:3], kind, keys, values)
        owners = np.arange(len(slots.kinds)) if slots.rows is None else slots.rows
        return bounds, keys, values, np.repeat(owners, np.diff(bounds))

    def _list(
        self, slots: Slots, type_: pa.DataType | None, path: str, level: int
    ) -> pa.Array | None:
        bounds, _, values, rows = self._inside(slots, grammar.ARRAY)
        inside = Slots(values[0][0], values[1][0], values[2][0], rows)
        known = None if type_ is None else type_.value_type
        array = self.column(inside, known, f"{path}[]", level + 1)
        if array is None:
            return None
        fits = slots.kinds == grammar.ARRAY
        if type_ is not None:
            self._note_misfits(slots, fits, type_, path)
        return pa.ListArray.from_arrays(pa.array(bounds), array, mask=pa.array(~fits))

    def _map(self, slots: Slots, type_: pa.DataType, path: str, level: int) -> pa.Array:
        bounds, keys, values, rows = self._inside(slots, grammar.OBJECT)
        of_keys = Slots(keys[0][0], keys[1][0], keys[2][0], rows)
        of_values = Slots(values[0][0], values[1][0], values[2][0], rows)
        keys_array, fits_key = self._cast(of_keys, type_.key_type, _STRINGS)
        self._note_misfits(of_keys, fits_key, type_.key_type, f"{path}{{}}")
        values_array = self.column(of_values, type_.item_type, f"{path}{{}}", level + 1)
        owners = np.repeat(np.arange(len(slots.kinds)), np.diff(bounds))
        last = last_per_owner(owners, keys_array)
        if len(last) < len(owners):
            keys_array, values_array = keys_array.take(last), values_array.take(last)
            bounds = np.searchsorted(owners[last], np.arange(len(slots.kinds) + 1)).astype(np.int32)
        fits = slots.kinds == grammar.OBJECT
        self._note_misfits(slots, fits, type_, path)
        array = pa.MapArray.from_arrays(pa.array(bounds), keys_array, values_array)
        return array if fits.all() else array.take(pa.array(np.arange(len(fits)), mask=~fits))

    # Rows that do not fit.

    def _note_misfits(self, slots: Slots, fits: Flags, type_: pa.DataType, path: str) -> None:
        wrong = ~fits & (slots.kinds > grammar.NULL)
        if wrong.any():
            for at in places_of(wrong):
                found = f"{_FOUND[int(slots.kinds[at])]}{self._excerpt(slots, at)}"
                if slots.kinds[at] in _NUMBERS:
                    found += beyond_range(type_, self._text(slots, at).decode())
                self._misfit(slots, at, f"field {path}: expected {type_name(type_)}, found {found}")

    def _refuse(self, slots: Slots, refused: Flags, path: str) -> None:
        for at in places_of(refused):
            self._misfit(slots, at, f"field {path}: too many new fields in all")

    def _misfit(self, slots: Slots, at: int, reason: str) -> None:
        row = int(at if slots.rows is None else slots.rows[at])
        (self.inferred_misfits if self._is_new else self.misfits).setdefault(row, reason)

    def _excerpt(self, slots: Slots, at: int) -> str:
        text = self._text(slots, at)
        short = text[:_EXCERPT].decode("utf-8", "replace")
        short = f"{short}…" if len(text) > _EXCERPT else short
        return f'"{short}"' if slots.kinds[at] in _STRINGS else short
