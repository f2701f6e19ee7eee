"""A task of a job that several tables share: its failure is a result, not an exception.

An exception would fail the job, and with it the batches of the other tables. Spark repeats a task
only if its worker or executor dies.
"""

import gc
import sys
import traceback
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from sawlog.pipeline.delta.table_path import NO_OPTIONS, StorageOptions
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure, classify, parse_failure
from sawlog.pipeline.landing.task.landing_task import land_ranges, read_parameters
from sawlog.pipeline.landing.task.progress_report import ProgressAddress, ProgressSender
from sawlog.pipeline.landing.task.task_report import TaskReport, read_report
from sawlog.pipeline.source.batch_planning import OffsetRange


class TableTask(NamedTuple):
    """Ranges of one table; `parameters` and `columns` are JSON, as `land_ranges` takes them.

    `number` identifies the task in the progress that it reports; no other task of a run has it.
    """

    table: str
    parameters: str
    columns: str
    ranges: tuple[OffsetRange, ...]
    number: int = 0

    @property
    def planned(self) -> int:
        return sum(part.size for part in self.ranges)


class TaskResult(NamedTuple):
    """Either a report as JSON, or the kind and message of a failure."""

    table: str
    report: str | None
    failure: tuple[str, str] | None

    def read(self) -> TaskReport | LandingFailure:
        if self.report is not None:
            return read_report(self.report)
        assert self.failure is not None, self
        kind, message = self.failure
        return LandingFailure(FailureKind(kind), message)


class TaskOptions(NamedTuple):
    """Options of the lake, by table those of its schema registry, and where progress is sent."""

    lake: StorageOptions = NO_OPTIONS
    registries: Mapping[str, StorageOptions] = {}
    progress: ProgressAddress | None = None


_NO_OPTIONS = TaskOptions()


def run_task(task: TableTask, options: TaskOptions = _NO_OPTIONS) -> TaskResult:
    """Land the ranges of a task, in a Python worker of Spark."""
    progress = ProgressSender(options.progress, task.number, task.planned)
    try:
        registry = options.registries.get(task.table, NO_OPTIONS)
        parameters = read_parameters(task.parameters, options.lake, registry)
        report = land_ranges(parameters, task.columns, task.ranges, progress=progress.report)
    except Exception as error:
        traceback.print_exc(file=sys.stderr)  # shown with --verbose
        failure = classify(error)
        if failure.kind is FailureKind.OTHER:
            failure = parse_failure(traceback.format_exc())
        return TaskResult(task.table, None, (failure.kind.value, failure.message))
    finally:
        progress.close()
    _exempt_modules_from_collection(len(sys.modules))
    return TaskResult(task.table, report.to_json(), None)


@cache
def _exempt_modules_from_collection(count: int) -> None:  # noqa: ARG001
    """Freeze the objects of all modules, whose number is `count`.

    PySpark collects garbage after every task, which takes 50 ms for the objects of numba, pyarrow
    and numpy: many times the work of a small task.
    """
    gc.collect()
    gc.freeze()
