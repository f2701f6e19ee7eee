"""How far the batches in flight are: what their tasks have reported. Pure; time is passed in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class BatchProgress(NamedTuple):
    """How much of a batch was read, in offsets: gaps in the log count as records.

    With `read == planned` the batch is being written, merged or committed. The rate counts from the
    first report of a task; it is 0 while there is none.
    """

    read: int
    planned: int
    seconds: float
    records_per_s: float


@dataclass(slots=True)
class _Batch:
    planned: Mapping[int, int]  # by task
    began_s: float
    read: dict[int, int] = field(default_factory=dict)
    first_report_s: float | None = None
    read_s: float | None = None  # when all was read

    def progress(self, now_s: float) -> BatchProgress:
        planned = sum(self.planned.values())
        read = planned if self.read_s is not None else sum(self.read.values())
        rate = 0.0
        if self.first_report_s is not None:
            end_s = now_s if self.read_s is None else self.read_s
            rate = read / max(end_s - self.first_report_s, 1e-3)
        return BatchProgress(read, planned, now_s - self.began_s, rate)


class BatchesInFlight:
    """The batches in flight: at most one of a table, each with tasks of its own."""

    def __init__(self) -> None:
        self._batches: dict[str, _Batch] = {}

    def began(self, table: str, planned: Mapping[int, int], now_s: float) -> None:
        """A batch begins; `planned` has the offsets of each of its tasks."""
        self._batches[table] = _Batch(planned, now_s)

    def reported(self, task: int, read: int, now_s: float) -> None:
        """A task has read this much; less than before if it was started again.

        Reports of other tasks, such as late ones of batches that have ended, are ignored.
        """
        for batch in self._batches.values():
            if task in batch.planned:
                if batch.first_report_s is None:
                    batch.first_report_s = now_s
                batch.read[task] = min(read, batch.planned[task])

    def all_read(self, table: str, now_s: float) -> None:
        """All tasks of the batch have ended."""
        self._batches[table].read_s = now_s

    def ended(self, table: str) -> None:
        """The batch was committed, or has failed; no effect if there is none."""
        self._batches.pop(table, None)

    def progress(self, now_s: float) -> dict[str, BatchProgress]:
        """The progress of all batches in flight."""
        return {table: batch.progress(now_s) for table, batch in self._batches.items()}
