"""Reads `table_format` and `catalog` of the pipeline file, and checks what Iceberg cannot have."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sawlog.pipeline.delta.delta_types import stored_schema
from sawlog.pipeline.delta.errors import TableError
from sawlog.pipeline.delta.partitioning import add_partition_columns, parse
from sawlog.pipeline.delta.table_path import StorageOptions, TablePath
from sawlog.pipeline.iceberg.catalogs import (
    CATALOG_TYPES,
    DEFAULT_NAMESPACE,
    CatalogConfig,
    check_installed,
    check_location,
    embedded_catalog,
)
from sawlog.pipeline.landing.configuration import yaml_nodes
from sawlog.pipeline.landing.configuration.pipeline_config import (
    DELTA,
    ICEBERG,
    TABLE_FORMATS,
    LandedTable,
    Table,
)
from sawlog.pipeline.landing.configuration.yaml_nodes import Problems, Section

if TYPE_CHECKING:
    import pyarrow as pa
    import yaml

TABLE_FORMAT = "table_format"
CATALOG = "catalog"


def read_table_format(section: Section, default: str = DELTA) -> str:
    return section.take(TABLE_FORMAT, _table_format, default)


def read_catalog(top: Section) -> CatalogConfig | None:
    """The catalog that the file names; None if it names none. No problem shows a value."""
    section = top.section(CATALOG)
    if section is None:
        return None
    kind = section.need("type", _catalog_type, "sql")
    namespace = section.take("namespace", yaml_nodes.text, DEFAULT_NAMESPACE)
    options = {
        name: section.take(name, _option, "")
        for name in section.names()
        if name not in ("type", "namespace")
    }
    if kind in ("sql", "rest") and not options.get("uri"):
        section.problems.add(section.node, f"catalog: a {kind} catalog needs its uri")
    return CatalogConfig(kind, namespace, StorageOptions(options))


def catalog_of(
    entry: Section, table_format: str, named: CatalogConfig | None, lake: TablePath
) -> CatalogConfig | None:
    """The catalog of a table; None for a Delta table."""
    if table_format != ICEBERG:
        return None
    try:
        check_installed()
        check_location(lake)
        return named or embedded_catalog(lake)
    except TableError as error:
        entry.problems.add(entry.node, f"{entry.title}: {error}")
        return None


def check_columns(table: LandedTable, columns: "pa.Schema") -> None:
    """Raise InvalidColumn if an Iceberg table cannot have the declared columns."""
    if table.catalog is not None:
        from sawlog.pipeline.iceberg.iceberg_types import to_iceberg

        by = [parse(text) for text in table.partition_by]
        to_iceberg(add_partition_columns(stored_schema(columns), by))


def check_iceberg(
    problems: Problems, top: Section, default_format: str, tables: Iterable[Table]
) -> None:
    """Check that the catalog has a table, and that no query reads or writes Iceberg tables."""
    found = list(tables)
    iceberg = {
        table.name
        for table in found
        if isinstance(table, LandedTable) and table.catalog is not None
    }
    if CATALOG in top and not iceberg:
        problems.add(
            top.node_of(CATALOG), "catalog: it is for Iceberg tables, and the file has none: set"
            " table_format: iceberg"
        )  # fmt: skip
    for table in found:
        if isinstance(table, LandedTable):
            if table.catalog is not None and table.upsert is not None:
                problems.add(
                    top.node_of("tables"), f"tables: {table.name!r} is an Iceberg table, to which"
                    " rows are only appended; mode: upsert needs table_format: delta"
                )  # fmt: skip
            continue
        read = [name for name in table.tables if name in iceberg]
        if read:
            problems.add(
                top.node_of("tables"), f"tables: the query of {table.name!r} reads {read[0]!r},"
                " which is an Iceberg table; queries read Delta tables and topics"
            )  # fmt: skip
        elif default_format == ICEBERG:
            problems.add(
                top.node_of("tables"), f"tables: the result of a query, {table.name!r}, is a Delta"
                " table: set table_format: iceberg at the other tables instead of the file"
            )  # fmt: skip


def _table_format(node: "yaml.Node") -> str:
    found = yaml_nodes.text(node)
    if found not in TABLE_FORMATS:
        raise ValueError(f"expected {' or '.join(TABLE_FORMATS)}, not {found!r}")
    return found


def _catalog_type(node: "yaml.Node") -> str:
    found = yaml_nodes.text(node)
    if found not in CATALOG_TYPES:
        raise ValueError(f"expected one of {', '.join(CATALOG_TYPES)}, not {found!r}")
    return found


def _option(node: "yaml.Node") -> str:
    """An option of pyiceberg. Its value is in no error: it may be a credential."""
    try:
        return yaml_nodes.text(node)
    except ValueError:
        raise ValueError("expected one value, such as uri: http://...") from None
