"""A pipeline from Python objects: the same as from a file, with problems that name the keys."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from sawlog.pipeline.landing.configuration.pipeline_file import (
    parse_pipeline,
    pipeline_from_objects,
)
from sawlog.pipeline.landing.configuration.yaml_nodes import BadPipelineFile

CONTENT: dict[str, Any] = {
    "brokers": ["127.0.0.1:9092", "127.0.0.1:9093"],
    "lake": "lake",
    "spark": {"spark.driver.memory": "1g"},
    "tables": {
        "access": {
            "topic": "access-log",
            "format": "json",
            "partition_by": ["date(timestamp)"],
            "commit": {"every": "1s", "rows": 5000},
        },
        "minutes": {"sql": "SELECT count(*) AS n FROM access", "key": ["n"]},
    },
}


def test_objects_and_a_file_with_the_same_content_are_the_same_pipeline(tmp_path: Path) -> None:
    file = tmp_path / "pipeline"
    from_file = parse_pipeline(str(file), yaml.safe_dump(CONTENT, sort_keys=False))
    assert pipeline_from_objects(CONTENT, str(tmp_path)) == from_file


def test_paths_and_tuples_are_accepted(tmp_path: Path) -> None:
    found = pipeline_from_objects(
        {
            "brokers": ("127.0.0.1:9092",),
            "lake": tmp_path / "lake",
            "tables": {"t": {"topic": "t"}},
        },
        ".",
    )
    assert str(found.lake) == str(tmp_path / "lake")


def problems_of(content: Any) -> list[str]:
    with pytest.raises(BadPipelineFile) as raised:
        pipeline_from_objects(content, ".")
    return str(raised.value).splitlines()


def test_problems_name_the_path_of_their_key() -> None:
    content = {
        "brokers": "127.0.0.1:9092",
        "lake": "lake",
        "tables": {"t": {"topic": "t", "format": "xml", "comit": {}, "commit": {"rows": -1}}},
    }
    assert [line.split(": ")[0] for line in problems_of(content)] == [
        "tables.t.comit", "tables.t.commit.rows", "tables.t.format",
    ]  # fmt: skip


def test_what_is_missing_is_named_without_a_path() -> None:
    assert "the file has no 'tables'" in problems_of({"brokers": "127.0.0.1:9092", "lake": "l"})


def test_other_objects_are_refused() -> None:
    (problem,) = problems_of({"brokers": object()})
    assert problem == "expected dicts, lists, texts and numbers, not object"
    (problem,) = problems_of(["tables"])
    assert problem == "expected the keys brokers, lake and tables, not a list"
