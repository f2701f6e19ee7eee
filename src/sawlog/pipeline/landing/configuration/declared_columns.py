"""The columns of a landed table: those that the file declares, and those its parser needs.

A partition such as `date(timestamp)` generates a column. A field of a value with the same name
becomes `value_<name>`, as do fields named like a column of the record.
"""

import base64
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from sawlog.pipeline.delta.partitioning import parse
from sawlog.pipeline.formats import RAW
from sawlog.pipeline.formats.ddl import epoch_millis, leaf_paths
from sawlog.pipeline.formats.landed_rows import table_schema, value_schema
from sawlog.pipeline.formats.parsed import Format, FormatError
from sawlog.pipeline.formats.schema_inference import from_avro, from_ddl
from sawlog.pipeline.formats.spark_types import field_column
from sawlog.pipeline.landing.configuration.pipeline_config import (
    INFER,
    RECORD_KEY,
    REGISTRY,
    LandedTable,
)
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure

AVRO_FILE, PROTOBUF_FILE = ".avsc", ".desc"


def format_of(config: LandedTable) -> Format:
    """The format with the text of its schema file, which tasks may not be able to read."""
    options = dict(config.options)
    millis: list[str] = []
    bigints: list[str] = []
    if config.schema.endswith(AVRO_FILE):
        options["schema"] = _schema_file(config).decode(errors="replace")
    elif config.schema.endswith(PROTOBUF_FILE):
        options["schema"] = base64.b64encode(_schema_file(config)).decode()
    if config.format == "json":
        columns = pa.schema(
            [
                pa.field(field_column(part.name, config.columns.reserved), part.type)
                for part in _bound_schema(config)
            ]
        )
        millis, bigints = epoch_millis(columns), list(leaf_paths(columns, pa.types.is_int64))
    registry = config.registry if uses_registry(config) else None
    found = Format(config.format, options, registry, millis, bigints)  # type: ignore[arg-type]
    if config.upsert is None:
        return found
    has_columns = any(name != RECORD_KEY for name in config.upsert.key)
    key_registry = config.registry if has_columns else None
    return replace(found, envelope=config.upsert.envelope, key_registry=key_registry)


def uses_registry(config: LandedTable) -> bool:
    """Whether the schemas of values come from a registry.

    An Avro file is the reader's schema then, unless the file lists the ids that it has.
    """
    if config.schema == REGISTRY:
        return True
    if config.registry is None or config.format not in ("avro", "protobuf"):
        return False
    if config.schema.endswith(AVRO_FILE):
        encoding = config.options.get("encoding")
        return encoding == "confluent" and "schema_id" not in config.options
    return not config.schema.endswith(PROTOBUF_FILE)


def declared_schema(config: LandedTable) -> pa.Schema | None:
    """The columns of values that the file declares; None if they are inferred."""
    try:
        if config.format == "raw":
            return RAW
        if config.schema.endswith(AVRO_FILE):
            return from_avro(format_of(config).options["schema"])
        if config.schema.endswith(PROTOBUF_FILE):
            from sawlog.pipeline.formats.protobuf_format import file_decoder

            return file_decoder(format_of(config)).columns
        is_declared = config.schema not in (INFER, REGISTRY)
        return _parse_ddl(config, config.schema) if is_declared else None
    except FormatError as error:
        raise LandingFailure(
            FailureKind.INVALID, f"the schema of {config.name!r}: {error}"
        ) from None


def hinted_schema(config: LandedTable) -> pa.Schema:
    """The columns of values whose types the file has, beside inferred ones."""
    try:
        return _parse_ddl(config, config.hints) if config.hints else pa.schema([])
    except FormatError as error:
        raise LandingFailure(
            FailureKind.INVALID, f"the hints of {config.name!r}: {error}"
        ) from None


def _parse_ddl(config: LandedTable, text: str) -> pa.Schema:
    schema = from_ddl(text)
    if config.format != "json" and epoch_millis(schema):
        raise FormatError("TIMESTAMP(MILLIS) is for numbers in json")
    return schema


def _bound_schema(config: LandedTable) -> pa.Schema:
    """The columns of values that the file has, declared or as hints."""
    declared = declared_schema(config)
    return hinted_schema(config) if declared is None else declared


def initial_schema(config: LandedTable) -> pa.Schema:
    """The columns that the table has from the start."""
    declared = _bound_schema(config)
    if config.format in ("avro", "protobuf"):
        _check_reserved(config, declared)
    return table_schema(declared, config.columns)


def initial_value_schema(config: LandedTable) -> pa.Schema:
    """The columns of values that the table has from the start."""
    return parser_schema(initial_schema(config), config.columns.reserved)


def _check_reserved(config: LandedTable, declared: pa.Schema) -> None:
    for name in declared.names:
        if name.lower() in config.columns.reserved:
            raise LandingFailure(
                FailureKind.INVALID,
                f"the schema of {config.name!r} has a field {name!r}, and `columns` adds a column"
                " of that name for the record",
            )


def generated_columns(partition_by: Iterable[str]) -> frozenset[str]:
    """The names of generated partition columns, in lower case."""
    entries = [parse(text) for text in partition_by]
    return frozenset(entry.name.lower() for entry in entries if entry.unit is not None)


def parser_schema(table: pa.Schema, generated: Collection[str]) -> pa.Schema:
    """The columns of a table that come from values."""
    return value_schema(
        pa.schema([field for field in table if field.name.lower() not in generated])
    )


def _schema_file(config: LandedTable) -> bytes:
    try:
        return Path(config.schema).read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise LandingFailure(
            FailureKind.INVALID, f"the schema of {config.name!r}: {config.schema}: {reason}"
        ) from None
