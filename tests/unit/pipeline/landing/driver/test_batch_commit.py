"""Two drivers that classify a row differently: it lands in the table or as a dead letter, never in
both and never in neither, whichever driver commits first.
"""

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sawlog.client.errors import RequestTimedOut
from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import NO_TOPIC_ID
from sawlog.pipeline.delta.data_files import DataFile
from sawlog.pipeline.delta.delta_log import Action
from sawlog.pipeline.delta.errors import OffsetConflict
from sawlog.pipeline.delta.landed_offsets import OffsetSpan
from sawlog.pipeline.delta.parquet_writer import FileWriter
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.formats.landed_rows import DEAD, RECORD
from sawlog.pipeline.formats.parsed import Format
from sawlog.pipeline.landing.configuration.pipeline_config import CommitBounds, LandedTable
from sawlog.pipeline.landing.driver import batch_commit
from sawlog.pipeline.landing.driver.batch_commit import LandingCommitter, parse_again
from sawlog.pipeline.landing.driver.dead_letters import commit_dead_letters, open_dead_letters
from sawlog.pipeline.landing.driver.table_setup import PreparedTable
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure
from sawlog.pipeline.landing.task.landing_task import LandingParameters
from sawlog.pipeline.landing.task.task_report import TaskReport
from sawlog.pipeline.source.batch_planning import OffsetRange
from support.pipeline.landing import OnlyHere, rows_of

PARTITION = partition_of("t", 0)


class Driver:
    """A driver of the table `t` in a directory."""

    def __init__(self, directory: Path) -> None:
        config = LandedTable("t", str(directory / "t"), "t", "g")
        if not Table.exists(config.path):
            Table.create(config.path, RECORD, (), {PARTITION: 0}, "g")
        self.table, self.dead = Table.open(config.path), open_dead_letters(config, DEAD)
        self.group_offsets: list[int] = []
        self.parameters = LandingParameters(
            "", {"t": NO_TOPIC_ID}, "g", config.path, config.dead_path, Format("raw"), None, (),
            True, CommitBounds(),
        )  # fmt: skip
        self._committer = LandingCommitter(
            self.parameters,
            PreparedTable(self.table, self.dead, {PARTITION: 0}, {"t": NO_TOPIC_ID}, 0),
            landed=lambda _: None,
            commit_to_group=lambda ends: self.group_offsets.extend(ends.values()),
        )

    def lands(self, start: int, end: int, *, bad: Iterable[int] = ()) -> bool:
        """Commit a batch; whether that made a version."""
        dead = set(bad)
        good = [offset for offset in range(start, end) if offset not in dead]
        report = TaskReport(
            (OffsetRange(PARTITION, start, end),),
            len(good),
            len(dead),
            0,
            tuple(written(self.table, RECORD, good)),
            tuple(written(self.dead, DEAD, dead)),
        )
        return self._committer.commit(OnlyHere(), [report], 0.0) is not None  # type: ignore[arg-type]


def nothing() -> None:
    """Does nothing in place of another driver."""


def die() -> None:
    raise KeyboardInterrupt


def around_the_next(
    table: Table,
    before: Callable[[], object] = nothing,
    after: Callable[[], object] = nothing,
) -> None:
    """Act right before, or right after, this handle appends to its log."""
    append = table.log.append

    def acting(version: int, actions: Iterable[Action]) -> bool:
        table.log.append = append  # type: ignore[method-assign]
        before()
        done = append(version, actions)
        after()
        return done

    table.log.append = acting  # type: ignore[method-assign]


def written(table: Table, schema: pa.Schema, offsets: Iterable[int]) -> list[DataFile]:
    rows = [{"topic": "t", "partition": 0, "offset": offset} for offset in sorted(offsets)]
    if not rows:
        return []
    with FileWriter(table.storage) as writer:
        writer.write(pa.RecordBatch.from_pylist(rows, schema=schema))
        return writer.close()


def account(directory: Path) -> tuple[list[int], list[int]]:
    """The offsets in the table, and those of dead letters."""
    found = [
        sorted(row["offset"] for row in rows_of(str(directory / name))) for name in ("t", "t__dead")
    ]
    return found[0], found[1]


def without(*bad: int, end: int = 10) -> tuple[list[int], list[int]]:
    return [offset for offset in range(end) if offset not in bad], list(bad)


@pytest.mark.parametrize(("first", "second"), [([5], []), ([], [5]), ([5], [5, 6]), ([5], [7])])
def test_a_late_batch_keeps_the_dead_letters_of_the_batch_that_landed(
    tmp_path: Path, first: list[int], second: list[int]
) -> None:
    early, late = Driver(tmp_path), Driver(tmp_path)
    assert early.lands(0, 10, bad=first)
    assert not late.lands(0, 10, bad=second)
    assert account(tmp_path) == without(*first)
    assert late.group_offsets == [10]


def test_a_late_batch_with_other_offsets_keeps_them_too(tmp_path: Path) -> None:
    early, late = Driver(tmp_path), Driver(tmp_path)
    early.lands(0, 10, bad=[5])
    with pytest.raises(OffsetConflict):
        late.lands(0, 15)
    assert account(tmp_path) == without(5)


@pytest.mark.parametrize("end", [10, 15])
def test_a_driver_that_loses_the_race_reverts_its_dead_letters(tmp_path: Path, end: int) -> None:
    """The table moves between this driver's last check and the commit of its dead letters."""
    early, late = Driver(tmp_path), Driver(tmp_path)
    around_the_next(late.dead, before=lambda: early.lands(0, 10))
    with nullcontext() if end == 10 else pytest.raises(OffsetConflict):
        assert not late.lands(0, end, bad=[5, 6])
    assert account(tmp_path) == without()


def test_a_driver_that_loses_the_race_restores_the_dead_letters_it_replaced(tmp_path: Path) -> None:
    early, late = Driver(tmp_path), Driver(tmp_path)
    spans = {PARTITION: OffsetSpan(0, 10)}
    files = written(early.table, RECORD, without(5)[0])
    commit_dead_letters(early.dead, "g", written(early.dead, DEAD, [5]), spans, replays=0,
                is_next=lambda: True)  # fmt: skip
    around_the_next(late.dead, before=lambda: early.table.commit("g", files, spans))
    assert not late.lands(0, 10, bad=[7])
    assert account(tmp_path) == without(5)


def test_no_batch_lands_beside_dead_letters_of_another_driver(tmp_path: Path) -> None:
    """The other driver died before its batch landed; the next starts from the table's offsets."""
    driver, other = Driver(tmp_path), Driver(tmp_path)

    def other_dies() -> None:
        around_the_next(other.table, before=die)
        with pytest.raises(KeyboardInterrupt):
            other.lands(0, 10, bad=[7])

    around_the_next(driver.dead, after=other_dies)
    with pytest.raises(LandingFailure) as caught:
        driver.lands(0, 10, bad=[5])
    assert caught.value.kind is FailureKind.CONFLICT
    assert account(tmp_path) == ([], [7])
    assert Driver(tmp_path).lands(0, 10, bad=[5])
    assert account(tmp_path) == without(5)


def test_an_unreachable_broker_during_parsing_again_is_reported_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark returns only text from these tasks."""

    def gone(*_: object, **__: object) -> None:
        raise RequestTimedOut("nobody is there")

    monkeypatch.setattr(batch_commit, "land_ranges", gone)
    driver = Driver(tmp_path)
    report = TaskReport((OffsetRange(PARTITION, 0, 1),), 0, 0, 0, (), ())
    spark: Any = OnlyHere()
    with pytest.raises(LandingFailure, match="nobody is there") as caught:
        parse_again(spark, driver.parameters, RECORD, [report])
    assert caught.value.kind is FailureKind.UNREACHABLE
