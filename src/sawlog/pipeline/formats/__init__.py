"""Parsers from record values to columns: raw, JSON, CSV, Avro and Protobuf.

Bad values have a reason.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace

import pyarrow as pa

from sawlog.pipeline.formats.parsed import (
    KINDS,
    BadRow,
    ColumnRules,
    Format,
    FormatError,
    Parsed,
    Parser,
    check_options,
)
from sawlog.pipeline.formats.spark_types import plain_schema

__all__ = ["KINDS", "BadRow", "Format", "FormatError", "Parsed", "Parser", "parser", "parser_input"]

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
    columns = ColumnRules(plain_schema(known or pa.schema([])), infer, columns_are_final, generated)
    if is_framed(format_):
        return _framed_parser(format_, columns)
    match format_.kind:
        case "raw":
            check_options(format_, {})
            return _raw
        case "json":
            from sawlog.pipeline.formats.json_format import JsonParser

            if not infer and not len(columns.known):
                raise FormatError("format json needs a schema, or `infer`")
            return JsonParser(format_, columns)
        case "protobuf":
            from sawlog.pipeline.formats.protobuf_format import ProtobufParser

            return ProtobufParser(format_, known)
        case "csv":
            from sawlog.pipeline.formats.csv_format import CsvParser

            return CsvParser(format_, known)
        case "avro":
            from sawlog.pipeline.formats.avro_format import AvroParser

            return AvroParser(format_, known, infer=infer)


def is_framed(format_: Format) -> bool:
    """Whether the id of a schema stands before each value or in a header of its record."""
    encoding = format_.options.get("encoding")
    return format_.registry is not None or (format_.kind == "json" and encoding == "confluent")


def parser_input(format_: Format, records: pa.RecordBatch) -> pa.Array:
    """The argument for a parser of this format: the values, with ids from headers if need be."""
    if not is_framed(format_):
        return records.column("value")
    from sawlog.pipeline.formats import registry_framing

    return registry_framing.parser_input(records)


def _framed_parser(format_: Format, columns: ColumnRules) -> Parser:
    if format_.kind == "json" and format_.envelope:
        from sawlog.pipeline.formats.json_format import JsonParser

        return JsonParser(replace(format_, options={}), columns)  # rows of unwrapped events
    if format_.kind == "json":
        from sawlog.pipeline.formats.framed_json import FramedJsonParser

        return FramedJsonParser(format_, columns)
    from sawlog.pipeline.formats.registry_format import RegistryParser

    return RegistryParser(format_, columns)


def _raw(values: pa.Array) -> Iterator[Parsed]:
    """Return every value as it is; none is bad."""
    yield Parsed(pa.RecordBatch.from_arrays([values.cast(pa.binary())], schema=RAW), None, ())
