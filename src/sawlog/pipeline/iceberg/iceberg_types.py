"""Conversion between Arrow schemas and Iceberg schemas, partition specs and partition values.

Iceberg has no types for 8 and 16 bit integers; tables with such columns are refused. Field ids are
numbered from 1 in the order of a table with nothing else; the catalog may number them again.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)
from pyiceberg.utils.datetime import date_to_days, datetime_to_micros

from sawlog.pipeline.delta.delta_types import TIMESTAMP, is_list, stored_schema
from sawlog.pipeline.delta.errors import InvalidColumn
from sawlog.pipeline.delta.partitioning import PartitionBy, constant
from sawlog.pipeline.formats.spark_types import type_name

_FIRST_PARTITION_FIELD = 1000
_TYPES: dict[pa.DataType, IcebergType] = {
    pa.string(): StringType(),
    pa.int64(): LongType(),
    pa.int32(): IntegerType(),
    pa.float32(): FloatType(),
    pa.float64(): DoubleType(),
    pa.bool_(): BooleanType(),
    pa.binary(): BinaryType(),
    pa.date32(): DateType(),
    TIMESTAMP: TimestamptzType(),
}


def to_iceberg(schema: pa.Schema) -> Schema:
    """Convert a stored schema. Raises InvalidColumn for a type that Iceberg does not have."""
    return Schema(*_fields(list(schema), itertools.count(1), ""))


def from_iceberg(schema: Schema) -> pa.Schema:
    """The stored schema. Raises InvalidColumn for a type that no table here can have."""
    return stored_schema(schema_to_pyarrow(schema, include_field_ids=False))


def _fields(fields: Sequence[pa.Field], ids: Iterator[int], above: str) -> list[NestedField]:
    numbered = [(next(ids), field) for field in fields]
    return [
        NestedField(
            field_id=number,
            name=field.name,
            field_type=_type(field.type, ids, f"{above}{field.name}"),
            required=False,
        )
        for number, field in numbered
    ]


def _type(kind: pa.DataType, ids: Iterator[int], where: str) -> IcebergType:
    if (found := _TYPES.get(kind)) is not None:
        return found
    if pa.types.is_decimal(kind):
        return DecimalType(kind.precision, kind.scale)
    if pa.types.is_struct(kind):
        return StructType(*_fields(list(kind), ids, f"{where}."))
    if is_list(kind):
        return ListType(
            element_id=next(ids),
            element=_type(kind.value_type, ids, f"{where}.element"),
            element_required=False,
        )
    if pa.types.is_map(kind):
        key_id, value_id = next(ids), next(ids)
        return MapType(
            key_id=key_id,
            key_type=_type(kind.key_type, ids, f"{where}.key"),
            value_id=value_id,
            value_type=_type(kind.item_type, ids, f"{where}.value"),
            value_required=False,
        )
    raise InvalidColumn(
        f"column {where!r} is of type {type_name(kind)}, which Iceberg does not have: declare it as"
        " int"
    )


def partition_spec(schema: Schema, partition_by: Sequence[PartitionBy]) -> PartitionSpec:
    """The spec: every partition column is stored in the files and partitions by its identity."""
    return PartitionSpec(
        *(
            PartitionField(
                source_id=schema.find_field(entry.name).field_id,
                field_id=_FIRST_PARTITION_FIELD + position,
                transform=IdentityTransform(),
                name=entry.name,
            )
            for position, entry in enumerate(partition_by)
        )
    )


def partition_record(
    spec: PartitionSpec, schema: pa.Schema, values: Mapping[str, str | None]
) -> Record:
    """The partition of a file in Iceberg's terms, from the texts with which tasks report it."""
    return Record(
        *(
            _internal(constant(values[field.name], schema.field(field.name).type, 1)[0].as_py())
            for field in spec.fields
        )
    )


def _internal(value: Any) -> bool | int | float | str | Decimal | None:
    """A value as manifests have it: days and microseconds since 1970 for dates and times."""
    if isinstance(value, datetime):
        return datetime_to_micros(value)
    if isinstance(value, date):
        return date_to_days(value)
    assert value is None or isinstance(value, bool | int | float | str | Decimal), value
    return value
