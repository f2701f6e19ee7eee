"""Type names in messages."""

import pyarrow as pa
import pytest

from sawlog.pipeline.formats.spark_types import type_name

NAMES = {
    pa.null(): "void",
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.uint8(): "smallint",
    pa.uint16(): "int",
    pa.uint32(): "bigint",
    pa.uint64(): "decimal(20,0)",
    pa.float16(): "float",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.decimal32(5, 1): "decimal(5,1)",
    pa.decimal64(12, 2): "decimal(12,2)",
    pa.decimal128(38, 0): "decimal(38,0)",
    pa.decimal256(50, 3): "decimal(50,3)",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.string_view(): "string",
    pa.binary(): "binary",
    pa.binary(16): "binary",
    pa.large_binary(): "binary",
    pa.binary_view(): "binary",
    pa.date32(): "date",
    pa.date64(): "date",
    pa.timestamp("s"): "timestamp",
    pa.timestamp("ns", tz="Europe/Berlin"): "timestamp",
    pa.time32("s"): "time",
    pa.time64("us"): "time",
    pa.duration("ms"): "interval day to second",
    pa.month_day_nano_interval(): "interval",
    pa.list_(pa.int64()): "array<bigint>",
    pa.large_list(pa.large_string()): "array<string>",
    pa.list_(pa.int8(), 3): "array<tinyint>",
    pa.list_view(pa.int64()): "array<bigint>",
    pa.large_list_view(pa.int64()): "array<bigint>",
    pa.map_(pa.string(), pa.list_(pa.float64())): "map<string,array<double>>",
    pa.struct([pa.field("a", pa.int64()), pa.field("b c", pa.time32("s"))]):
        "struct<a:bigint,`b c`:time>",
    pa.dictionary(pa.int8(), pa.large_string()): "string",
    pa.run_end_encoded(pa.int32(), pa.int64()): "bigint",
    pa.dense_union([pa.field("a", pa.int64()), pa.field("b", pa.string())]): "union<bigint,string>",
    pa.sparse_union([pa.field("a", pa.int64())]): "union<bigint>",
    pa.uuid(): "binary",
    pa.json_(): "string",
}  # fmt: skip


@pytest.mark.parametrize(("type_", "name"), NAMES.items(), ids=str)
def test_a_type_is_named_as_in_sql(type_: pa.DataType, name: str) -> None:
    assert type_name(type_) == name


def test_every_type_that_arrow_has_is_named() -> None:
    """Except two interval types that PyArrow cannot create."""
    ids = {name: number for name, number in vars(pa.lib).items() if name.startswith("Type_")}
    for unmade in ("Type_INTERVAL_MONTHS", "Type_INTERVAL_DAY_TIME"):
        ids.pop(unmade, None)
    named = {type_.id for type_ in NAMES}
    assert [name for name, number in ids.items() if number not in named] == []
