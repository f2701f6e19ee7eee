"""Each dead letter exists once, wherever a driver died, and beside other writers and replays."""

from pathlib import Path

import pyarrow as pa
import pytest

from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import TopicPartition
from sawlog.pipeline.delta.data_files import DataFile
from sawlog.pipeline.delta.landed_offsets import OffsetSpan
from sawlog.pipeline.delta.parquet_writer import FileWriter
from sawlog.pipeline.delta.restore import restore_offsets
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.formats.landed_rows import DEAD
from sawlog.pipeline.landing.configuration.pipeline_config import LandedTable
from sawlog.pipeline.landing.driver.dead_letters import commit_dead_letters, open_dead_letters
from sawlog.pipeline.landing.driver.replay_counts import replay_count_id
from sawlog.pipeline.landing.failures import LandingFailure
from support.pipeline.landing import rows_of

GROUP = "g"
PARTITION = partition_of("t", 0)


@pytest.fixture
def dead(tmp_path: Path) -> Table:
    return open_dead_letters(LandedTable("t", str(tmp_path / "t"), "t", GROUP), DEAD)


def written(dead: Table, *offsets: int, index: int = 0) -> list[DataFile]:
    rows = [
        {"topic": "t", "partition": index, "offset": offset, "error": "bad"} for offset in offsets
    ]
    with FileWriter(dead.storage) as writer:
        writer.write(pa.RecordBatch.from_pylist(rows, schema=DEAD))
        return writer.close()


def moved(start: int, end: int) -> dict[TopicPartition, OffsetSpan]:
    return {PARTITION: OffsetSpan(start, end)}


def propose(
    dead: Table, files: list[DataFile], spans: dict[TopicPartition, OffsetSpan], *, replays: int = 0
) -> None:
    """Commit the dead letters of a batch that is the next one."""
    commit_dead_letters(dead, GROUP, files, spans, replays=replays, is_next=lambda: True)


def offsets(dead: Table) -> list[int]:
    return sorted(row["offset"] for row in rows_of(dead.path))


def test_batches_without_bad_rows_make_no_commit_and_no_gap(dead: Table) -> None:
    propose(dead, written(dead, 3), moved(0, 10))
    propose(dead, written(dead, 35), moved(30, 40))
    assert offsets(dead) == [3, 35]
    assert dead.offsets(GROUP) == {PARTITION: 40}


def test_a_repeated_batch_adds_nothing(dead: Table) -> None:
    for _ in range(2):
        propose(dead, written(dead, 3), moved(0, 10))
    assert offsets(dead) == [3]


def test_a_batch_with_other_offsets_replaces_tentative_dead_letters(dead: Table) -> None:
    """A driver died between its two commits; the next plans other batches."""
    propose(dead, written(dead, 3, 9), moved(0, 10))
    propose(dead, written(dead, 3, 9, 10, 12), moved(0, 15))
    assert offsets(dead) == [3, 9, 10, 12]
    propose(dead, written(dead, 3), moved(0, 5))
    assert offsets(dead) == [3, 9, 10, 12]
    assert dead.offsets(GROUP) == {PARTITION: 15}


def test_a_row_may_be_bad_in_one_attempt_and_good_in_the_next(dead: Table) -> None:
    """Attempts with other offsets may infer other columns."""
    propose(dead, written(dead, 3, 12), moved(0, 15))
    propose(dead, [], moved(0, 10))
    assert offsets(dead) == [12]
    propose(dead, written(dead, 11, 14, 15), moved(10, 16))
    assert offsets(dead) == [11, 14, 15]


def test_a_batch_without_bad_rows_makes_no_version(dead: Table) -> None:
    propose(dead, [], moved(0, 10))
    assert dead.version == 0


def test_partitions_are_compared_by_their_own_offsets(dead: Table) -> None:
    other = partition_of("t", 1)
    propose(dead, written(dead, 3), moved(0, 10))
    files = [*written(dead, 3), *written(dead, 3, index=1)]
    propose(dead, files, {**moved(0, 10), other: OffsetSpan(0, 5)})
    assert sorted((row["partition"], row["offset"]) for row in rows_of(dead.path)) == [
        (0, 3), (1, 3)
    ]  # fmt: skip


def test_a_driver_that_missed_a_replay_adds_nothing(dead: Table) -> None:
    propose(dead, written(dead, 3, 9), moved(0, 10))
    restore_offsets(Table.open(dead.path), GROUP, {PARTITION: 5}, {replay_count_id(GROUP): 1})
    with pytest.raises(LandingFailure, match="a replay restored the dead letters"):
        propose(dead, written(dead, 12), moved(10, 15))
    assert offsets(dead) == [3]
    propose(dead, written(dead, 9, 12), moved(5, 15), replays=1)
    assert offsets(dead) == [3, 9, 12]
