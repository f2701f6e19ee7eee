"""Progress of a running pipeline: a bar per table and a line per batch.

Everything goes to stderr; if that is not a terminal, there are lines only.
"""

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sawlog.cli.output import counted, note

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.progress import Progress, TaskID

    from sawlog.pipeline.landing.configuration.pipeline_config import PipelineConfig
    from sawlog.pipeline.landing.driver.driver_records import RunState
    from sawlog.pipeline.landing.driver.events import Events, LandedBatch
    from sawlog.pipeline.landing.failures import LandingFailure
    from sawlog.pipeline.landing.planning.batch_progress import BatchProgress

BATCH_LINE_S = 5.0  # between two lines about batches in flight
_NAMED_TABLES = 3  # more have one line together


class ProgressLines:
    """Progress as lines, for a file, a pipe or a journal."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: dict[str, int] = {}
        self._batches: dict[str, tuple[float, BatchProgress]] = {}  # and when it was reported
        self._batch_line_s = time.monotonic()

    def report(self, table: str, text: str) -> None:
        self._line(f"{table}: {text}")

    def batch_progressed(self, table: str, progress: "BatchProgress") -> None:
        """Print a line about long batches now and then; short ones have none."""
        now_s = time.monotonic()
        self._batches[table] = (now_s, progress)
        if now_s >= self._batch_line_s + BATCH_LINE_S:
            batches = self._batches_in_flight(now_s)
            for line in describe_batches(batches, BATCH_LINE_S):
                self._line(line)
                self._batch_line_s = now_s

    def _batches_in_flight(self, now_s: float) -> "dict[str, BatchProgress]":
        """Without batches that have ended otherwise than by landing: they are not reported."""
        return {
            table: batch
            for table, (at_s, batch) in self._batches.items()
            if now_s < at_s + BATCH_LINE_S
        }

    def batch_landed(self, table: str, batch: "LandedBatch", done: int) -> None:
        self._batches.pop(table, None)
        ends = self._ends.get(table)
        self._line(describe(table, batch, None if ends is None else max(0, ends - done)))

    def progress_measured(self, table: str, done: int, ends: int) -> None:  # noqa: ARG002
        self._ends[table] = ends

    def state_changed(
        self, table: str, state: "RunState", failure: "LandingFailure | None" = None
    ) -> None:
        """Nothing to print: `report` has said it."""

    def _line(self, text: str) -> None:
        with self._lock:
            note(text)


class ProgressBars(ProgressLines):
    """Progress bars with the lines above them, for a terminal."""

    def __init__(self, progress: "Progress", tables: list[str]) -> None:
        super().__init__()
        self._progress = progress
        self._done: dict[str, int] = {}
        self._tasks: dict[str, TaskID] = {
            name: progress.add_task(name, total=None, rate="", lag="") for name in tables
        }

    def batch_progressed(self, table: str, progress: "BatchProgress") -> None:
        self._batches[table] = (time.monotonic(), progress)
        is_read = progress.read == progress.planned
        rate = "committing" if is_read else f"{progress.records_per_s:,.0f} records/s"
        self._progress.update(self._tasks[table], completed=self._completed(table), rate=rate)

    def batch_landed(self, table: str, batch: "LandedBatch", done: int) -> None:
        super().batch_landed(table, batch, done)
        self._done[table] = done
        rate = f"{(batch.rows + batch.bad_rows) / max(batch.seconds, 1e-3):,.0f} rows/s"
        self._progress.update(self._tasks[table], completed=done, rate=rate)

    def progress_measured(self, table: str, done: int, ends: int) -> None:
        super().progress_measured(table, done, ends)
        self._done[table] = done
        lag = f"lag {max(0, ends - done):,}"
        completed = self._completed(table)
        self._progress.update(self._tasks[table], completed=completed, total=ends, lag=lag)

    def _completed(self, table: str) -> int:
        """What the table has, and what was read of its next batch."""
        batch = self._batches_in_flight(time.monotonic()).get(table)
        return self._done.get(table, 0) + (0 if batch is None else batch.read)

    def _line(self, text: str) -> None:
        self._progress.console.print(text, highlight=False, markup=False)


def describe(table: str, batch: "LandedBatch", lag: int | None) -> str:
    """One line about one batch."""
    rows = batch.rows + batch.bad_rows
    parts = [
        time.strftime("%H:%M:%S"),
        f"{table} v{batch.version}:",
        f"{batch.rows:,} rows,",
        f"{batch.bad_rows:,} bad," if batch.bad_rows else "",
        f"{batch.fetched_bytes / 1e6:,.1f} MB",
        f"-> {counted(batch.files, 'file')},",
        f"{batch.file_bytes / 1e6:,.1f} MB,",
        f"{batch.seconds:.1f} s,",
        f"{rows / max(batch.seconds, 1e-3):,.0f} rows/s",
        "" if lag is None else f"(lag {lag:,})",
    ]
    return " ".join(part for part in parts if part)


def describe_batches(batches: "Mapping[str, BatchProgress]", least_s: float) -> list[str]:
    """Lines about the batches that have taken `least_s` seconds so far."""
    long = {table: batch for table, batch in batches.items() if batch.seconds >= least_s}
    if len(long) <= _NAMED_TABLES:
        return [f"{table}: {_describe_batch(batch)}" for table, batch in sorted(long.items())]
    read = sum(batch.read for batch in long.values())
    planned = sum(batch.planned for batch in long.values())
    return [f"{len(long)} tables: {read:,} of {planned:,} records read"]


def _describe_batch(batch: "BatchProgress") -> str:
    if not batch.read:
        return f"reading {batch.planned:,} records, {batch.seconds:.0f} s"
    if batch.read == batch.planned:
        return f"{batch.planned:,} records read, committing, {batch.seconds:.0f} s"
    return (
        f"{batch.read:,} of {batch.planned:,} records read ({batch.read / batch.planned:.0%}),"
        f" {batch.records_per_s:,.0f} records/s"
    )


@contextmanager
def progress_output(pipeline: "PipelineConfig") -> "Iterator[Events]":
    """Bars on a terminal, else lines."""
    if not sys.stderr.isatty():
        yield ProgressLines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[lag]}"),
        TextColumn("{task.fields[rate]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield ProgressBars(progress, [table.name for table in pipeline.tables])
