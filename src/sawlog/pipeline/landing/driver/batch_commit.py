"""Commits a batch on the driver: task reports in, one version of the table with its rows out.

Ranges whose files conflict with others are parsed again. New columns are committed in a version of
their own. The files of a keyed table are merged. Then come the dead letters, if there are any to
add or replace, the rows and offsets, and last the offsets of the consumer group, for monitoring
only. The driver may die between any two steps: the next run starts from the offsets in the table.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from sawlog.core.ids import TopicPartition
from sawlog.pipeline.delta.data_files import decode_path, delete_uncommitted
from sawlog.pipeline.delta.delta_log import ActiveFile
from sawlog.pipeline.delta.errors import FileConflict, OffsetConflict, SchemaMismatch
from sawlog.pipeline.delta.landed_offsets import OffsetCheck, OffsetSpan, check_offsets
from sawlog.pipeline.delta.merge import MergeTask, merge_changes
from sawlog.pipeline.delta.table import (
    AlreadyCommitted,
    CommittedVersion,
    ReplacedFiles,
    Table,
)
from sawlog.pipeline.delta.widening import is_exact, widened_schema
from sawlog.pipeline.landing.driver.dead_letter_counts import count_dead_letters, counts_after_batch
from sawlog.pipeline.landing.driver.dead_letters import (
    check_unchanged,
    commit_dead_letters,
    revert_dead_letters,
)
from sawlog.pipeline.landing.driver.events import LandedBatch
from sawlog.pipeline.landing.driver.landed_tables import widen_columns
from sawlog.pipeline.landing.driver.schema_merge import distinct_schemas, merge_task_schemas
from sawlog.pipeline.landing.driver.table_setup import PreparedTable
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure, tagged_failures
from sawlog.pipeline.landing.task.landing_task import (
    LandingParameters,
    columns_text,
    land_ranges,
    merge_inferred,
)
from sawlog.pipeline.landing.task.task_report import (
    TaskReport,
    batch_spans,
    changes_of,
    data_files,
    dead_letter_files,
    ranges_from_json,
    ranges_to_json,
    read_report,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext

    from sawlog.pipeline.delta.data_files import DataFile

_MERGES = 20  # attempts; each failed one is another writer's commit
_REWRITE_TASKS = 64
Result = TypeVar("Result")
_ROUNDS = 4  # of parsing again; another driver may add columns meanwhile


class LandingCommitter:
    """Commits the batches of one run of one landed table, one at a time."""

    def __init__(
        self,
        parameters: LandingParameters,
        ready: PreparedTable,
        *,
        landed: Callable[[LandedBatch], None],
        commit_to_group: Callable[[dict[TopicPartition, int]], object],
    ) -> None:
        self._parameters = parameters
        self._table = ready.table
        self._dead = ready.dead
        self._replays = ready.replays
        self._landed = landed
        self._commit_to_group = commit_to_group

    def commit(
        self, context: "SparkContext", reports: Sequence[TaskReport], began_s: float
    ) -> LandedBatch | None:
        """Commit a batch as one version; None if the table already has it."""
        schema, fitting = self._fit_schemas(context, reports)
        spans = batch_spans(fitting)
        if self._parameters.upsert is None:
            files: Sequence[DataFile] = data_files(fitting)
            done = self._commit_tables(schema, fitting, spans, files)
        else:
            done, files = self._merge(context, schema, fitting, spans, self._parameters.upsert.key)
        ends = {partition: span.end for partition, span in spans.items()}
        self._commit_to_group(ends)
        if not isinstance(done, CommittedVersion):
            self._discard(fitting)
            return None
        landed = LandedBatch(
            done.version,
            sum(report.rows for report in fitting),
            sum(report.bad_rows for report in fitting),
            sum(report.fetched_bytes for report in fitting),
            len(files),
            sum(file.size for file in files),
            time.monotonic() - began_s,
            ends,
        )
        self._landed(landed)
        return landed

    def _merge(
        self,
        context: "SparkContext",
        schema: "pa.Schema",
        reports: Sequence[TaskReport],
        spans: Mapping[TopicPartition, OffsetSpan],
        keys: Sequence[str],
    ) -> tuple[CommittedVersion | AlreadyCommitted, Sequence["DataFile"]]:
        """Merge a batch into a keyed table and commit it; returns the files that it added."""
        table, changes = self._table, changes_of(reports)
        assert isinstance(table, Table), "keyed tables are Delta tables"

        def run(work: Callable[[MergeTask], str], tasks: Sequence[MergeTask]) -> Sequence[str]:
            return context.parallelize(tasks, len(tasks)).map(_tagged(work)).collect()

        for _ in range(_MERGES):
            if not self._is_next(spans):
                return AlreadyCommitted(table.version), ()
            cores = context.defaultParallelism
            merged = merge_changes(table, schema, changes, keys, run, cores)
            try:
                done = self._commit_tables(schema, reports, spans, merged.added, merged.replaced)
            except FileConflict:
                delete_uncommitted(table.storage, merged.written)
                continue
            if isinstance(done, AlreadyCommitted):
                delete_uncommitted(table.storage, merged.written)
            else:
                added = {file.path for file in merged.added}
                for file in (*changes.rows, *changes.deletes):
                    if file.path not in added:
                        table.storage.delete(decode_path(file.path))
            return done, merged.added
        raise LandingFailure(
            FailureKind.CONFLICT,
            f"others wrote to {table.path} {_MERGES} times before this driver could",
        )

    def _commit_tables(
        self,
        schema: "pa.Schema",
        reports: Sequence[TaskReport],
        spans: Mapping[TopicPartition, OffsetSpan],
        files: Sequence["DataFile"],
        replaced: ReplacedFiles | None = None,
    ) -> CommittedVersion | AlreadyCommitted:
        """Commit the dead letters, then the table."""
        group, replays = self._parameters.group, self._replays
        dead_files = dead_letter_files(reports)
        counts = count_dead_letters(self._dead.storage, [file.path for file in dead_files])
        dead_letter_commit = commit_dead_letters(
            self._dead, group, dead_files, spans, replays=replays,
            is_next=lambda: self._is_next(spans),
        )  # fmt: skip
        if dead_letter_commit is None:
            return AlreadyCommitted(self._table.version)
        check_unchanged(self._dead, dead_letter_commit)
        try:
            done = self._table.commit(
                group, files, spans, schema=schema, replaced=replaced,
                info={"topic": ", ".join(sorted({tp.topic for tp in spans}))},
                more_txn_versions=lambda versions: counts_after_batch(group, versions, counts),
            )  # fmt: skip
        except (OffsetConflict, FileConflict, SchemaMismatch) as error:
            revert_dead_letters(self._dead, group, dead_letter_commit, spans, replays=replays)
            if isinstance(error, SchemaMismatch):  # another driver widened a column meanwhile
                raise LandingFailure(FailureKind.CONFLICT, str(error)) from error
            raise
        if isinstance(done, AlreadyCommitted):
            revert_dead_letters(self._dead, group, dead_letter_commit, spans, replays=replays)
        return done

    def _is_next(self, spans: Mapping[TopicPartition, OffsetSpan]) -> bool:
        """Whether the batch is still the next one. Raises OffsetConflict."""
        self._table.refresh()
        return check_offsets(self._table.offsets(self._parameters.group), spans) is OffsetCheck.NEXT

    def _fit_schemas(
        self, context: "SparkContext", reports: Sequence[TaskReport]
    ) -> tuple["pa.Schema", list[TaskReport]]:
        """Parse ranges again whose files conflict with the others, and add new columns to the
        table.

        Whether a row is a dead letter depends on the columns, so the columns are committed first.
        Otherwise, of two drivers that infer different columns, one could delete dead letters for
        rows that the other leaves out.
        """
        fitting = self._widen_columns(context, reports)
        for _ in range(_ROUNDS):
            self._table.refresh()
            schema, to_reparse = merge_task_schemas(self._table.schema, fitting)
            if not to_reparse:
                try:
                    self._table.evolve_schema(schema)
                except SchemaMismatch:
                    continue  # another driver added conflicting columns first
                return schema, fitting
            self._renew(context, schema, fitting, to_reparse)
        raise AssertionError(f"{self._table.path}: files do not fit after {_ROUNDS} rounds")

    def _widen_columns(
        self, context: "SparkContext", reports: Sequence[TaskReport]
    ) -> list[TaskReport]:
        """Make bigint columns double that have met fractions, if all their integers are exact, and
        parse the ranges with these fractions again.

        Otherwise the fractions stay dead letters. Parsing again may find more such columns.
        """
        fitting = list(reports)
        for _ in range(_ROUNDS):
            paths = {path for report in fitting for path in report.widen}
            if not paths or not self._try_widening(context, paths, fitting):
                break
            to_reparse = [place for place, report in enumerate(fitting) if report.widen]
            found = distinct_schemas(data_files(fitting))
            schema = merge_inferred(self._table.schema, found)
            self._renew(context, schema, fitting, to_reparse, columns_are_final=False)
        return fitting

    def _try_widening(
        self, context: "SparkContext", paths: set[str], reports: Sequence[TaskReport]
    ) -> bool:
        """Widen those of the columns that can be; False if there is none."""
        self._table.refresh()
        widened = False
        upsert = self._parameters.upsert
        for path in sorted(paths - set(upsert.key if upsert else ())):  # no key is a double
            wide = widened_schema(self._table.schema, [path])
            if all(is_exact(self._table.storage, file, wide) for file in data_files(reports)):
                widened |= widen_columns(self._table, [path], partial(_run_tasks, context))
        return widened

    def _renew(
        self,
        context: "SparkContext",
        schema: "pa.Schema",
        reports: list[TaskReport],
        places: Sequence[int],
        *,
        columns_are_final: bool = True,
    ) -> None:
        """Replace reports by those of parsing their ranges again."""
        renewed = parse_again(
            context, self._parameters, schema, [reports[place] for place in places],
            columns_are_final=columns_are_final,
        )  # fmt: skip
        self._discard([reports[place] for place in places])
        for place, report in zip(places, renewed, strict=True):
            reports[place] = report

    def _discard(self, reports: Sequence[TaskReport]) -> None:
        """Delete the files of tasks whose ranges were parsed again, or had landed already."""
        self._table.delete_uncommitted(
            [file for report in reports for file in (*report.files, *report.delete_files)]
        )
        self._dead.delete_uncommitted(dead_letter_files(reports))


def parse_again(
    context: "SparkContext",
    parameters: LandingParameters,
    schema: "pa.Schema",
    reports: Sequence[TaskReport],
    *,
    columns_are_final: bool = True,
) -> list[TaskReport]:
    """Run a Spark job that parses the ranges again with these columns, and no others if they are
    final.
    """
    text = columns_text(schema)
    ranges = [ranges_to_json(report.ranges) for report in reports]

    def work(share: Sequence[Sequence[object]]) -> str:
        with tagged_failures():
            return land_ranges(
                parameters, text, ranges_from_json(share), columns_are_final=columns_are_final
            ).to_json()

    found = context.parallelize(ranges, len(ranges)).map(work).collect()
    return [read_report(text) for text in found]


def _run_tasks(
    context: "SparkContext", work: Callable[[ActiveFile], Result], files: Sequence[ActiveFile]
) -> list[Result]:
    """Rewrite files in Spark."""
    if not files:
        return []
    return list(
        context.parallelize(list(files), min(len(files), _REWRITE_TASKS)).map(work).collect()
    )


def _tagged(work: Callable[[MergeTask], str]) -> Callable[[MergeTask], str]:
    """The function of a task whose failures the driver recognises."""

    def tagged(task: MergeTask) -> str:
        with tagged_failures():
            return work(task)

    return tagged
