"""A table that stopped for lost records continues without them, and tells what it skipped."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sawlog.cli.commands import run
from sawlog.client.admin.admin import Admin
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of
from sawlog.pipeline.delta.landed_offsets import OffsetSpan
from sawlog.pipeline.delta.parquet_writer import FileWriter
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.formats.landed_rows import DEAD
from sawlog.pipeline.landing.driver import resume as resumes
from sawlog.pipeline.landing.driver.dead_letters import commit_dead_letters, open_dead_letters
from sawlog.pipeline.landing.driver.replay import restore_to
from sawlog.pipeline.landing.driver.resume import resume
from sawlog.pipeline.landing.failures import LandingFailure
from support.pipeline.landing import create_topic, land_here, pipeline_of, rows_of, send, values_in
from support.server.broker_process import SawlogServer

BAD = b"{bad"


def good(number: int) -> dict[str, int]:
    return {"id": number}


class World:
    """Two partitions with three records each have landed; the last one of each is a dead letter."""

    def __init__(self, bootstrap: str, topic: str, directory: Path) -> None:
        self.bootstrap, self.topic = bootstrap, topic
        create_topic(bootstrap, topic, 2)
        send(bootstrap, topic, [good(0), good(1), good(2), good(3), BAD, BAD])
        self.pipeline = pipeline_of(
            directory, bootstrap, f"  t: {{topic: {topic}, format: json}}\n"
        )
        (self.config,) = self.pipeline.landed
        land_here(self.pipeline)

    @property
    def table(self) -> Table:
        return Table.open(self.config.path)

    def offsets(self) -> dict[int, int]:
        return {tp.partition: at for tp, at in self.table.offsets(self.config.group).items()}

    def ids(self) -> list[int]:
        return sorted(row["id"] for row in rows_of(self.config.path))

    def dead(self) -> list[tuple[int, int]]:
        return [place for place, _ in values_in(self.config.dead_path)]

    def create_again(self, partitions: int = 2) -> None:
        with Cluster(self.bootstrap) as cluster:
            assert not Admin(cluster).delete_topics([self.topic])
        create_topic(self.bootstrap, self.topic, partitions)

    def delete_records(self, partition: int, before: int) -> None:
        with Cluster(self.bootstrap) as cluster:
            Admin(cluster).delete_records({partition_of(self.topic, partition): before})

    def resume(self, *options: str) -> int:
        return run(["pipeline", "resume", "t", "-f", self.pipeline.file, *options])

    def history(self) -> list[dict[str, Any]]:
        table = self.table
        entries = [table.log.entry(version) or [] for version in range(table.version + 1)]
        return [action["commitInfo"] for entry in entries for action in entry
                if "commitInfo" in action]  # fmt: skip


@pytest.fixture
def world(broker: SawlogServer, topic: str, tmp_path: Path) -> World:
    return World(broker.bootstrap, topic, tmp_path)


def lose_records(world: World) -> None:
    send(world.bootstrap, world.topic, [good(number) for number in range(10, 16)])
    world.delete_records(1, 5)


def test_a_resume_without_the_flag_lists_the_loss_and_changes_nothing(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    lose_records(world)
    version = world.table.version
    assert world.resume() == 1
    told = capsys.readouterr()
    assert told.out == (
        f"t: lost {world.topic}-1 offsets 3 to 4: retention or DeleteRecords deleted them before"
        " they landed\n"
    )
    assert "--accept-loss" in told.err
    assert world.table.version == version


def test_a_resume_skips_deleted_records_and_records_them(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    lose_records(world)
    version = world.table.version
    assert world.resume("--accept-loss") == 0
    assert f"t: skipped {world.topic}-1 offsets 3 to 4: " in capsys.readouterr().out
    assert world.table.version == version + 1
    assert world.offsets() == {0: 3, 1: 5}
    last = world.history()[-1]
    assert last["operation"] == "RESUME"
    (entry,) = json.loads(last["userMetadata"])["skipped"]
    assert (entry["partition"], entry["first_offset"], entry["last_offset"]) == (1, 3, 4)
    assert run(["pipeline", "status", world.pipeline.file, "--json"]) == 0
    (status,) = json.loads(capsys.readouterr().out)
    assert status["state"] == "ready"
    (skipped,) = status["skipped"]
    assert skipped.pop("at").startswith("20")
    assert skipped == {
        "topic": world.topic,
        "partition": 1,
        "first_offset": 3,
        "last_offset": 4,
        "reason": "retention or DeleteRecords deleted them before they landed",
    }
    land_here(world.pipeline)
    assert world.ids() == [0, 1, 2, 3, 10, 12, 14, 15]


def test_a_resumed_table_lands_the_topic_that_was_created_again(world: World) -> None:
    world.create_again()
    send(world.bootstrap, world.topic, [good(20), good(21), BAD, good(22)])
    assert world.resume("--accept-loss") == 0
    assert world.offsets() == {0: 0, 1: 0}
    land_here(world.pipeline)
    assert world.ids() == [0, 1, 2, 3, 20, 21, 22]
    assert world.dead() == [(0, 1), (0, 2), (1, 2)], "the old dead letters stay"
    send(world.bootstrap, world.topic, [BAD, good(23)])
    land_here(world.pipeline)
    assert world.dead() == [(0, 1), (0, 2), (0, 2), (1, 2)]
    assert world.ids() == [0, 1, 2, 3, 20, 21, 22, 23]


def test_a_topic_created_again_with_fewer_partitions_can_grow_later(world: World) -> None:
    world.create_again(partitions=1)
    send(world.bootstrap, world.topic, [good(20)])
    assert world.resume("--accept-loss") == 0
    with Cluster(world.bootstrap) as cluster:
        assert not Admin(cluster).create_partitions({world.topic: 2})
    send(world.bootstrap, world.topic, [good(21), good(22)])
    land_here(world.pipeline)
    assert world.ids() == [0, 1, 2, 3, 20, 21, 22]


def test_a_table_that_is_ahead_of_its_topic_continues_at_its_end(world: World) -> None:
    """The table advances as if the broker had lost the end of its log."""
    first = partition_of(world.topic, 0)
    world.table.commit(world.config.group, [], {first: OffsetSpan(3, 10)})
    assert world.resume("--accept-loss") == 0
    assert world.offsets() == {0: 3, 1: 3}
    send(world.bootstrap, world.topic, [good(30)])
    land_here(world.pipeline)
    assert world.ids() == [0, 1, 2, 3, 30]


def test_a_table_that_lost_nothing_is_refused(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    version = world.table.version
    assert world.resume("--accept-loss") == 1
    assert "'t' has lost no records" in capsys.readouterr().err
    assert world.table.version == version


def test_a_table_without_a_topic_is_refused(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    with Cluster(world.bootstrap) as cluster:
        assert not Admin(cluster).delete_topics([world.topic])
    assert world.resume("--accept-loss") == 1
    assert "no longer exists" in capsys.readouterr().err


def test_lost_dead_letters_are_accepted_too(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(world.config.dead_path)
    with pytest.raises(LandingFailure, match="resume TABLE --accept-loss"):
        land_here(world.pipeline)
    assert world.resume("--accept-loss") == 0
    told = capsys.readouterr().out
    assert "from offset 2 on: the dead letter table was deleted, with 1 of them" in told
    send(world.bootstrap, world.topic, [good(40), BAD])
    land_here(world.pipeline)
    assert world.ids() == [0, 1, 2, 3, 40]
    assert world.dead() == [(1, 3)]


def test_a_resume_that_died_between_its_commits_is_finished(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create_again()
    send(world.bootstrap, world.topic, [good(20), BAD])

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, Cluster(world.bootstrap) as cluster:
        patched.setattr(resumes, "_finish", die)
        with pytest.raises(KeyboardInterrupt):
            resume(cluster, world.config, accept_loss=True)
    with pytest.raises(LandingFailure, match="a resume of 't' is running, or died"):
        land_here(world.pipeline)
    with Cluster(world.bootstrap) as cluster:
        with pytest.raises(LandingFailure, match="a resume of 't' is running, or died"):
            restore_to(cluster, world.config, {partition_of(world.topic, 0): 0})
        assert len(resume(cluster, world.config, accept_loss=True)) == 2
    land_here(world.pipeline)
    assert world.ids() == [0, 1, 2, 3, 20]
    assert world.dead() == [(0, 2), (1, 0), (1, 2)]


@pytest.mark.parametrize("happens", [lose_records, World.create_again])
def test_dead_letters_of_a_batch_that_did_not_land_are_not_doubled(
    world: World, happens: Callable[[World], None]
) -> None:
    """A driver died between its two commits, with dead letters at the offsets 4 and 5."""
    dead = open_dead_letters(world.config, DEAD)
    second = partition_of(world.topic, 1)
    rows = [
        {"topic": world.topic, "partition": 1, "offset": at, "value": BAD, "error": "bad"}
        for at in (4, 5)
    ]
    with FileWriter(dead.storage) as writer:
        for row in rows:
            writer.write(_batch(row))
        files = writer.close()
    commit_dead_letters(
        dead, world.config.group, files, {second: OffsetSpan(3, 6)}, replays=0,
        is_next=lambda: True,
    )  # fmt: skip
    happens(world)
    assert world.resume("--accept-loss") == 0
    send(world.bootstrap, world.topic, [BAD] * 12)
    land_here(world.pipeline)
    places = world.dead()
    former = [(0, 2), (1, 2)] if happens is World.create_again else []
    assert sorted({*places}) == sorted({*places, *former})
    assert len(places) == len(set(places)) + len(former)


def _batch(row: dict[str, Any]) -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_pylist([row], DEAD)


def test_a_resume_plans_again_if_another_driver_lands_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_records(world)
    assess = resumes.assess_loss
    first = partition_of(world.topic, 0)
    calls = []

    def assess_late(*args: Any) -> resumes.Loss:
        loss = assess(*args)
        if not calls:
            world.table.commit(world.config.group, [], {first: OffsetSpan(3, 4)})
        calls.append(loss)
        return loss

    monkeypatch.setattr(resumes, "assess_loss", assess_late)
    with Cluster(world.bootstrap) as cluster:
        resume(cluster, world.config, accept_loss=True)
    assert len(calls) == 2
    assert world.offsets() == {0: 4, 1: 5}


def test_a_replay_does_not_delete_rows_of_a_former_topic(world: World) -> None:
    world.create_again()
    send(world.bootstrap, world.topic, [good(number) for number in range(20, 30)])
    assert world.resume("--accept-loss") == 0
    land_here(world.pipeline)
    first = partition_of(world.topic, 0)
    with Cluster(world.bootstrap) as cluster:
        with pytest.raises(LandingFailure, match="-0 below offset 3 from before a resume"):
            restore_to(cluster, world.config, {first: 2})
        restore_to(cluster, world.config, {first: 3})
    land_here(world.pipeline)
    assert world.ids() == [0, 1, 2, 3, *range(20, 30)]


def test_a_resume_of_several_topics_moves_those_that_lost_records(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    deleted, again, whole = names = [f"{topic}-{number}" for number in range(3)]
    for name in names:
        create_topic(broker.bootstrap, name, 1)
        send(broker.bootstrap, name, [good(0), good(1)])
    pipeline = pipeline_of(
        tmp_path, broker.bootstrap, f"  t: {{topics: [{', '.join(names)}], format: json}}\n"
    )
    (config,) = pipeline.landed
    land_here(pipeline)
    send(broker.bootstrap, deleted, [good(2), good(3)])
    with Cluster(broker.bootstrap) as cluster:
        admin = Admin(cluster)
        admin.delete_records({partition_of(deleted, 0): 3})
        assert not admin.delete_topics([again])
        create_topic(broker.bootstrap, again, 1)
        send(broker.bootstrap, again, [good(4)])
        skipped = resume(cluster, config, accept_loss=True)
    assert [(entry.topic, entry.first_offset, entry.last_offset) for entry in skipped] == [
        (deleted, 2, 2), (again, 2, None),
    ]  # fmt: skip
    land_here(pipeline)
    offsets = {tp.topic: at for tp, at in Table.open(config.path).offsets(config.group).items()}
    assert offsets == {deleted: 4, again: 1, whole: 2}
    assert sorted(row["id"] for row in rows_of(config.path)) == [0, 0, 0, 1, 1, 1, 3, 4]


def test_a_keyed_table_skips_deleted_records_but_takes_no_earlier_offsets(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    send(broker.bootstrap, topic, [good(0), good(1)])
    table = f"  t: {{topic: {topic}, format: json, mode: upsert, key: id}}\n"
    pipeline = pipeline_of(tmp_path, broker.bootstrap, table)
    (config,) = pipeline.landed
    land_here(pipeline)
    send(broker.bootstrap, topic, [good(2), good(3)])
    with Cluster(broker.bootstrap) as cluster:
        admin = Admin(cluster)
        admin.delete_records({partition_of(topic, 0): 3})
        resume(cluster, config, accept_loss=True)
        land_here(pipeline)
        assert sorted(row["id"] for row in rows_of(config.path)) == [0, 1, 3]
        assert not admin.delete_topics([topic])
        create_topic(broker.bootstrap, topic, 1)
        with pytest.raises(LandingFailure, match="rows of 't' are ordered by offset"):
            resume(cluster, config, accept_loss=True)
