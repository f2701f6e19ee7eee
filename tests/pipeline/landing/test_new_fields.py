"""New fields: their types, their names, and their number. Without Spark."""

from pathlib import Path

import pytest

from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.formats import json_columns, json_format
from sawlog.pipeline.formats.json_fields import FieldBudget
from sawlog.pipeline.landing.planning import task_split
from support.pipeline.landing import create_topic, land_here, pipeline_of, rows_of, send, values_in
from support.server.broker_process import SawlogServer


def test_a_type_that_changes_within_a_chunk_is_merged(
    broker: SawlogServer, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chunk is parsed in parts of two rows."""
    monkeypatch.setattr(json_format, "_MAX_SLOTS", 2)
    monkeypatch.setattr(json_format, "_MIN_ROWS", 2)
    create_topic(broker.bootstrap, topic, 1)
    send(broker.bootstrap, topic, [{"a": 1}, b"broken", {"a": 2}, {"a": "x"}, {"a": 2.5}])
    send(broker.bootstrap, topic, [{"b": {"c": 1}}, {"b": {"d": 1}}, {"b": {"c": 0.5}}])
    pipeline = pipeline_of(tmp_path, broker.bootstrap, f"  t: {{topic: {topic}, format: json}}\n")
    (table,) = pipeline.landed
    land_here(pipeline)
    rows = sorted(rows_of(table.path), key=lambda row: int(row["offset"]))
    assert [row["a"] for row in rows[:4]] == ["1", "2", "x", "2.5"]
    assert [row["b"] for row in rows[4:]] == [
        {"c": 1.0, "d": None}, {"c": None, "d": 1}, {"c": 0.5, "d": None},
    ]  # fmt: skip
    assert values_in(table.dead_path) == [((0, 1), b"broken")]


@pytest.mark.parametrize(("partitions", "tasks"), [(1, 1), (2, 1), (2, 2)])
def test_more_new_fields_than_the_limit_do_not_stop_a_landing(
    broker: SawlogServer,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    partitions: int,
    tasks: int,
) -> None:
    """Types differ between parts of a chunk, between chunks of a task, or between tasks."""
    monkeypatch.setattr(json_columns, "FieldBudget", lambda: FieldBudget(3))
    monkeypatch.setattr(json_format, "_MAX_SLOTS", 5)
    monkeypatch.setattr(json_format, "_MIN_ROWS", 5)
    monkeypatch.setattr(task_split, "MIN_TASK_ROWS", 1)
    create_topic(broker.bootstrap, topic, partitions)
    names = [f"n{number}" for number in range(30)]
    send(broker.bootstrap, topic, ({name: value} for name in names for value in (1, 1.5)))
    pipeline = pipeline_of(tmp_path, broker.bootstrap, f"  t: {{topic: {topic}, format: json}}\n")
    (batch,) = land_here(pipeline, tasks=tasks)
    assert (batch.rows, batch.bad_rows) == (6, 54)
    (table,) = pipeline.landed
    assert Table.open(table.path).schema.names[5:] == names[:3]
    assert sorted(row["n2"] for row in rows_of(table.path) if row["n2"]) == [1.0, 1.5]


def test_fields_renamed_for_a_generated_column_share_a_column(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    tables = f"  t: {{topic: {topic}, format: json, partition_by: [date(timestamp)]}}\n"
    pipeline = pipeline_of(tmp_path, broker.bootstrap, tables)
    (table,) = pipeline.landed
    for _ in range(2):  # the second time the table has the column
        send(broker.bootstrap, topic, [{"timestamp_date": "a"}, {"value_timestamp_date": "b"}])
        send(broker.bootstrap, topic, [{"Timestamp_Date": "c", "value_timestamp_date": "d"}])
        land_here(pipeline)
    rows = sorted(rows_of(table.path), key=lambda row: int(row["offset"]))
    assert [row["value_timestamp_date"] for row in rows] == ["a", "b", "a", "b"]
    assert [place for place, _ in values_in(table.dead_path)] == [(0, 2), (0, 5)]
