"""`table_format` and `catalog` of the pipeline file, and what Iceberg tables cannot have."""

import pytest

from sawlog.pipeline.delta.table_path import StorageOptions
from sawlog.pipeline.iceberg import catalogs
from sawlog.pipeline.iceberg.catalogs import CATALOG_FILE, CatalogConfig
from sawlog.pipeline.landing.configuration.pipeline_config import PipelineConfig, delta_paths
from sawlog.pipeline.landing.configuration.pipeline_file import parse_pipeline
from sawlog.pipeline.landing.configuration.yaml_nodes import BadPipelineFile

HEAD = "brokers: 127.0.0.1:9092\nlake: /lake\n"
REST = "catalog: {type: rest, uri: 'http://127.0.0.1:1', token: secret-token, namespace: a.b}\n"


def pipeline(tables: str, more: str = "", head: str = HEAD) -> PipelineConfig:
    return parse_pipeline("p.yaml", f"{head}{more}tables:\n{tables}")


def refusal(tables: str, more: str = "", head: str = HEAD) -> str:
    with pytest.raises(BadPipelineFile) as caught:
        pipeline(tables, more, head)
    return str(caught.value)


def test_a_table_is_a_delta_table_unless_told_otherwise() -> None:
    delta, iceberg = pipeline("  d: {topic: a}\n  i: {topic: b, table_format: iceberg}\n").landed
    assert (delta.table_format, delta.catalog) == ("delta", None)
    assert iceberg.table_format == "iceberg"
    uri = {"uri": f"sqlite:////lake/{CATALOG_FILE}"}
    assert iceberg.catalog == CatalogConfig("sql", "sawlog", StorageOptions(uri))
    assert delta_paths(delta) == ["/lake/d", "/lake/d__dead"]
    assert delta_paths(iceberg) == ["/lake/i__dead"]


def test_the_format_of_the_file_is_the_default_of_its_tables() -> None:
    found = pipeline(
        "  i: {topic: a}\n  d: {topic: b, table_format: delta}\n", "table_format: iceberg\n" + REST
    )
    iceberg, delta = found.landed
    assert delta.catalog is None
    assert iceberg.catalog is not None
    assert (iceberg.catalog.kind, iceberg.catalog.namespace) == ("rest", "a.b")
    assert dict(iceberg.catalog.options) == {"uri": "http://127.0.0.1:1", "token": "secret-token"}
    assert "secret-token" not in repr(found)


@pytest.mark.parametrize(
    ("tables", "more", "message"),
    [
        ("  t: {topic: a, table_format: hudi}\n", "", "expected delta or iceberg, not 'hudi'"),
        ("  t: {topic: a}\n", REST, "catalog: it is for Iceberg tables, and the file has none"),
        (
            "  t: {topic: a, format: json, schema: n SMALLINT, table_format: iceberg}\n",
            "",
            "schema: column 'n' is of type smallint, which Iceberg does not have",
        ),
        (
            "  t: {topic: a, table_format: iceberg}\n  q: {sql: SELECT offset FROM t}\n",
            "",
            "the query of 'q' reads 't', which is an Iceberg table",
        ),
        (
            "  q: {sql: SELECT offset FROM a, topics: [a]}\n  t: {topic: a}\n",
            "table_format: iceberg\n",
            "the result of a query, 'q', is a Delta table",
        ),
        (
            "  t: {topic: a, format: json, schema: id INT, mode: upsert, key: id}\n",
            "table_format: iceberg\n",
            "mode: upsert needs table_format: delta",
        ),
        (
            "  t: {topic: a, table_format: iceberg}\n",
            "catalog: {type: rest}\n",
            "catalog: a rest catalog needs its uri",
        ),
        (
            "  t: {topic: a, table_format: iceberg}\n",
            "catalog: {type: hive, uri: x}\n",
            "expected one of sql, rest, glue, not 'hive'",
        ),
        (
            "  t: {topic: a, table_format: iceberg}\n",
            "catalog: {type: rest, uri: x, token: [secret-token]}\n",
            "token: expected one value",
        ),
    ],
)
def test_a_problem_is_reported(tables: str, more: str, message: str) -> None:
    found = refusal(tables, more)
    assert message in found
    assert "secret-token" not in found


@pytest.mark.parametrize(
    ("lake", "message"),
    [
        (
            "s3://bucket/lake",
            "s3://bucket/lake is an object store, which has no place for a catalog",
        ),
        ("gs://bucket/lake", "Iceberg tables are in directories or on s3://"),
        ("'/lake#1'", "has no '#' and no '?'"),
    ],
)
def test_a_lake_that_cannot_have_iceberg_tables(lake: str, message: str) -> None:
    head = f"brokers: 127.0.0.1:9092\nlake: {lake}\n"
    assert message in refusal("  t: {topic: a, table_format: iceberg}\n", head=head)


def test_without_pyiceberg_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogs, "find_spec", lambda _: None)
    assert "pip install 'sawlog[iceberg]'" in refusal("  t: {topic: a, table_format: iceberg}\n")
