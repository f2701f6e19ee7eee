"""Dead letters are listed, shown, and moved to the table once they fit, exactly once."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from sawlog.cli.commands import run
from sawlog.client.admin.admin import Admin
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of
from sawlog.pipeline.delta.compaction import compact
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.landing.configuration.pipeline_config import LandedTable, PipelineConfig
from sawlog.pipeline.landing.driver import dead_letter_retry
from sawlog.pipeline.landing.driver.dead_letter_counts import DeadLetterCount, recorded_counts
from sawlog.pipeline.landing.driver.dead_letter_retry import RetryResult, retry_dead_letters
from sawlog.pipeline.landing.driver.replay import restore_to
from sawlog.pipeline.landing.failures import LandingFailure
from support.pipeline.landing import create_topic, land_here, pipeline_of, rows_of, send, values_in
from support.server.broker_process import SawlogServer

NUMBERS = [b'{"id": 1}', b'{"id": "two"}', b"{", b'{"id": "four"}', b'{"id": 5}', b'{"id": "six"}']


class World:
    """A topic with one partition that has landed with `id` as a number: four are dead letters."""

    def __init__(self, bootstrap: str, topic: str, directory: Path) -> None:
        self.bootstrap, self.topic, self._directory = bootstrap, topic, directory
        create_topic(bootstrap, topic, 1)
        send(bootstrap, topic, NUMBERS)
        self.use("id BIGINT")
        land_here(self.pipeline)

    def use(self, schema: str) -> None:
        """Change the schema in the file; a new column takes what the old one rejects."""
        table = f"  t: {{topic: {self.topic}, format: json, schema: '{schema}'}}\n"
        self.pipeline = pipeline_of(self._directory, self.bootstrap, table)

    @property
    def config(self) -> LandedTable:
        (config,) = self.pipeline.landed
        return config

    @property
    def table(self) -> Table:
        return Table.open(self.config.path)

    @property
    def dead(self) -> Table:
        return Table.open(self.config.dead_path)

    def retry(self, where: str | None = None) -> RetryResult:
        return retry_dead_letters(self.pipeline, self.config, self.table, self.dead, where)

    def landed(self) -> list[int]:
        return sorted(row["offset"] for row in rows_of(self.config.path))

    def dead_offsets(self) -> list[int]:
        return [offset for (_, offset), _ in values_in(self.config.dead_path)]

    def count(self) -> DeadLetterCount | None:
        counts = recorded_counts(self.config.group, self.table.snapshot.transactions)
        return counts.get(partition_of(self.topic, 0))


@pytest.fixture
def world(broker: SawlogServer, topic: str, tmp_path: Path) -> World:
    made = World(broker.bootstrap, topic, tmp_path)
    assert made.landed() == [0, 4]
    assert made.dead_offsets() == [1, 2, 3, 5]
    return made


def fix(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let strings be numbers: as a later version of the parser, or a hint, might."""
    from sawlog.pipeline.formats import parser
    from sawlog.pipeline.landing.task import landing_task

    words = {b"two": b"2", b"four": b"4", b"six": b"6"}

    def lenient(*args: Any, **kwargs: Any) -> Any:
        import pyarrow as pa

        parse = parser(*args, **kwargs)

        def parsed(values: pa.Array) -> Any:
            texts = values.to_pylist()
            for word, number in words.items():
                texts = [text and text.replace(b'"%s"' % word, number) for text in texts]
            return parse(pa.array(texts, pa.binary()))

        return parsed

    monkeypatch.setattr(landing_task, "parser", lenient)


def test_a_retry_moves_what_fits_and_keeps_the_rest(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix(world, monkeypatch)
    assert world.retry() == RetryResult(3, 1, 0)
    assert world.landed() == [0, 1, 3, 4, 5]
    assert world.dead_offsets() == [2]
    assert world.count() == DeadLetterCount(1, 2)
    assert {row["offset"]: row["id"] for row in rows_of(world.config.path)} == {
        0: 1, 1: 2, 3: 4, 4: 5, 5: 6
    }  # fmt: skip
    assert world.retry() == RetryResult(0, 1, 0)
    send(world.bootstrap, world.topic, [b"{", b'{"id": 8}'])
    land_here(world.pipeline)
    assert world.landed() == [0, 1, 3, 4, 5, 7]
    assert world.dead_offsets() == [2, 6]
    assert world.count() == DeadLetterCount(2, 2)


def test_a_retry_with_a_condition_moves_only_those(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix(world, monkeypatch)
    assert world.retry("offset > 1 AND CAST(value AS STRING) LIKE '%four%'") == RetryResult(1, 0, 0)
    assert world.landed() == [0, 3, 4]
    assert world.dead_offsets() == [1, 2, 5]


def test_dead_letters_at_one_offset_of_two_topics_are_left_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the condition selects only one of them: offsets tell which are moved."""
    with Cluster(world.bootstrap) as cluster:
        assert not Admin(cluster).delete_topics([world.topic])
    create_topic(world.bootstrap, world.topic, 1)
    assert run(["pipeline", "resume", "t", "--accept-loss", "-f", world.pipeline.file]) == 0
    send(world.bootstrap, world.topic, [b'{"id": 1}', b"{", b'{"id": 3}', b'{"id": 4}'])
    land_here(world.pipeline)
    assert world.dead_offsets() == [1, 1, 2, 3, 5]
    fix(world, monkeypatch)
    numbers = "error LIKE '%bigint%'"  # one of the two at offset 1
    assert world.retry(numbers) == RetryResult(1, 0, 1)
    assert world.dead_offsets() == [1, 1, 2, 5]
    assert world.landed() == [0, 0, 2, 3, 3, 4]


@pytest.mark.parametrize("step", ["_commit", "rewrite"])
@pytest.mark.parametrize("then", ["retry", "land", "replay"])
def test_a_retry_that_died_loses_and_doubles_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, step: str, then: str
) -> None:
    fix(world, monkeypatch)

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(dead_letter_retry, step, die)
        with pytest.raises(KeyboardInterrupt):
            world.retry()
    if then == "land":
        land_here(world.pipeline)
    elif then == "replay":
        with Cluster(world.bootstrap) as cluster:
            restore_to(cluster, world.config, {partition_of(world.topic, 0): 4})
        land_here(world.pipeline)
    else:
        compact(None, world.config.path)
        compact(None, world.config.dead_path)
    if step == "rewrite" and then != "retry":
        assert world.dead_offsets() == [2], "finished without another retry"
    world.retry()
    assert world.landed() == [0, 1, 3, 4, 5]
    assert world.dead_offsets() == [2]
    assert world.count() == DeadLetterCount(1, 2)


def test_two_retries_at_once_move_each_row_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix(world, monkeypatch)
    commit = dead_letter_retry._commit
    results = []

    def commit_late(*args: Any) -> None:
        monkeypatch.setattr(dead_letter_retry, "_commit", commit)
        results.append(world.retry("offset <= 3"))
        commit(*args)

    monkeypatch.setattr(dead_letter_retry, "_commit", commit_late)
    results.append(world.retry())
    assert results == [RetryResult(2, 1, 0), RetryResult(1, 1, 0)]
    assert world.landed() == [0, 1, 3, 4, 5]
    assert world.dead_offsets() == [2]


def test_a_retry_infers_new_columns(broker: SawlogServer, topic: str, tmp_path: Path) -> None:
    create_topic(broker.bootstrap, topic, 1)
    send(broker.bootstrap, topic, [b'{"a": 1}', b'x,{"a": 2, "b": "new"}'])
    table = f"  t: {{topic: {topic}, format: json}}\n"
    pipeline = pipeline_of(tmp_path, broker.bootstrap, table)
    land_here(pipeline)
    assert _repaired(pipeline) == RetryResult(1, 0, 0)
    rows = {row["offset"]: (row["a"], row["b"]) for row in rows_of(pipeline.landed[0].path)}
    assert rows == {0: (1, None), 1: (2, "new")}


def _repaired(pipeline: PipelineConfig) -> RetryResult:
    """Retry with records whose first bytes are left out."""
    (config,) = pipeline.landed
    as_records = dead_letter_retry._as_records

    def without_prefix(batch: Any) -> Any:
        import pyarrow as pa

        records = as_records(batch)
        values = [value.removeprefix(b"x,") for value in records.column("value").to_pylist()]
        place = records.schema.get_field_index("value")
        return records.set_column(place, "value", pa.array(values, pa.binary()))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(dead_letter_retry, "_as_records", without_prefix)
        table, dead = Table.open(config.path), Table.open(config.dead_path)
        return retry_dead_letters(pipeline, config, table, dead)


def test_dead_letters_are_listed_and_shown(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    file = world.pipeline.file
    assert run(["pipeline", "dead", "list", "t", "-f", file, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [entry["rows"] for entry in found] == [3, 1]
    assert found[0]["reason"] == "field id: expected bigint"
    assert found[1]["reason"].startswith("not JSON: it ends too early")
    assert "at byte" not in found[1]["reason"]
    assert run(["pipeline", "dead", "show", "t", "-f", file, "--where", "offset = 3"]) == 0
    header, line = capsys.readouterr().out.splitlines()
    assert header.split() == ["topic", "partition", "offset", "timestamp", "error", "value"]
    assert '{"id": "four"}' in line
    assert re.search(r" \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ", line)
    assert run(["pipeline", "dead", "show", "t", "-f", file, "--json", "--limit", "2"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["offset"], second["offset"]) == (1, 2)
    assert first["value"] == '{"id": "two"}'


def test_a_retry_is_reported(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pipeline", "dead", "retry", "t", "-f", world.pipeline.file]) == 0
    assert capsys.readouterr().out == "t: 0 dead letters moved to the table, 4 do not fit\n"


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("x = 1", "no field named x. Valid fields are topic, partition, offset, timestamp"),
        ("offset > 1 AND )", "syntax error at line 1, column 16: expected an expression, found )"),
        ("offset >", "syntax error at its end: expected an expression"),
        ("error", "it is not a condition: its value is not boolean"),
        ("offset = 'abc'", "cannot cast string 'abc' to value of bigint type"),
        ("error LIKE 5", "there isn't a common type to coerce string and bigint in LIKE"),
    ],
)
def test_an_invalid_condition_is_a_usage_error(
    world: World, capsys: pytest.CaptureFixture[str], condition: str, reason: str
) -> None:
    command = ["pipeline", "dead", "list", "t", "-f", world.pipeline.file]
    assert run([*command, "--where", condition]) == 2
    assert f"--where: {reason}" in capsys.readouterr().err


def test_a_condition_that_no_dead_letter_fulfils_is_reported(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["pipeline", "dead", "list", "t", "-f", world.pipeline.file]
    assert run([*command, "--where", "offset = 77 -- none"]) == 0
    assert capsys.readouterr().err == "t: no dead letters that fulfil the condition\n"


def test_tombstones_land_as_rows(broker: SawlogServer, topic: str, tmp_path: Path) -> None:
    create_topic(broker.bootstrap, topic, 1)
    send(broker.bootstrap, topic, [b'{"a": 1}', None, b"{"])
    table = f"  t: {{topic: {topic}, format: json}}\n"
    pipeline = pipeline_of(tmp_path, broker.bootstrap, table)
    land_here(pipeline)
    (config,) = pipeline.landed
    assert {row["offset"]: row["a"] for row in rows_of(config.path)} == {0: 1, 1: None}
    assert [place for place, _ in values_in(config.dead_path)] == [(0, 2)]


def test_dead_letters_of_a_keyed_table_are_not_moved(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    send(broker.bootstrap, topic, NUMBERS)
    table = f"  t: {{topic: {topic}, format: json, schema: 'id BIGINT', mode: upsert, key: id}}\n"
    pipeline = pipeline_of(tmp_path, broker.bootstrap, table)
    land_here(pipeline)
    (config,) = pipeline.landed
    opened = Table.open(config.path), Table.open(config.dead_path)
    with pytest.raises(LandingFailure, match="later records may have replaced rows of 't'"):
        retry_dead_letters(pipeline, config, *opened)
