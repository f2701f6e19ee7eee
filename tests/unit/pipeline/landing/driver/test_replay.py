"""A replay that dies or meets another loses no row and no dead letter."""

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import NO_TOPIC_ID
from sawlog.pipeline.delta.data_files import DataFile
from sawlog.pipeline.delta.landed_offsets import OffsetSpan
from sawlog.pipeline.delta.parquet_writer import FileWriter
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.formats.landed_rows import DEAD, RECORD
from sawlog.pipeline.landing.configuration.pipeline_config import LandedTable
from sawlog.pipeline.landing.driver import replay
from sawlog.pipeline.landing.driver.dead_letters import commit_dead_letters, open_dead_letters
from sawlog.pipeline.landing.driver.replay import restore_to
from sawlog.pipeline.landing.driver.table_setup import create_table
from support.pipeline.landing import rows_of

FIRST, SECOND = partition_of("t", 0), partition_of("t", 1)
BAD = {5, 12, 18, 25}
END = 30


class World:
    """A table at offset 30 of both partitions, each with the same dead letters."""

    def __init__(self, directory: Path) -> None:
        self.config = LandedTable("t", str(directory / "t"), "t", "g")
        topic: Any = SimpleNamespace(name="t", id=NO_TOPIC_ID, has_id=False)
        self.cluster: Any = SimpleNamespace(topic=lambda _: topic, forget=lambda _: None)
        create_table(self.config, [topic], {FIRST: 0, SECOND: 0})
        self.table, self.dead = Table.open(self.config.path), open_dead_letters(self.config, DEAD)
        spans = {FIRST: OffsetSpan(0, END), SECOND: OffsetSpan(0, END)}
        commit_dead_letters(
            self.dead, "g", written(self.dead, DEAD, BAD), spans, replays=0,
            is_next=lambda: True,
        )  # fmt: skip
        self.table.commit("g", written(self.table, RECORD, set(range(END)) - BAD), spans)

    def replay(self, *starts: int) -> dict[int, int]:
        told = dict(zip((FIRST, SECOND), starts, strict=False))
        return {tp.partition: at for tp, at in restore_to(self.cluster, self.config, told).items()}

    def missing(self) -> list[tuple[int, int]]:
        """The offsets below those of the table that neither table has."""
        there = {
            (row["partition"], row["offset"])
            for path in (self.config.path, self.config.dead_path)
            for row in rows_of(path)
        }
        ends = Table.open(self.config.path).offsets("g")
        wanted = {(tp.partition, at) for tp in (FIRST, SECOND) for at in range(ends[tp])}
        return sorted(wanted - there)


def written(table: Table, schema: pa.Schema, offsets: Iterable[int]) -> list[DataFile]:
    rows = [
        {"topic": "t", "partition": index, "offset": offset}
        for index in (0, 1)
        for offset in sorted(offsets)
    ]
    with FileWriter(table.storage) as writer:
        writer.write(pa.RecordBatch.from_pylist(rows, schema=schema))
        return writer.close()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def dies_half_way(world: World, patch: pytest.MonkeyPatch, *starts: int) -> None:
    """Die after the dead letters are restored and before the table is."""
    whole = replay.restore_offsets

    def dying(table: Table, *rest: Any, **more: Any) -> object:
        if table.path == world.config.path:
            raise KeyboardInterrupt
        return whole(table, *rest, **more)

    with patch.context() as patched:
        patched.setattr(replay, "restore_offsets", dying)
        with pytest.raises(KeyboardInterrupt):
            world.replay(*starts)


def test_a_repeated_replay_restores_as_far_back_as_the_one_that_died(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    dies_half_way(world, monkeypatch, 10, 20)
    assert world.replay(20, 15) == {0: 10, 1: 15}
    assert world.missing() == []


def test_a_repeated_replay_restores_partitions_that_it_does_not_name(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    dies_half_way(world, monkeypatch, 10, 10)
    dies_half_way(world, monkeypatch, 20)
    assert world.replay(20) == {0: 10, 1: 10}
    assert world.missing() == []


def test_a_finished_replay_does_not_affect_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.replay(2, 3)
    world.table.commit("g", written(world.table, RECORD, []), {FIRST: OffsetSpan(2, END)})
    world.dead.refresh()
    dies_half_way(world, monkeypatch, 20)
    assert world.replay(21) == {0: 20}


def test_of_two_concurrent_replays_one_may_die(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other replay reads the counts before this one restores the dead letters."""
    whole = replay.restore_offsets

    def meanwhile(table: Table, *rest: Any, **more: Any) -> object:
        monkeypatch.setattr(replay, "restore_offsets", whole)
        dies_half_way(world, monkeypatch, 10, 10)
        return whole(table, *rest, **more)

    monkeypatch.setattr(replay, "restore_offsets", meanwhile)
    assert world.replay(20, 20) == {0: 10, 1: 10}
    assert world.missing() == []
