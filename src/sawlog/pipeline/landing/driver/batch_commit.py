"""The driver's end of a batch: reports in, one version of the table out.

Order is everything here. Files that do not fit together are parsed again first; then the columns
that dead letters were judged by, the dead letters, and the table, each in one commit; then the
group's offsets, which nothing depends on. A driver may die between any two: the next one begins
where the table is.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sawlog.core.ids import TopicPartition
from sawlog.pipeline.delta.data_files import discard
from sawlog.pipeline.delta.errors import CannotWiden, Overtaken
from sawlog.pipeline.delta.landed_offsets import Move, Verdict, judge
from sawlog.pipeline.delta.table import Already, Committed, Table
from sawlog.pipeline.landing.driver.dead_letter_counts import letters_in, marks_with
from sawlog.pipeline.landing.driver.dead_letters import check_stands, commit_dead, withdraw
from sawlog.pipeline.landing.driver.query_run import Commits
from sawlog.pipeline.landing.driver.schema_merge import fit
from sawlog.pipeline.landing.driver.table_setup import Ready
from sawlog.pipeline.landing.failures import wrapped
from sawlog.pipeline.landing.task.landing_task import Job, columns_text, land
from sawlog.pipeline.landing.task.task_report import (
    Report,
    dead_files_of,
    files_of,
    moves_of,
    ranges_in,
    ranges_out,
    read_report,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_ROUNDS = 4  # of parsing again: another driver may widen the table meanwhile


class Landed(NamedTuple):
    """One batch that became a version."""

    version: int
    rows: int
    bad_rows: int
    fetched_bytes: int
    files: int
    file_bytes: int
    seconds: float
    ends: dict[TopicPartition, int]


class Committer(Commits):
    """For one run of one table."""

    def __init__(
        self,
        job: Job,
        ready: Ready,
        *,
        landed: Callable[[Landed], None],
        publish: Callable[[dict[TopicPartition, int]], object],
    ) -> None:
        super().__init__()
        self._job = job
        self._table = ready.table
        self._dead = ready.dead
        self._replays = ready.replays
        self._landed = landed
        self._publish = publish

    def take(self, frame: "DataFrame", batch_id: int) -> None:  # noqa: ARG002
        began_s = time.monotonic()
        reports = [read_report(row[0]) for row in frame.collect()]
        with self.turn:
            if reports and self.takes_more:
                self.commit(frame.sparkSession, reports, began_s)

    def commit(
        self, spark: "SparkSession", reports: Sequence[Report], began_s: float
    ) -> Landed | None:
        """One version; None where the table had all of it."""
        schema, fitting = self._made_to_fit(spark, reports)
        moves = moves_of(fitting)
        done = self._commit_both(schema, fitting, moves)
        ends = {partition: move.end for partition, move in moves.items()}
        self._publish(ends)
        if not isinstance(done, Committed):
            for report in fitting:
                _discard(self._table, self._dead, report)
            return None
        files = files_of(fitting)
        landed = Landed(
            done.version,
            sum(report.rows for report in fitting),
            sum(report.bad_rows for report in fitting),
            sum(report.fetched_bytes for report in fitting),
            len(files),
            sum(file.size for file in files),
            time.monotonic() - began_s,
            ends,
        )
        self.rows += landed.rows + landed.bad_rows
        self._landed(landed)
        return landed

    def _commit_both(
        self, schema: "pa.Schema", reports: Sequence[Report], moves: Mapping[TopicPartition, Move]
    ) -> Committed | Already:
        """The dead letters, then the table."""
        group, replays = self._job.group, self._replays
        dead_files = dead_files_of(reports)
        letters = letters_in(self._dead.storage, [file.path for file in dead_files])
        proposal = commit_dead(
            self._dead, group, dead_files, moves, replays=replays,
            is_awaited=lambda: self._is_awaited(moves),
        )  # fmt: skip
        if proposal is None:
            return Already(self._table.version)
        check_stands(self._dead, proposal)
        try:
            done = self._table.commit(
                group, files_of(reports), moves, schema=schema, info={"topic": self._job.topic},
                marks=lambda versions: marks_with(group, versions, letters),
            )  # fmt: skip
        except Overtaken:
            withdraw(self._dead, group, proposal, moves, replays=replays)
            raise
        if isinstance(done, Already):
            withdraw(self._dead, group, proposal, moves, replays=replays)
        return done

    def _is_awaited(self, moves: Mapping[TopicPartition, Move]) -> bool:
        """Raises Overtaken."""
        self._table.refresh()
        return judge(self._table.offsets(self._job.group), moves) is Verdict.FITS

    def _made_to_fit(
        self, spark: "SparkSession", reports: Sequence[Report]
    ) -> tuple["pa.Schema", list[Report]]:
        """The reports, with those ranges parsed again whose files do not fit the others.

        The table has the columns then. A verdict on a row leans on them, so they bind before it
        counts: else of two drivers that infer different ones, one could take dead letters away for
        rows that the other then leaves out.
        """
        fitting = list(reports)
        for _ in range(_ROUNDS):
            self._table.refresh()
            schema, again = fit(self._table.schema, fitting)
            if not again:
                try:
                    self._table.widen(schema)
                except CannotWiden:
                    continue  # another driver's columns came first
                return schema, fitting
            renewed = land_again(spark, self._job, schema, [fitting[place] for place in again])
            for place, report in zip(again, renewed, strict=True):
                _discard(self._table, self._dead, fitting[place])
                fitting[place] = report
        raise AssertionError(f"{self._table.path}: files do not fit after {_ROUNDS} rounds")


def land_again(
    spark: "SparkSession", job: Job, schema: "pa.Schema", reports: Sequence[Report]
) -> list[Report]:
    """Another job over the same ranges, which holds to these columns."""
    text = columns_text(schema)
    told = [ranges_out(report.ranges) for report in reports]

    def work(ranges: Sequence[Sequence[object]]) -> str:
        with wrapped():
            return land(job, text, ranges_in(ranges), again=True).to_json()

    found = spark.sparkContext.parallelize(told, len(told)).map(work).collect()
    return [read_report(text) for text in found]


def _discard(table: Table, dead: Table, report: Report) -> None:
    discard(table.storage, report.files)
    discard(dead.storage, report.dead_files)
