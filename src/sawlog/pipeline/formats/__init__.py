"""Parsers from record values to columns: raw, JSON, CSV and Avro. Bad values have a reason."""

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
    columns_are_final: bool = False,
    generated: Collection[str] = (),
) -> Parser:
    """A parser for values of a format. A value that does not fit the columns of `known` is a bad
    row.

    With `infer`, new fields become columns with inferred types after the known ones. With
    `columns_are_final` too, a value that needs a new column is a bad row: `known` then has the
    columns of an earlier pass over the same values and must not grow. `generated` are column names,
    in lower case, that fields cannot have. Raises FormatError for an invalid format or schema.
    """
    match format_.kind:
        case "raw":
            check_options(format_, {})
            return _raw
        case "json":
            from sawlog.pipeline.formats.json_format import JsonParser

            if not infer and (known is None or not len(known)):
                raise FormatError("format json needs a schema, or `infer`")
            return JsonParser(
                format_,
                known,
                infer=infer,
                columns_are_final=columns_are_final,
                generated=generated,
            )
        case "csv":
            from sawlog.pipeline.formats.csv_format import CsvParser

            return CsvParser(format_, known)
        case "avro":
            from sawlog.pipeline.formats.avro_format import AvroParser

            return AvroParser(format_, known, infer=infer)


def _raw(values: pa.Array) -> Iterator[Parsed]:
    """Return every value as it is; none is bad."""
    yield Parsed(pa.RecordBatch.from_arrays([values.cast(pa.binary())], schema=RAW), None, ())
