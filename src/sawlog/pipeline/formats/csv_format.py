"""CSV lines to columns: one value is one line with the fields of the schema in order.

Options: `delimiter` (a comma), `quote` (a double quote; empty for none) and `null`, the text for
null (the empty field; a quoted empty field is an empty string). A line with more or fewer fields
than columns is a bad row.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sawlog.pipeline.formats import csv_kernels
from sawlog.pipeline.formats import json_grammar as grammar
from sawlog.pipeline.formats.casts import beyond_range, cast_texts
from sawlog.pipeline.formats.compiled import Bytes
from sawlog.pipeline.formats.json_slots import Slots, empty_slots, places_of, validity
from sawlog.pipeline.formats.parsed import BadRow, Format, FormatError, Parsed, check_options
from sawlog.pipeline.formats.spark_types import is_list, plain_schema, type_name
from sawlog.pipeline.formats.value_buffers import values_of

_REASONS = {
    grammar.NO_VALUE: "no value",
    grammar.NOT_UTF8: "not UTF-8",
    csv_kernels.UNCLOSED: "a quote is not closed",
    csv_kernels.BEHIND_QUOTE: "something stands behind a closing quote",
    csv_kernels.SECOND_LINE: "a second line in one value",
}
_EXCERPT = 40


class CsvParser:
    def __init__(self, format_: Format, known: pa.Schema | None) -> None:
        check_options(format_, {"delimiter": None, "quote": None, "null": None})
        if known is None or not len(known):
            raise FormatError(
                "format csv needs a schema: its lines do not tell the names of their columns"
            )
        self._schema = plain_schema(known)
        for part in self._schema:
            if is_list(part.type) or pa.types.is_nested(part.type):
                raise FormatError(f"column {part.name}: csv has no {type_name(part.type)}")
        self._delimiter = _byte(format_, "delimiter", ",")
        self._quote = _byte(format_, "quote", '"')
        if self._delimiter in (0, 10, 13, self._quote):
            raise FormatError("option delimiter of format csv: expected one other than the quote")
        self._null = format_.options.get("null", "")

    def __call__(self, values: pa.Array) -> Iterator[Parsed]:
        data, begins, ends = values_of(values)
        count = len(begins)
        slots = empty_slots(len(self._schema), count)
        kept = np.empty(count, np.int32)
        codes, places = np.zeros(count, np.uint8), np.zeros(count, np.int32)
        good = csv_kernels.split_lines(
            data, begins, ends, self._delimiter, self._quote, slots, kept, codes, places
        )
        bad = {
            int(at): self._reason(-int(codes[at]), int(places[at])) for at in np.flatnonzero(codes)
        }
        rows = kept[:good].astype(np.int64)
        fits = np.ones(good, np.bool_)
        arrays: list[pa.Array] = []
        for number, part in enumerate(self._schema):
            column = Slots(
                slots[0][number, :good], slots[1][number, :good], slots[2][number, :good]
            )
            texts = self._texts(data, column)
            # Spaces around a number are ignored; in text they are kept.
            trimmed = texts if pa.types.is_string(part.type) else pc.ascii_trim_whitespace(texts)
            array, wrong = cast_texts(trimmed, part.type)
            for at in places_of(wrong):
                found = texts[at].as_py()
                beyond = beyond_range(part.type, found.strip())
                found = f"{found[:_EXCERPT]}…" if len(found) > _EXCERPT else found
                reason = (
                    f'field {part.name}: expected {type_name(part.type)}, found "{found}"{beyond}'
                )
                bad.setdefault(int(rows[at]), reason)
            fits &= ~wrong
            arrays.append(array)
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        if not fits.all():
            batch, rows = batch.filter(pa.array(fits)), rows[fits]
        found_bad = [BadRow(row, bad[row]) for row in sorted(bad)]
        yield Parsed(batch, pa.array(rows) if found_bad else None, found_bad)

    def _texts(self, data: Bytes, column: Slots) -> pa.Array:
        wanted = column.kinds != grammar.MISSING
        out = np.empty(int(column.lengths(wanted).sum()), np.uint8)
        bounds = np.empty(len(wanted) + 1, np.int32)
        csv_kernels.fields(data, *column[:3], self._quote, wanted, out, bounds)
        buffers = [validity(wanted), pa.py_buffer(bounds), pa.py_buffer(out)]
        texts = pa.Array.from_buffers(pa.string(), len(wanted), buffers)
        if self._null:
            is_null = pc.fill_null(pc.equal(texts, self._null), False)
            texts = pc.if_else(is_null, pa.scalar(None, pa.string()), texts)
        return texts

    def _reason(self, code: int, place: int) -> str:
        if code == csv_kernels.FIELD_COUNT:
            fields = "1 field" if place == 1 else f"{place} fields"
            return f"{fields} where {len(self._schema)} were expected"
        text = _REASONS[code]
        return text if code == grammar.NO_VALUE else f"{text}, at byte {place}"


def _byte(format_: Format, name: str, usual: str) -> int:
    text = format_.options.get(name, usual)
    text = "\t" if text == "\\t" else text
    if name == "quote" and not text:
        return 0
    if len(text) != 1 or ord(text) > 127:
        raise FormatError(f"option {name} of format csv is {text!r}; expected one ASCII character")
    return ord(text)
