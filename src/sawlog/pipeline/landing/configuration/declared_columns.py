"""The columns of a landed table: those that the file declares, and those its parser needs.

A partition such as `date(timestamp)` generates a column. A field of a value with the same name
becomes `value_<name>`, as do fields named like a column of the record.
"""

from collections.abc import Collection, Iterable
from pathlib import Path

import pyarrow as pa

from sawlog.pipeline.delta.partitioning import parse
from sawlog.pipeline.formats import RAW
from sawlog.pipeline.formats.landed_rows import table_schema, value_schema
from sawlog.pipeline.formats.parsed import Format, FormatError
from sawlog.pipeline.formats.schema_inference import from_avro, from_ddl
from sawlog.pipeline.landing.configuration.pipeline_config import INFER, LandedTable
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure


def format_of(config: LandedTable) -> Format:
    """The format with the text of its schema file, which tasks may not be able to read."""
    options = dict(config.options)
    if config.format == "avro":
        options["schema"] = _schema_file(config)
    return Format(config.format, options)  # type: ignore[arg-type]


def declared_schema(config: LandedTable) -> pa.Schema | None:
    """The columns of values that the file declares; None if they are inferred."""
    try:
        if config.format == "raw":
            return RAW
        if config.format == "avro":
            return from_avro(_schema_file(config))
        return None if config.schema == INFER else from_ddl(config.schema)
    except FormatError as error:
        raise LandingFailure(
            FailureKind.INVALID, f"the schema of {config.name!r}: {error}"
        ) from None


def initial_schema(config: LandedTable) -> pa.Schema:
    """The columns that the table has from the start."""
    return table_schema(declared_schema(config) or pa.schema([]))


def generated_columns(partition_by: Iterable[str]) -> frozenset[str]:
    """The names of generated partition columns, in lower case."""
    entries = [parse(text) for text in partition_by]
    return frozenset(entry.name.lower() for entry in entries if entry.unit is not None)


def parser_schema(table: pa.Schema, generated: Collection[str]) -> pa.Schema:
    """The columns of a table that come from values."""
    return value_schema(
        pa.schema([field for field in table if field.name.lower() not in generated])
    )


def _schema_file(config: LandedTable) -> str:
    try:
        return Path(config.schema).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise LandingFailure(
            FailureKind.INVALID, f"the schema of {config.name!r}: {config.schema}: {reason}"
        ) from None
