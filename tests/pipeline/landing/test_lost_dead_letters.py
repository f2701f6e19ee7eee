"""A deleted dead letter table is noticed, and its content is reported."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from sawlog.cli import pipeline_tables
from sawlog.cli.commands import run
from sawlog.client.net.cluster import Cluster
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.landing.driver.batch_commit import LandingCommitter
from sawlog.pipeline.landing.driver.dead_letter_counts import DeadLetterCount, recorded_counts
from sawlog.pipeline.landing.driver.table_setup import prepare
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure
from sawlog.pipeline.landing.task.landing_task import (
    current_columns,
    land_ranges,
    landing_parameters,
)
from sawlog.pipeline.source.batch_planning import OffsetRange
from support.pipeline.landing import OnlyHere, create_topic, land_here, pipeline_of, send, values_in
from support.server.broker_process import SawlogServer

GOOD, BAD = b'{"id": 1}', b"{broken"


class World:
    """A topic with two partitions that has landed: the second record of partition 0 is malformed,
    and all records of partition 1 from the third on.
    """

    def __init__(self, bootstrap: str, topic: str, directory: Path) -> None:
        self.bootstrap, self.topic = bootstrap, topic
        create_topic(bootstrap, topic, 2)
        send(bootstrap, topic, [GOOD, GOOD, BAD, GOOD, GOOD, BAD, GOOD, BAD])
        self.pipeline = pipeline_of(
            directory, bootstrap, f"  t: {{topic: {topic}, format: json}}\n"
        )
        (self.config,) = self.pipeline.landed
        land_here(self.pipeline)

    @property
    def table(self) -> Table:
        return Table.open(self.config.path)

    def delete_dead(self) -> None:
        shutil.rmtree(self.config.dead_path)

    def dead(self) -> list[tuple[int, int]]:
        return [place for place, _ in values_in(self.config.dead_path)]

    def letters(self) -> dict[int, DeadLetterCount]:
        known = recorded_counts(self.config.group, self.table.snapshot.transactions)
        return {tp.partition: letters for tp, letters in known.items()}


@pytest.fixture
def world(broker: SawlogServer, topic: str, tmp_path: Path) -> World:
    return World(broker.bootstrap, topic, tmp_path)


def lost(world: World) -> str:
    with pytest.raises(LandingFailure) as caught:
        land_here(world.pipeline)
    assert caught.value.kind is FailureKind.DATA_LOSS
    return caught.value.message


def test_a_table_counts_its_dead_letters_batch_by_batch(world: World) -> None:
    assert world.dead() == [(0, 1), (1, 2), (1, 3)]
    assert world.letters() == {0: DeadLetterCount(1, 1), 1: DeadLetterCount(2, 2)}
    send(world.bootstrap, world.topic, [BAD, GOOD, GOOD])
    land_here(world.pipeline)
    assert world.letters() == {0: DeadLetterCount(2, 1), 1: DeadLetterCount(2, 2)}


def test_a_landing_stops_and_reports_how_many_dead_letters_are_lost(world: World) -> None:
    world.delete_dead()
    told = lost(world)
    t = world.topic
    assert f"with it 3 dead letters (1 of {t}-0 from offset 1 on, 2 of {t}-1 from offset 2" in told
    assert "land them again as far as the topic has them" in told
    assert "(sawlog pipeline replay t --from 0:1,1:2 -f FILE)" in told
    assert "go on without them (sawlog pipeline resume TABLE --accept-loss -f FILE)" in told
    assert not Path(world.config.dead_path).exists()


def test_status_and_check_report_lost_dead_letters(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.delete_dead()
    told = lost(world)
    assert run(["pipeline", "status", world.pipeline.file, "--json"]) == 1
    (entry,) = json.loads(capsys.readouterr().out)
    assert (entry["state"], entry["reason"]) == ("stopped", told)
    assert entry["dead_letters"] is None
    assert run(["pipeline", "check", world.pipeline.file]) == 1
    assert capsys.readouterr().out == f"t: stopped: {told}\n"


def test_a_dead_letter_table_that_was_created_again_is_noticed(world: World) -> None:
    schema = Table.open(world.config.dead_path).schema
    world.delete_dead()
    Table.create(world.config.dead_path, schema)
    assert "was deleted or replaced" in lost(world)


def test_a_landing_continues_after_its_dead_letters_were_restored(
    world: World, tmp_path: Path
) -> None:
    shutil.move(world.config.dead_path, tmp_path / "aside")
    lost(world)
    shutil.move(tmp_path / "aside", world.config.dead_path)
    assert land_here(world.pipeline) == []
    assert len(world.dead()) == 3


def test_a_missing_dead_letter_table_is_created_if_none_are_lost(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    send(broker.bootstrap, topic, [GOOD])
    pipeline = pipeline_of(tmp_path, broker.bootstrap, f"  t: {{topic: {topic}, format: json}}\n")
    land_here(pipeline)
    (config,) = pipeline.landed
    shutil.rmtree(config.dead_path)
    assert run(["pipeline", "status", pipeline.file]) == 0
    send(broker.bootstrap, topic, [BAD])
    land_here(pipeline)
    shutil.rmtree(config.dead_path)
    with pytest.raises(LandingFailure, match="with it 1 dead letter "):
        land_here(pipeline)


@pytest.mark.parametrize(
    ("start", "dead"), [("0:1,1:2", [(0, 1), (1, 2), (1, 3)]), ("0:4,1:4", []), ("1:3", [(1, 3)])]
)
def test_a_replay_accepts_the_loss_of_dead_letters(
    world: World,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    start: str,
    dead: list[tuple[int, int]],
) -> None:
    world.delete_dead()
    monkeypatch.setattr(
        pipeline_tables, "land_tables", lambda *_, **__: land_here(world.pipeline) and 0
    )
    command = ["pipeline", "replay", "t", "--from", start, "-f", world.pipeline.file]
    assert run(command) == 0
    assert "t: the table t__dead was deleted with 3 dead letters (1 of " in capsys.readouterr().err
    assert world.dead() == dead
    assert sum(letters.rows for letters in world.letters().values()) == len(dead)
    assert run(["pipeline", "status", world.pipeline.file]) == 0
    send(world.bootstrap, world.topic, [BAD])
    land_here(world.pipeline)
    assert sorted(world.dead()) == sorted([*dead, (0, 4)])


def test_a_replay_counts_the_remaining_dead_letters(world: World) -> None:
    from sawlog.pipeline.landing.driver.replay import resolve_replay_start, restore_to

    with Cluster(world.bootstrap) as cluster:
        restore_to(cluster, world.config, resolve_replay_start(cluster, world.config, {0: 1, 1: 3}))
    assert world.letters() == {1: DeadLetterCount(1, 2)}
    land_here(world.pipeline)
    assert world.letters() == {0: DeadLetterCount(1, 1), 1: DeadLetterCount(2, 2)}


def test_a_batch_does_not_land_if_its_dead_letter_table_was_deleted(world: World) -> None:
    config = world.config
    with Cluster(world.bootstrap) as cluster:
        ready = prepare(cluster, config)
    parameters = landing_parameters(world.pipeline, config, ready.topics)
    send(world.bootstrap, world.topic, [BAD, BAD])
    world.delete_dead()
    ranges = [OffsetRange(tp, at, at + 1) for tp, at in ready.starts.items()]
    reports = [land_ranges(parameters, current_columns(parameters), ranges)]
    committer = LandingCommitter(
        parameters, ready, landed=lambda _: None, commit_to_group=lambda _: None
    )
    version = world.table.version
    spark: Any = OnlyHere()
    with pytest.raises(LandingFailure, match="the dead letters were deleted") as caught:
        committer.commit(spark, reports, 0.0)
    assert caught.value.kind is FailureKind.CONFLICT
    assert world.table.version == version
    assert not Table.exists(config.dead_path)
    assert "with it 3 dead letters" in lost(world)
