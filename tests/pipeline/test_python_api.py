"""`sawlog.pipeline.Pipeline` on a running broker and Spark; the example of the documentation."""

import json
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import sawlog.pipeline
from sawlog.client import Admin
from sawlog.pipeline import (
    BatchLanded,
    BatchProgress,
    Pipeline,
    PipelineFailed,
    PipelineIsRunning,
)
from sawlog.pipeline.landing.driver.pipeline_status import State
from sawlog.pipeline.landing.failures import FailureKind
from sawlog.pipeline.pipeline_events import PipelineEvent
from support.pipeline.landing import create_topic, rows_of, send
from support.server.broker_process import SawlogServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

API = ("BadPipelineFile", "Message", "Progress", "RunResult", "StateChanged", "TableResult")
DOCS = Path(__file__).parents[2] / "docs" / "pipeline.md"
PATIENCE_S = 120


def content_of(broker: SawlogServer, topic: str, lake: Path) -> dict[str, Any]:
    table = {"topic": topic, "format": "json", "commit": {"every": "200ms"}}
    return {"brokers": broker.bootstrap, "lake": lake, "tables": {"t": table}}


def test_a_table_is_checked_landed_and_described(
    spark: "SparkSession", broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    seen: list[PipelineEvent] = []
    pipeline = Pipeline.from_objects(content_of(broker, topic, tmp_path), on_event=seen.append)
    assert pipeline.check().tables["t"].problem is FailureKind.NOT_FOUND
    create_topic(broker.bootstrap, topic, 1)
    send(broker.bootstrap, topic, [{"id": 1}, b"{broken", {"id": 2}])
    assert pipeline.check().is_good
    assert [entry.state for entry in pipeline.status()] == [State.READY]
    result = pipeline.run_once()
    assert (result.rows, result.dead_letters, result.failures) == (2, 1, {})
    assert [event.rows for event in seen if isinstance(event, BatchLanded)] == [2]
    read = [event for event in seen if isinstance(event, BatchProgress)][-1]
    assert (read.table, read.read, read.planned) == ("t", 3, 3)
    assert read.records_per_s > 0, "the task has reported"
    assert [(entry.rows, entry.lag) for entry in pipeline.status()] == [(2, 0)]
    assert pipeline.run_once().rows == 0
    assert spark.sparkContext.parallelize([1]).count() == 1, "the caller's context still works"


@pytest.mark.parametrize("name", [*API, "Pipeline"])
def test_the_names_of_the_api_are_in_one_module(name: str) -> None:
    assert getattr(sawlog.pipeline, name).__name__ == name
    assert name in sawlog.pipeline.__all__


def test_a_background_run_lands_until_it_is_stopped(
    spark: "SparkSession", broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    landed = threading.Semaphore(0)

    def on_event(event: PipelineEvent) -> None:
        if isinstance(event, BatchLanded):
            landed.release()

    pipeline = Pipeline.from_objects(content_of(broker, topic, tmp_path), on_event=on_event)
    with pipeline:
        for run in (pipeline.start, pipeline.run_once):
            with pytest.raises(PipelineIsRunning):
                run()
        for number in range(2):
            send(broker.bootstrap, topic, [{"id": number}])
            assert landed.acquire(timeout=PATIENCE_S)
        assert pipeline.is_running
        assert not pipeline.wait(0)
        assert pipeline.stop().tables["t"].batches == 2
    assert not pipeline.is_running
    assert sorted(row["id"] for row in rows_of(str(tmp_path / "t"))) == [0, 1]
    assert pipeline.stop().tables == {}, "nothing runs any more"


def test_a_table_that_fails_is_an_exception_and_the_others_land(
    spark: "SparkSession", broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    content = content_of(broker, topic, tmp_path)
    content["tables"]["missing"] = {"topic": f"{topic}-missing"}
    create_topic(broker.bootstrap, topic, 1)
    send(broker.bootstrap, topic, [{"id": 1}])
    with pytest.raises(PipelineFailed, match="missing: ") as raised:
        Pipeline.from_objects(content, on_event=lambda _: None).run_once()
    assert raised.value.result.tables["t"].rows == 1
    assert list(raised.value.result.failures) == ["missing"]


def test_a_run_that_ends_by_itself_tells_why(
    spark: "SparkSession", broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    send(broker.bootstrap, topic, [{"id": 1}])
    pipeline = Pipeline.from_objects(content_of(broker, topic, tmp_path))
    pipeline.run_once()
    with Admin(broker.bootstrap) as admin:
        admin.delete_topics([topic])
    create_topic(broker.bootstrap, topic, 1)
    pipeline.start()
    assert pipeline.wait(PATIENCE_S)
    assert pipeline.stop().tables["t"].failure_kind is FailureKind.TOPIC_DELETED


def test_a_lake_that_cannot_be_written_to_is_an_error(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    pipeline = Pipeline.from_objects(content_of(broker, topic, tmp_path / "file" / "lake"))
    with pytest.raises(OSError, match="is not a directory"):
        pipeline.run_once()
    problem = pipeline.check().lake_problem
    assert problem is not None
    assert "is not a directory" in problem


def test_the_text_of_a_file_has_paths_relative_to_a_directory(tmp_path: Path) -> None:
    text = "brokers: 127.0.0.1:1\nlake: lake\ntables:\n  t: {topic: a}\n"
    pipeline = Pipeline.from_yaml(text, directory=tmp_path)
    assert pipeline.tables == ["t"]
    assert pipeline.config.landed[0].path == str(tmp_path / "lake" / "t")


@pytest.mark.usefixtures("spark")
def test_the_examples_of_the_documentation_run(
    broker: SawlogServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = DOCS.read_text().split("## From Python\n")[1].split("\n## ")[0]
    notebook, airflow = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    section = DOCS.read_text().split("## Reading the tables\n")[1].split("\n## ")[0]
    (reading,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    create_topic(broker.bootstrap, "access-log", 1)
    try:
        send(broker.bootstrap, "access-log", [{"status": 200}, {"status": 404}])
        found: dict[str, Any] = {}
        exec(notebook.replace("127.0.0.1:9092", broker.bootstrap), found)
        assert found["result"].rows == 2
        exec(reading.replace("/srv/lake", str(tmp_path / "lake")), found)
        assert found["frame"].height == 2
        assert found["rows"] == [(0, 200), (1, 404)]
        file = {"brokers": broker.bootstrap, "lake": str(tmp_path / "lake"),
                "tables": {"access": {"topic": "access-log", "format": "json"}}}  # fmt: skip
        Path("pipeline.yaml").write_text(json.dumps(file))
        send(broker.bootstrap, "access-log", [{"status": 500}])
        exec(airflow, found)
        assert found["land"]("pipeline.yaml") == 1
    finally:
        with Admin(broker.bootstrap) as admin:
            admin.delete_topics(["access-log"])
