"""Bytes to columns: raw, JSON, CSV and Avro, and every value that does not fit with its reason."""

from collections.abc import Collection, Iterator

import pyarrow as pa

from sawlog.pipeline.formats.parsed import (
    KINDS,
    BadRow,
    Format,
    FormatError,
    Parsed,
    Parser,
    check_options,
)

__all__ = ["KINDS", "BadRow", "Format", "FormatError", "Parsed", "Parser", "parser"]

RAW = pa.schema([pa.field("value", pa.binary())])


def parser(
    format_: Format,
    known: pa.Schema | None,
    *,
    infer: bool,
    frozen: bool = False,
    generated: Collection[str] = (),
) -> Parser:
    """Parses values of that format. The columns of `known` bind: a value that does not fit them is
    a bad row. With `infer` new fields become columns behind them, with types that are inferred;
    where that is `frozen`, a value that needs one is a bad row: `known` has what was found in an
    earlier go over the same values, and must not grow by what that one had no room for.
    `generated` are names, in lower case, that the columns of fields cannot have in this table.

    FormatError says what is wrong with the format or its schema, before any value is seen.
    """
    match format_.kind:
        case "raw":
            check_options(format_, {})
            return _raw
        case "json":
            from sawlog.pipeline.formats.json_format import JsonParser

            if not infer and (known is None or not len(known)):
                raise FormatError("format json needs a schema, or `infer`")
            return JsonParser(format_, known, infer=infer, frozen=frozen, generated=generated)
        case "csv":
            from sawlog.pipeline.formats.csv_format import CsvParser

            return CsvParser(format_, known)
        case "avro":
            from sawlog.pipeline.formats.avro_format import AvroParser

            return AvroParser(format_, known, infer=infer)


def _raw(values: pa.Array) -> Iterator[Parsed]:
    """Every value as it is; none is bad."""
    yield Parsed(pa.RecordBatch.from_arrays([values.cast(pa.binary())], schema=RAW), None, ())
