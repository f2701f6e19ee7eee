"""The settings of keyed tables in the pipeline file."""

import json
import re
from pathlib import Path

import pytest

from sawlog.pipeline.landing.configuration.pipeline_config import LandedTable, Upsert
from sawlog.pipeline.landing.configuration.pipeline_file import parse_pipeline
from sawlog.pipeline.landing.configuration.yaml_nodes import BadPipelineFile
from support.sources import ROOT

HEAD = "brokers: 127.0.0.1:9092\nlake: ./lake\ntables:\n"
JSON = "format: json, schema: 'id BIGINT, b STRING, d DOUBLE, gone BOOLEAN'"
REGISTRY = "registry: 'http://r:8081'"


def upsert_of(settings: str, more: str = "") -> Upsert | None:
    text = f"{HEAD}  t: {{topic: a, {settings}}}\n{more}"
    table = parse_pipeline("p.yaml", text).tables[0]
    assert isinstance(table, LandedTable)
    return table.upsert


def test_the_example_of_the_documentation_is_valid() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/pipeline.md").read_text(), re.DOTALL)
    (example,) = (block for block in blocks if "envelope:" in block)
    pipeline = parse_pipeline("p.yaml", f"brokers: 127.0.0.1:9092\nlake: ./lake\n{example}")
    assert [table.upsert for table in pipeline.landed] == [
        Upsert(("id",), envelope="debezium"),
        Upsert(("id",), envelope="debezium"),
        Upsert(("sku", "shop"), "gone OR amount < 0"),
        Upsert(("key",)),
    ]


def test_rows_are_appended_unless_the_file_says_otherwise() -> None:
    assert upsert_of(JSON) is None
    assert upsert_of(f"{JSON}, mode: append") is None


def test_a_keyed_table_has_its_key_condition_and_envelope() -> None:
    settings = f"{JSON}, mode: upsert, key: [id, b], delete_when: NOT gone, envelope: debezium"
    assert upsert_of(settings) == Upsert(("id", "b"), "NOT gone", "debezium")
    assert upsert_of("mode: upsert, key: key") == Upsert(("key",))
    assert upsert_of("format: json, mode: upsert, key: any") == Upsert(("any",))


@pytest.mark.parametrize(
    "settings",
    [
        f"{REGISTRY}, format: avro",
        f"{REGISTRY}, format: avro, schema: 'id BIGINT'",
        f"{REGISTRY}, format: protobuf",
        f"{JSON}, options: {{encoding: confluent}}",
    ],
)
def test_the_envelope_may_have_a_schema(settings: str) -> None:
    wanted = Upsert(("id",), "", "debezium")
    assert upsert_of(f"{settings}, mode: upsert, key: id, envelope: debezium") == wanted


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (f"{JSON}, mode: merge", "mode: expected append or upsert, not 'merge'"),
        (f"{JSON}, mode: upsert", "mode: upsert needs the columns of the key"),
        (f"{JSON}, key: id", "key: it needs mode: upsert"),
        (f"{JSON}, delete_when: gone", "delete_when: it needs mode: upsert"),
        (f"{JSON}, envelope: debezium", "envelope: it needs mode: upsert"),
        (f"{JSON}, mode: upsert, key: other", "key: the schema has no other"),
        (f"{JSON}, mode: upsert, key: [id, id]", "expected columns of the value, each once"),
        (f"{JSON}, mode: upsert, key: offset", "expected columns of the value, each once"),
        (f"{JSON}, mode: upsert, key: d", "the key column 'd' is of type double: use another"),
        ("mode: upsert, key: id", "key: with format raw only key, the key of the record"),
        (f"{JSON}, mode: upsert, key: id, envelope: maxwell", "envelope: expected debezium, not"),
        (
            "format: csv, schema: 'id INT', mode: upsert, key: id, envelope: debezium",
            "envelope: debezium needs format: json, avro or protobuf, not csv",
        ),
        (
            f"{REGISTRY}, format: json, schema: registry, mode: upsert, key: a, envelope: debezium",
            "envelope: debezium of values with the id of a JSON Schema infers its columns",
        ),
        (
            f"{JSON}, mode: upsert, key: id, delete_when: op = 'd'",
            "delete_when: the schema has no op",
        ),
        (
            f"{JSON}, mode: upsert, key: id, delete_when: b = 1",
            "delete_when: 'b = 1' compares string with bigint",
        ),
        (
            f"{JSON}, mode: upsert, key: id, delete_when: gone =",
            "delete_when: expected a column or a value and found the end",
        ),
    ],
)
def test_settings_that_do_not_fit_are_reported(settings: str, message: str) -> None:
    with pytest.raises(BadPipelineFile) as caught:
        upsert_of(settings)
    assert message in str(caught.value)


@pytest.mark.parametrize("options", ["{}", "{encoding: confluent}"])
def test_the_schema_of_an_envelope_is_not_that_of_a_file(tmp_path: Path, options: str) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}
    (tmp_path / "r.avsc").write_text(json.dumps(schema))
    with pytest.raises(BadPipelineFile) as caught:
        upsert_of(
            f"{REGISTRY}, format: avro, schema: '{tmp_path / 'r.avsc'}', options: {options},"
            " mode: upsert, key: id, envelope: debezium"
        )
    told = "envelope: debezium in avro reads the schemas of values from a registry, not from a file"
    assert told in str(caught.value)


def test_a_query_over_a_keyed_table_is_rejected() -> None:
    with pytest.raises(BadPipelineFile) as caught:
        upsert_of(f"{JSON}, mode: upsert, key: id", "  q: {sql: 'SELECT id FROM t'}\n")
    assert "the query of 'q' reads 't', which is keyed" in str(caught.value)
