"""Concurrent landings and compactions of one table, killed or not, lose and duplicate nothing."""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from deltalake import DeltaTable

from sawlog.pipeline.delta.data_files import decode_path
from sawlog.pipeline.delta.file_scan import scan_file
from sawlog.pipeline.delta.landed_offsets import OffsetSpan
from sawlog.pipeline.delta.table import AlreadyCommitted, CommittedVersion, Table
from sawlog.pipeline.delta.table_storage import LOG, TEMPORARY_PREFIX
from sawlog.pipeline.delta.tail import TableTail
from sawlog.pipeline.delta.vacuum import vacuum
from support.pipeline.table_workers import PARTITIONS
from support.pipeline.tables import PIPELINE, at, contents, expected, land, new_table, rows, written
from support.pipeline.worker_processes import DEADLINE_S, finish, kill_repeatedly, start
from support.tiers import rounds


def check(table: Table, end: int) -> None:
    """The table equals the topic, by our own reader and by deltalake's files and offsets."""
    ends = dict.fromkeys(range(PARTITIONS), end)
    assert contents(table) == expected(ends)
    assert table.offsets(PIPELINE) == {at(number): end for number in ends}
    assert table.detail().rows == PARTITIONS * end
    theirs = DeltaTable(table.path)
    assert theirs.version() == table.version
    assert {Path(path).name for path in theirs.file_uris()} == {
        Path(file.path).name for file in table.files()
    }


def follow(table: Table, workers: list[subprocess.Popen[str]]) -> list[tuple[int, int]]:
    """Partition and offset of every row that is added until the workers have ended."""
    follower = TableTail(table.path)
    at_position, seen = follower.snapshot_start(), []
    for _ in range(DEADLINE_S * 10):
        have_ended = all(worker.poll() is not None for worker in workers)
        end = follower.advance(at_position, max_files=5)
        for file in follower.between(at_position, end):
            schema, values = table.schema, file.partition_values
            for batch in scan_file(table.storage, file.path, schema, values):
                columns = [batch.column(name).to_pylist() for name in ("partition", "offset")]
                seen += zip(*columns, strict=True)
        if end != at_position:
            at_position = end
        elif have_ended:
            return seen
        else:
            with suppress(subprocess.TimeoutExpired):
                next(worker for worker in workers if worker.returncode is None).wait(0.1)
    raise AssertionError(f"the workers had not ended after {DEADLINE_S} s")


def test_two_landings_and_two_compactions_at_once(tmp_path: Path, random_seed: int) -> None:
    end = 150
    path = tmp_path / "t"
    new_table(path, ["date(timestamp)"])
    landings = [start("land", path, random_seed + number, end) for number in range(2)]
    compactions = [start("compact", path, random_seed - number, end) for number in range(2)]
    seen = follow(Table.open(path), [*landings, *compactions])
    landed = [finish(worker) for worker in landings]
    merged = [finish(worker) for worker in compactions]
    check(Table.open(path), end)
    assert sorted(seen) == [(part, number) for part in range(PARTITIONS) for number in range(end)]
    assert sum(met["committed"] for met in landed) > 10
    assert sum(met["merged"] for met in merged) > 10
    assert sum(met["overtaken"] + met["already"] for met in landed) > 0, (
        "no writer conflicted with another"
    )


@pytest.mark.parametrize("kills", rounds(long=10, soak=400))
def test_writers_that_are_killed_repeatedly_lose_and_duplicate_nothing(
    tmp_path: Path, random_seed: int, kills: int
) -> None:
    path = tmp_path / "t"
    new_table(path, ["date(timestamp)"])
    end = kill_repeatedly(path, ["land", "land", "compact", "compact"], kills, random_seed)
    table = Table.open(path)
    check(table, end)
    vacuum(table, orphan_ms=0, tombstone_ms=0)
    assert set(path.rglob("*.parquet")) - set((path / LOG).iterdir()) == {
        path / decode_path(file.path) for file in table.files()
    }
    check(Table.open(path), end)


@pytest.mark.parametrize(
    ("point", "is_committed"), [("files", False), ("aside", False), ("named", True)]
)
def test_a_writer_that_dies_in_its_commit_has_committed_all_or_nothing(
    tmp_path: Path, point: str, is_committed: bool
) -> None:
    table = new_table(tmp_path / "t")
    land(table, 0, 0, 10)
    worker = start("die", table.path, point)
    worker.communicate(timeout=60)
    assert worker.returncode == -signal.SIGKILL
    after = Table.open(tmp_path / "t")
    assert contents(after) == expected({0: 20 if is_committed else 10})
    leftovers = [
        name for name in os.listdir(tmp_path / "t" / LOG) if name.startswith(TEMPORARY_PREFIX)
    ]
    assert len(leftovers) == (0 if point == "files" else 1)
    again = written(after, rows(0, range(10, 20)))
    done = after.commit(PIPELINE, again, {at(0): OffsetSpan(10, 20)})
    assert done == (AlreadyCommitted(2) if is_committed else CommittedVersion(2))
    vacuum(after, orphan_ms=-1_000)
    assert [
        name for name in os.listdir(tmp_path / "t" / LOG) if name.startswith(TEMPORARY_PREFIX)
    ] == []
    assert len(list((tmp_path / "t").glob("*.parquet"))) == 2
    assert contents(Table.open(tmp_path / "t")) == expected({0: 20})
    assert DeltaTable(table.path).version() == 2
