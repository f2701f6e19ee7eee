"""The part of the pipeline file that makes a table keyed: `mode: upsert` and its settings."""

from typing import TYPE_CHECKING

import pyarrow as pa

from sawlog.pipeline.delta.errors import KeyConflict
from sawlog.pipeline.delta.merge import check_key_columns
from sawlog.pipeline.formats.landed_rows import RECORD
from sawlog.pipeline.formats.parsed import Format
from sawlog.pipeline.landing.configuration import yaml_nodes
from sawlog.pipeline.landing.configuration.conditions import Condition, InvalidCondition
from sawlog.pipeline.landing.configuration.pipeline_config import RECORD_KEY, Upsert
from sawlog.pipeline.landing.configuration.yaml_nodes import Section

if TYPE_CHECKING:
    import yaml

APPEND, UPSERT = MODES = ("append", "upsert")
DEBEZIUM = "debezium"
_ENVELOPE_FORMATS = ("json", "avro", "protobuf")
NO_COLUMNS: tuple[str, ...] = ()
KEYED_KEYS = ("mode", "key", "delete_when", "envelope")


def read_upsert(entry: Section, format_name: str) -> Upsert | None:
    """Read the keys of `KEYED_KEYS` of a landed table; None if rows are appended."""
    mode = entry.take("mode", _mode, APPEND)
    key = entry.take("key", yaml_nodes.texts, NO_COLUMNS)
    delete_when = entry.take("delete_when", _condition, "")
    envelope = entry.take("envelope", _envelope, "")
    if mode == APPEND:
        for name in KEYED_KEYS[1:]:
            if name in entry:
                entry.problems.add(entry.node_of(name), f"{name}: it needs mode: {UPSERT}")
        return None
    if not key:
        entry.problems.add(
            entry.node_of("mode"), f"mode: {UPSERT} needs the columns of the key: key: [id], or"
            f" key: {RECORD_KEY} for the key of the record"
        )  # fmt: skip
    reserved = [name for name in key if name in RECORD.names and name != RECORD_KEY]
    if reserved or len(set(key)) < len(key):
        entry.problems.add(
            entry.node_of("key"), "key: expected columns of the value, each once, or"
            f" {RECORD_KEY} for the key of the record, not {', '.join(key)}"
        )  # fmt: skip
    if format_name == "raw" and any(name != RECORD_KEY for name in key):
        entry.problems.add(
            entry.node_of("key"), f"key: with format raw only {RECORD_KEY}, the key of the record"
        )  # fmt: skip
    if envelope and format_name not in _ENVELOPE_FORMATS:
        entry.problems.add(
            entry.node_of("envelope"), f"envelope: {envelope} needs format: json, avro or protobuf,"
            f" not {format_name}"
        )  # fmt: skip
    return Upsert(key, delete_when, envelope)


def check_upsert_columns(
    entry: Section, upsert: Upsert, columns: pa.Schema, *, is_declared: bool
) -> None:
    """Check the key and the condition against the columns that the file declares."""
    known = {name.lower() for name in columns.names}
    unknown = [name for name in upsert.key if name not in columns.names] if is_declared else []
    if unknown:
        entry.problems.add(entry.node_of("key"), f"key: the schema has no {', '.join(unknown)}")
    try:
        check_key_columns(columns, upsert.key)
    except KeyConflict as error:
        entry.problems.add(entry.node_of("key"), f"key: {error}")
    if not upsert.delete_when:
        return
    condition = Condition(upsert.delete_when)
    unknown = sorted(name for name in condition.columns if name.lower() not in known)
    if is_declared and unknown:
        entry.problems.add(
            entry.node_of("delete_when"), f"delete_when: the schema has no {', '.join(unknown)}"
        )  # fmt: skip
    try:
        condition.holds(pa.RecordBatch.from_pylist([], columns))
    except InvalidCondition as error:
        entry.problems.add(entry.node_of("delete_when"), f"delete_when: {error}")


def check_envelope(entry: Section, upsert: Upsert, format_: Format) -> None:
    """Check that values tell the schema of their envelope, which has that of the rows."""
    if not upsert.envelope or format_.kind not in _ENVELOPE_FORMATS:
        return
    problem = ""
    if format_.kind == "json":
        if format_.registry is not None:
            problem = "of values with the id of a JSON Schema infers its columns, or takes DDL: use"
            problem += " options: {encoding: confluent}, not schema: registry"
    elif format_.registry is None or "schema" in format_.options:
        problem = f"in {format_.kind} reads the schemas of values from a registry, not from a file:"
        problem += " use registry: http://HOST:8081 with schema: registry, or with DDL"
    if problem:
        entry.problems.add(entry.node_of("envelope"), f"envelope: {upsert.envelope} {problem}")


def _mode(node: "yaml.Node") -> str:
    return _one_of(node, MODES)


def _envelope(node: "yaml.Node") -> str:
    return _one_of(node, (DEBEZIUM,))


def _one_of(node: "yaml.Node", words: tuple[str, ...]) -> str:
    found = yaml_nodes.text(node)
    if found not in words:
        raise ValueError(f"expected {' or '.join(words)}, not {found!r}")
    return found


def _condition(node: "yaml.Node") -> str:
    return Condition(yaml_nodes.text(node)).text
