"""The keys `registry`, `registry_options` and `schema` of a pipeline file."""

import json
from pathlib import Path

import pytest

from sawlog.pipeline.landing.configuration.declared_columns import declared_schema, format_of
from sawlog.pipeline.landing.configuration.pipeline_config import LandedTable
from sawlog.pipeline.landing.configuration.pipeline_file import parse_pipeline
from sawlog.pipeline.landing.configuration.yaml_nodes import BadPipelineFile
from support.pipeline.protobuf_messages import descriptor_set, field, message, proto_file

HEAD = "brokers: b:1\nlake: ./lake\n"
REGISTRY = "registry: http://r:8081\n"
CLICK = proto_file("click.proto", "shop", message("Click", field("user", 1, "string")))


def table(entry: str, top: str = REGISTRY, file: str = "p.yaml") -> LandedTable:
    return parse_pipeline(file, f"{HEAD}{top}tables:\n  t: {{topic: a, {entry}}}\n").landed[0]


def refusal(entry: str, top: str = "") -> str:
    with pytest.raises(BadPipelineFile) as caught:
        table(entry, top)
    return str(caught.value)


@pytest.mark.parametrize("entry", [
    "format: avro", "format: avro, schema: registry", "format: protobuf",
    "format: json, schema: registry", "format: avro, options: {encoding: confluent}",
])  # fmt: skip
def test_schemas_come_from_the_registry(entry: str) -> None:
    found = table(entry)
    assert format_of(found).registry == "http://r:8081"
    assert declared_schema(found) is None


@pytest.mark.parametrize("entry", [
    "format: json", "format: raw", "format: csv, schema: a INT", "format: json, schema: a INT",
    "format: json, options: {encoding: confluent}",
])  # fmt: skip
def test_other_tables_do_not_use_the_registry(entry: str) -> None:
    assert format_of(table(entry)).registry is None


def test_keys_of_keyed_tables_may_have_schemas_in_the_registry() -> None:
    of_values = format_of(table("format: avro, mode: upsert, key: id"))
    of_keys = format_of(table("format: json, mode: upsert, key: id"))
    assert (of_values.registry, of_values.key_registry) == ("http://r:8081", "http://r:8081")
    assert (of_keys.registry, of_keys.key_registry) == (None, "http://r:8081")
    assert of_keys.any_registry == "http://r:8081"
    for entry in ("format: json", "mode: upsert, key: key"):
        assert format_of(table(entry)).any_registry is None


def test_a_table_may_have_a_registry_of_its_own() -> None:
    options = "registry: [http://a, http://b], registry_options: {token: word-of-the-table}"
    found = table(f"format: avro, {options}")
    assert (found.registry, table("format: avro").registry) == (
        "http://a,http://b",
        "http://r:8081",
    )
    assert found.registry is not None
    assert dict(found.registry.options) == {"token": "word-of-the-table"}
    assert "of-the-table" not in repr(found)


def test_an_avro_file_is_the_readers_schema_of_registered_values(tmp_path: Path) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    (tmp_path / "r.avsc").write_text(json.dumps(schema))
    file = str(tmp_path / "p.yaml")
    entry = "format: avro, schema: r.avsc, options: {encoding: confluent"
    reader = table(f"{entry}}}", file=file)
    columns = declared_schema(reader)
    assert columns is not None
    assert columns.names == ["a"]
    assert format_of(reader).registry == "http://r:8081"
    assert format_of(table(f"{entry}, schema_id: 7}}", file=file)).registry is None
    assert format_of(table("format: avro, schema: r.avsc", file=file)).registry is None


def test_columns_may_be_declared_for_registered_values() -> None:
    found = table("format: protobuf, schema: a INT")
    assert format_of(found).registry == "http://r:8081"
    columns = declared_schema(found)
    assert columns is not None
    assert columns.names == ["a"]


def test_a_descriptor_file_declares_the_columns(tmp_path: Path) -> None:
    (tmp_path / "click.desc").write_bytes(descriptor_set(CLICK))
    file = str(tmp_path / "p.yaml")
    found = table("format: protobuf, schema: click.desc", file=file)
    columns = declared_schema(found)
    assert columns is not None
    assert columns.names == ["user"]
    assert format_of(found).registry is None
    with pytest.raises(BadPipelineFile, match=r"no message 'shop\.Clack'"):
        table("format: protobuf, schema: click.desc, options: {message: shop.Clack}", file=file)


def test_certificates_travel_as_text(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("certificates")
    top = f"{REGISTRY}registry_options: {{ca_file: ca.pem}}\n"
    found = table("format: avro", top, str(tmp_path / "p.yaml"))
    assert found.registry is not None
    assert dict(found.registry.options) == {"ca_certificates": "certificates"}


@pytest.mark.parametrize(
    ("entry", "top", "told"),
    [
        ("format: avro", "", "schema: FILE.avsc, or registry: http://HOST:8081"),
        ("format: protobuf", "", "schema: FILE.desc, or registry: http://HOST:8081"),
        ("format: avro, schema: infer", REGISTRY, "values do not describe themselves"),
        ("format: avro, schema: a INT", "", "avro needs the writer's schema"),
        ("format: json, schema: registry", "", "names no schema registry"),
        ("format: csv, schema: registry", REGISTRY, "csv needs the columns as DDL"),
        ("format: raw, schema: registry", REGISTRY, "raw takes no schema"),
        ("format: json, schema: a.desc", "", "a descriptor file is for protobuf"),
        ("format: protobuf, schema: a.avsc", "", "an Avro file is for avro"),
        ("format: protobuf, schema: no.desc", "", "no.desc: No such file"),
        ("format: avro, options: {schema_id: 7}", REGISTRY, "no option 'schema_id'"),
        ("format: avro, options: {encoding: plain}", REGISTRY, "expected one of: confluent"),
        ("format: raw", "registry: r\n", "expected a URL such as"),
        ("format: raw", "registry_options: {token: s3cret}\n", "belong to a registry"),
        ("format: raw", f"{REGISTRY}registry_options: {{x: s3cret}}\n", "no option 'x'"),
        ("format: raw", f"{REGISTRY}registry_options: {{token: [s3cret]}}\n", "one value each"),
        ("format: raw", f"{REGISTRY}registry_options: {{ca_file: no}}\n", "no: No such file"),
        ("format: raw", "registry: http://u:s3cret@r\n", "credentials are given beside it"),
    ],
)
def test_a_problem_is_reported_without_credentials(entry: str, top: str, told: str) -> None:
    message_ = refusal(entry, top)
    assert told in message_
    assert "s3cret" not in message_
