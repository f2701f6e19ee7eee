"""Reads and checks `pipeline.yaml`: every key, every value, and how they fit together.

A problem is reported with file and line, and an unknown key with the nearest known one.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sawlog.client.consumer.consumer import AT_EARLIEST, AT_LATEST, AtTime, Start
from sawlog.client.net.addresses import parse_addresses
from sawlog.pipeline.delta.errors import TableError, UnsupportedStorage
from sawlog.pipeline.delta.partitioning import add_partition_columns
from sawlog.pipeline.delta.partitioning import parse as parse_partition
from sawlog.pipeline.delta.table_path import (
    StorageOptions,
    TablePath,
    is_object_store,
    parse_url,
)
from sawlog.pipeline.formats import parser
from sawlog.pipeline.formats.landed_rows import (
    HEADER_COLUMNS,
    KEY_COLUMNS,
    USUAL,
    RecordColumns,
)
from sawlog.pipeline.formats.parsed import FormatError
from sawlog.pipeline.formats.spark_types import quoted
from sawlog.pipeline.iceberg.catalogs import CatalogConfig
from sawlog.pipeline.landing.configuration import yaml_nodes
from sawlog.pipeline.landing.configuration.declared_columns import (
    AVRO_FILE,
    PROTOBUF_FILE,
    declared_schema,
    format_of,
    initial_schema,
    initial_value_schema,
)
from sawlog.pipeline.landing.configuration.iceberg_settings import (
    TABLE_FORMAT,
    catalog_of,
    check_columns,
    check_iceberg,
    read_catalog,
    read_table_format,
)
from sawlog.pipeline.landing.configuration.keyed_table import (
    KEYED_KEYS,
    check_envelope,
    check_upsert_columns,
    read_upsert,
)
from sawlog.pipeline.landing.configuration.pipeline_config import (
    CHECKPOINTS,
    DEAD_SUFFIX,
    DELTA,
    FORMATS,
    INFER,
    RECORDS,
    REGISTRY,
    CommitBounds,
    LandedTable,
    Maintenance,
    PipelineConfig,
    QueryTable,
    Table,
)
from sawlog.pipeline.landing.configuration.schema_source import (
    default_schema,
    read_registry,
    schema_problem,
)
from sawlog.pipeline.landing.configuration.sql_table_names import table_names
from sawlog.pipeline.landing.configuration.topic_selection import check_pattern
from sawlog.pipeline.landing.configuration.yaml_nodes import Problems, Section
from sawlog.pipeline.landing.failures import LandingFailure
from sawlog.pipeline.registry.registry_url import RegistryUrl

if TYPE_CHECKING:
    import pyarrow as pa
    import yaml

_TABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_MAX_GROUP_CHARS = 255
_QUERY_KEYS = ("sql", "key", "watermark", "topics", "partition_by", "every")
_TOPIC_KEYS = ("topic", "topics", "topic_pattern")
_LANDED_KEYS = (
    *_TOPIC_KEYS, "format", "schema", "options", "partition_by", "commit", "group", "start",
    "isolation", "registry", "registry_options", "columns", "hints", TABLE_FORMAT, *KEYED_KEYS,
)  # fmt: skip
NO_NAMES: tuple[str, ...] = ()
START: Start = AT_EARLIEST  # the default
_ISOLATION = {"read_committed": True, "read_uncommitted": False}


class Places(NamedTuple):
    """Where things are: relative paths, tables, the checkpoints of queries, and the catalog."""

    directory: Path
    lake: TablePath
    checkpoints: str | None
    registry: RegistryUrl | None = None
    catalog: CatalogConfig | None = None
    table_format: str = DELTA


def read_pipeline(path: str) -> PipelineConfig:
    """Read the file. Raises OSError, or BadPipelineFile with all problems."""
    return parse_pipeline(path, Path(path).read_text(encoding="utf-8", errors="replace"))


def parse_pipeline(
    file: str, content: str, environment: Mapping[str, str] = os.environ
) -> PipelineConfig:
    """Parse the text; relative paths in it are relative to the directory of `file`."""
    problems, node = yaml_nodes.parse(file, content, environment)
    return _pipeline(problems, node, Path(file).resolve())


def pipeline_from_objects(content: Mapping[str, object], directory: str) -> PipelineConfig:
    """Read the content of a file from Python objects. Raises BadPipelineFile, whose problems name
    the keys."""
    problems, node = yaml_nodes.represent(content)
    return _pipeline(problems, node, Path(directory).resolve() / "pipeline")


def _pipeline(problems: Problems, node: "yaml.MappingNode", file: Path) -> PipelineConfig:
    top = Section(problems, node, "the file")
    directory = file.parent
    brokers = top.need("brokers", _brokers, "")
    lake = _lake(problems, top, directory)
    checkpoints = _checkpoints(top, directory, lake)
    spark = top.take("spark", yaml_nodes.mapping, dict[str, str]())
    _check_spark(problems, top, spark)
    maintain = _maintain(top)
    registry = read_registry(top, directory, None)
    places = Places(
        directory, lake, checkpoints, registry, read_catalog(top), read_table_format(top)
    )
    tables = _tables(problems, top, places)
    top.finish()
    _check_together(problems, top, tables)
    check_iceberg(problems, top, places.table_format, tables)
    if checkpoints is None and any(isinstance(table, QueryTable) for table in tables):
        problems.add(
            top.node, "the lake is in an object store, and Spark keeps the checkpoints of queries"
            " in a directory: name one that lasts, checkpoints: DIRECTORY"
        )  # fmt: skip
    problems.raise_if_any()
    return PipelineConfig(str(file), brokers, lake, tuple(tables), spark, maintain)


def _maintain(top: Section) -> Maintenance | None:
    """`maintain: false`, or the settings of the upkeep."""
    if "maintain" in top and top.is_false("maintain"):
        return None
    section = top.section("maintain")
    usual = Maintenance()
    if section is None:
        return usual
    found = Maintenance(
        every_s=section.take("every", yaml_nodes.duration_s, usual.every_s),
        small_files=section.take("small_files", yaml_nodes.whole, usual.small_files),
        target_bytes=section.take("target", yaml_nodes.size, usual.target_bytes),
    )
    section.finish()
    return found


def _resolve_path(directory: Path, place: str) -> str:
    return str((directory / Path(place).expanduser()).resolve())


def _lake(problems: Problems, top: Section, directory: Path) -> TablePath:
    """The lake: a directory, or a URL of an object store with its options."""
    place = top.need("lake", _place, "lake")
    options = StorageOptions(top.take("lake_options", _store_options, dict[str, str]()))
    if not is_object_store(place):
        if options:
            problems.add(
                top.node_of("lake_options"), "lake_options: they are for object stores, and the"
                " lake is a directory"
            )  # fmt: skip
        return TablePath(_resolve_path(directory, place))
    lake = TablePath(place, options)
    try:
        from sawlog.pipeline.delta.store_clients import store_client

        store_client(parse_url(lake), options)
    except UnsupportedStorage as error:
        problems.add(top.node_of("lake_options" if options else "lake"), str(error))
    return lake


def _place(node: "yaml.Node") -> str:
    found = yaml_nodes.text(node)
    if "://" not in found:
        return found
    if found.startswith("file://"):
        return found.removeprefix("file://")
    return str(parse_url(found))


def _store_options(node: "yaml.Node") -> dict[str, str]:
    """Options of the store. No value is part of an error: it may be a credential."""
    try:
        return yaml_nodes.mapping(node)
    except ValueError:
        raise ValueError("expected names with one value each, such as region: eu-west-1") from None


def _checkpoints(top: Section, directory: Path, lake: TablePath) -> str | None:
    """The directory of the checkpoints of queries; None if there is none."""
    default = None if is_object_store(lake) else f"{lake}/{CHECKPOINTS}"
    found = top.take("checkpoints", _directory, "")
    return _resolve_path(directory, found) if found else default


def _directory(node: "yaml.Node") -> str:
    found = yaml_nodes.text(node)
    if "://" in found:
        raise ValueError(f"expected a directory, of this machine or mounted, not {found!r}")
    return found


def _brokers(node: "yaml.Node") -> str:
    found = ",".join(yaml_nodes.texts(node))
    parse_addresses(found)
    return found


def _check_spark(problems: Problems, top: Section, settings: dict[str, str]) -> None:
    for name in settings:
        if not name.startswith("spark."):
            problems.add(top.node_of("spark"), f"spark: {name!r} is not a Spark setting: they"
                         " begin with 'spark.'")  # fmt: skip


def _tables(problems: Problems, top: Section, places: Places) -> list[Table]:
    if "tables" not in top:
        problems.add(top.node, "the file has no 'tables'")
    section = top.section("tables")
    if section is None:
        return []
    names = section.names()
    if not names:
        problems.add(section.node, "tables: there are none")
    tables: list[Table] = []
    for name in names:
        try:
            check_name(name)
        except ValueError as error:
            problems.add(section.node_of(name), str(error))
        entry = section.section(name)
        if entry is not None:
            tables.append(_table(entry, name, places, names))
    return tables


def check_name(name: str) -> None:
    """Raise ValueError if a table cannot have this name."""
    if not _TABLE_NAME.fullmatch(name) or name.lower().endswith(DEAD_SUFFIX):
        raise ValueError(
            f"{name!r} is not a valid table name: letters, digits and '_', no digit first, and"
            f" not {DEAD_SUFFIX!r} at the end, which is for dead letters"
        )
    if name.lower() == CHECKPOINTS:
        raise ValueError(
            f"{name!r} is not a valid table name: reserved for the checkpoints of queries"
        )
    if name.lower() == RECORDS:
        raise ValueError(f"{name!r} is not a valid table name: reserved for records of drivers")


def _table(entry: Section, name: str, places: Places, names: Sequence[str]) -> Table:
    entry.title = f"table {name!r}"
    if "sql" in entry:
        if "topic" in entry:
            entry.problems.add(
                entry.node_of("topic"), f"table {name!r} has both 'topic' and 'sql'; a query names"
                " its topics under 'topics'"
            )  # fmt: skip
        table: Table = _query(entry, name, places, names)
        entry.finish(_QUERY_KEYS)
    else:
        table = _landed(entry, name, places)
        entry.finish(_LANDED_KEYS)
    return table


def _landed(entry: Section, name: str, places: Places) -> LandedTable:
    format_name = entry.take("format", partial(_one_of, FORMATS), "raw")
    registry = read_registry(entry, places.directory, places.registry)
    schema = entry.take("schema", yaml_nodes.text, default_schema(format_name))
    hints = entry.take("hints", yaml_nodes.text, "")
    is_right = _check_schema(entry, format_name, schema, registry)
    if hints and (format_name != "json" or schema != INFER):
        entry.problems.add(
            entry.node_of("hints"), "hints: they are for format: json with schema: infer"
        )
    if schema.endswith((AVRO_FILE, PROTOBUF_FILE)):
        schema = _resolve_path(places.directory, schema)
    table = LandedTable(
        name=name,
        path=places.lake.child(name),
        topic=entry.take("topic", _topic, ""),
        group=entry.take("group", _group, f"sawlog-{name}"),
        format=format_name,
        schema=schema,
        options=entry.take("options", _options, {}),
        registry=registry,
        partition_by=entry.take("partition_by", _partition_by, ()),
        commit=_commit(entry),
        start=entry.take("start", _start, START),
        read_committed=entry.take("isolation", _isolation, True),
        columns=_record_columns(entry),
        hints=hints,
        topics=entry.take("topics", _topics, NO_NAMES),
        topic_pattern=entry.take("topic_pattern", _topic_pattern, ""),
        upsert=read_upsert(entry, format_name),
        catalog=catalog_of(
            entry, read_table_format(entry, places.table_format), places.catalog, places.lake
        ),
    )
    _check_topics(entry)
    if table.upsert is not None and table.columns.key != USUAL.key:
        entry.problems.add(
            entry.node_of("columns"), "columns: the key of a record is binary with mode: upsert"
        )
    if is_right:
        _check_columns(entry, table)
    return table


def _check_topics(entry: Section) -> None:
    given = [name for name in _TOPIC_KEYS if name in entry]
    if not given:
        entry.problems.add(entry.node, f"{entry.title} has no 'topic'")
    for name in given[1:]:
        entry.problems.add(entry.node_of(name), f"{entry.title} has both {given[0]!r} and {name!r}")


def _check_columns(entry: Section, table: LandedTable) -> None:
    """Check the declared schema, the options of the format, and the partition columns."""
    try:
        columns = initial_schema(table)
    except LandingFailure as failure:
        entry.problems.add(entry.node_of("hints" if table.hints else "schema"), failure.message)
        return
    if table.upsert is not None:
        is_declared = declared_schema(table) is not None
        check_upsert_columns(entry, table.upsert, columns, is_declared=is_declared)
        check_envelope(entry, table.upsert, format_of(table))
    try:
        if table.options:  # else the slow import would check nothing
            infer = declared_schema(table) is None
            parser(format_of(table), initial_value_schema(table), infer=infer)
    except FormatError as error:
        entry.problems.add(entry.node_of("options"), f"options: {error}")
    try:
        add_partition_columns(columns, [parse_partition(text) for text in table.partition_by])
    except TableError as error:
        entry.problems.add(
            entry.node_of("partition_by"), f"partition_by: {error}{_hint_advice(table, columns)}"
        )
        return
    try:
        check_columns(table, columns)
    except TableError as error:
        entry.problems.add(entry.node_of("schema"), f"schema: {error}")


def _hint_advice(table: LandedTable, columns: "pa.Schema") -> str:
    """The hint for a column that is inferred: a table has its partition columns from the start."""
    if table.schema == REGISTRY:
        return "; inferred columns are not known when the table is created"
    if table.schema != INFER or table.format != "json":
        return ""
    missing = [
        f"{quoted(entry.column)} {'TIMESTAMP' if entry.unit else 'STRING'}"
        for entry in map(parse_partition, table.partition_by)
        if entry.column not in columns.names
    ]
    return f"; give the type of an inferred one: hints: {', '.join(missing)}" if missing else ""


def _commit(entry: Section) -> CommitBounds:
    section = entry.section("commit")
    usual = CommitBounds()
    if section is None:
        return usual
    bounds = CommitBounds(
        every_s=section.take("every", yaml_nodes.duration_s, usual.every_s),
        rows=section.take("rows", yaml_nodes.whole, usual.rows),
        fetched_bytes=section.take("bytes", yaml_nodes.size, usual.fetched_bytes),
    )
    section.finish()
    return bounds


def _record_columns(entry: Section) -> RecordColumns:
    """`columns: {key: string, headers: map}`: how the record itself is stored."""
    section = entry.section("columns")
    if section is None:
        return USUAL
    columns = RecordColumns(
        key=section.take("key", partial(_one_of, KEY_COLUMNS), USUAL.key),
        headers=section.take("headers", partial(_one_of, HEADER_COLUMNS), USUAL.headers),
    )
    section.finish()
    return columns


def _one_of(names: Iterable[str], node: "yaml.Node") -> str:
    found = yaml_nodes.text(node)
    if found not in names:
        raise ValueError(f"expected one of {', '.join(names)}, not {found!r}")
    return found


def _query(entry: Section, name: str, places: Places, names: Sequence[str]) -> QueryTable:
    sql = entry.need("sql", yaml_nodes.text, "")
    topics = entry.take("topics", _topics, NO_NAMES)
    read = table_names(sql)
    used = tuple(other for other in names if other != name and other.lower() in read)
    return QueryTable(
        name=name,
        path=places.lake.child(name),
        sql=sql,
        checkpoint=f"{places.checkpoints}/{name}",
        key=entry.take("key", yaml_nodes.texts, ()),
        watermark=_watermark(entry),
        topics=topics,
        tables=used,
        partition_by=entry.take("partition_by", _partition_by, ()),
        every_s=entry.take("every", yaml_nodes.duration_s, 10.0),
    )


def _watermark(entry: Section) -> dict[str, float]:
    """`watermark: {timestamp: 1m}`: how late rows may be, by the column with their event time."""
    section = entry.section("watermark")
    if section is None:
        return {}
    return {name: section.take(name, yaml_nodes.duration_s, 0.0) for name in section.names()}


def _options(node: "yaml.Node") -> dict[str, str]:
    """Options as text; several values of `schema_id` are joined: `7,9`."""
    return yaml_nodes.mapping(node, lists=("schema_id",))


def _check_schema(
    entry: Section, format_name: str, schema: str, registry: RegistryUrl | None
) -> bool:
    wrong = schema_problem(format_name, schema, registry)
    if wrong:
        entry.problems.add(entry.node_of("schema"), f"schema: {wrong}")
    return wrong is None


def _topic(node: "yaml.Node") -> str:
    return _topic_name(yaml_nodes.text(node))


def _topics(node: "yaml.Node") -> tuple[str, ...]:
    names = tuple(_topic_name(name) for name in yaml_nodes.texts(node))
    if not names:
        raise ValueError("expected at least one topic")
    return tuple(dict.fromkeys(names))


def _topic_pattern(node: "yaml.Node") -> str:
    found = yaml_nodes.text(node)
    check_pattern(found)
    return found


def _topic_name(name: str) -> str:
    if not _TOPIC_NAME.fullmatch(name) or name in (".", ".."):
        raise ValueError(
            f"{name!r} is not a valid topic name: 1 to 249 of letters, digits, '.', '_' and '-'"
        )
    return name


def _group(node: "yaml.Node") -> str:
    found = yaml_nodes.text(node)
    if len(found) > _MAX_GROUP_CHARS:
        raise ValueError(f"expected at most {_MAX_GROUP_CHARS} characters")
    return found


def _partition_by(node: "yaml.Node") -> tuple[str, ...]:
    found = yaml_nodes.texts(node)
    names = Counter(parse_partition(expression).name.lower() for expression in found)
    for name, count in names.items():
        if count > 1:
            raise ValueError(f"{count} of them make a column {name!r}")
    return found


def _start(node: "yaml.Node") -> Start:
    found = yaml_nodes.text(node)
    if found == "earliest":
        return AT_EARLIEST
    if found == "latest":
        return AT_LATEST
    try:
        moment = datetime.fromisoformat(found)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or moment.timestamp() < 0:
        raise ValueError(
            f"expected earliest, latest or a time with its zone (2025-01-31T12:00:00Z), not"
            f" {found!r}"
        )
    return AtTime(int(moment.timestamp() * 1_000))


def _isolation(node: "yaml.Node") -> bool:
    found = yaml_nodes.text(node)
    if found not in _ISOLATION:
        raise ValueError(f"expected {' or '.join(_ISOLATION)}, not {found!r}")
    return _ISOLATION[found]


def _check_together(problems: Problems, top: Section, tables: Iterable[Table]) -> None:
    """Check tables against each other."""
    where = top.node_of("tables")
    found = list(tables)
    for name, count in Counter(table.name.lower() for table in found).items():
        if count > 1:
            problems.add(where, f"tables: {count} have the name {name!r} if case is ignored")
    landed = [table for table in found if isinstance(table, LandedTable)]
    _check_groups(problems, where, landed)
    queries = [table for table in found if isinstance(table, QueryTable)]
    _check_sources(problems, where, landed, queries)
    _check_cycles(problems, where, queries)


def _check_sources(
    problems: Problems, where: "yaml.Node", landed: Iterable[LandedTable],
    queries: Iterable[QueryTable],
) -> None:  # fmt: skip
    keyed = {table.name for table in landed if table.upsert is not None}
    for query in queries:
        for name in sorted(keyed & set(query.tables)):
            problems.add(
                where, f"tables: the query of {query.name!r} reads {name!r}, which is keyed, and a"
                " stream has new rows only: land the topic in a table with mode: append for it"
            )  # fmt: skip


def _check_groups(problems: Problems, where: "yaml.Node", landed: Sequence[LandedTable]) -> None:
    for place, table in enumerate(landed):
        others = [
            other.name
            for other in landed[:place]
            if other.group == table.group and other.selection.may_overlap(table.selection)
        ]
        if others:
            problems.add(
                where, f"tables: {others[0]!r} and {table.name!r} read the topic"
                f" {str(table.selection)!r} as the group {table.group!r}: each needs a group of"
                " its own for its offsets"
            )  # fmt: skip


def _check_cycles(problems: Problems, where: "yaml.Node", queries: Sequence[QueryTable]) -> None:
    """Report queries that read their own result, directly or through other queries."""
    feeds = {query.name: query.tables for query in queries}
    for name in feeds:
        seen: set[str] = set()
        open_names = list(feeds[name])
        while open_names:
            current = open_names.pop()
            if current == name:
                problems.add(where, f"tables: the query of {name!r} reads its own result")
                break
            if current not in seen:
                seen.add(current)
                open_names += feeds.get(current, ())
