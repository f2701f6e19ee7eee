"""Concurrent merges and compactions of one keyed table, killed or not, equal a dictionary."""

from pathlib import Path

import pytest
from deltalake import DeltaTable

from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.delta.table_path import AnyPath, table_path
from sawlog.pipeline.delta.vacuum import vacuum
from support.pipeline.keyed_tables import SCHEMA, random_change, replayed, rows_by_key
from support.pipeline.table_workers import PARTITIONS
from support.pipeline.tables import PIPELINE, at, new_table
from support.pipeline.worker_processes import finish, kill_repeatedly, start
from support.tiers import rounds


def check(path: AnyPath, end: int) -> None:
    """The table equals the topic up to `end`, by our own reader and by deltalake's files."""
    table = Table.open(path)
    changes = [random_change(part, n) for part in range(PARTITIONS) for n in range(end)]
    assert rows_by_key(table) == replayed(changes)
    assert table.offsets(PIPELINE) == {at(number): end for number in range(PARTITIONS)}
    options = table.storage.delta_options()
    theirs = DeltaTable(str(table.path), storage_options=None if options is None else dict(options))
    assert theirs.version() == table.version
    assert theirs.to_pyarrow_table().num_rows == len(replayed(changes))


@pytest.mark.parametrize("place", ["directory", "store"])
def test_two_merging_landings_and_a_compaction_at_once(
    tmp_path: Path, random_seed: int, place: str, request: pytest.FixtureRequest
) -> None:
    end, path = 120, table_path(tmp_path / "t")
    if place == "store":
        end, path = 10, request.getfixturevalue("moto").new_path("keyed")
    new_table(path, schema=SCHEMA)
    landings = [start("upsert", path, random_seed + number, end) for number in range(2)]
    compaction = start("compact", path, random_seed, end)
    landed = [finish(worker) for worker in landings]
    finish(compaction)
    check(path, end)
    assert sum(met["overtaken"] + met["already"] for met in landed) > 0, (
        "no writer conflicted with another"
    )


@pytest.mark.parametrize("kills", rounds(long=6, soak=200))
def test_merges_that_are_killed_repeatedly_equal_a_dictionary(
    tmp_path: Path, random_seed: int, kills: int
) -> None:
    path = tmp_path / "t"
    new_table(path, schema=SCHEMA)
    end = kill_repeatedly(path, ["upsert", "upsert", "compact"], kills, random_seed)
    check(path, end)
    vacuum(Table.open(path), orphan_ms=0, tombstone_ms=0)
    check(path, end)
