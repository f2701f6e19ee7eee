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
    from collections.abc import Iterator

    from rich.progress import Progress, TaskID

    from sawlog.pipeline.landing.configuration.pipeline_config import PipelineConfig
    from sawlog.pipeline.landing.driver.driver_records import RunState
    from sawlog.pipeline.landing.driver.events import Events, LandedBatch
    from sawlog.pipeline.landing.failures import LandingFailure


class ProgressLines:
    """Progress as lines, for a file, a pipe or a journal."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: dict[str, int] = {}

    def report(self, table: str, text: str) -> None:
        self._line(f"{table}: {text}")

    def batch_landed(self, table: str, batch: "LandedBatch", done: int) -> None:
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
        self._tasks: dict[str, TaskID] = {
            name: progress.add_task(name, total=None, rate="", lag="") for name in tables
        }

    def batch_landed(self, table: str, batch: "LandedBatch", done: int) -> None:
        super().batch_landed(table, batch, done)
        rate = f"{(batch.rows + batch.bad_rows) / max(batch.seconds, 1e-3):,.0f} rows/s"
        self._progress.update(self._tasks[table], rate=rate)

    def progress_measured(self, table: str, done: int, ends: int) -> None:
        super().progress_measured(table, done, ends)
        lag = f"lag {max(0, ends - done):,}"
        self._progress.update(self._tasks[table], completed=done, total=ends, lag=lag)

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
