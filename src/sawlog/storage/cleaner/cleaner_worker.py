"""The interface between the log cleaner and the worker that does its reading and writing.

`server/cleaner_process.py` runs it in a process of its own, `simulation/stepped_cleaner.py` in
steps on the event loop; the reasons are in docs/decisions/0013.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sawlog.storage.batch_scan import Damage, UnreadableRecords
from sawlog.storage.cleaner.segment_cleaner import (
    CleanRequest,
    CleanResult,
    MapRequest,
    MapResult,
)


@dataclass(frozen=True, slots=True)
class CleanerFailure:
    """Why a worker has no result.

    Damage stays until the log is repaired; any other failure (disk full, the worker was killed) may
    be over at the next attempt. `path` is the segment file with a corrupt batch, empty without one.
    """

    reason: str
    is_damage: bool = False
    path: str = ""

    @classmethod
    def of(cls, damage: Damage) -> "CleanerFailure":
        is_corrupt = not isinstance(damage, UnreadableRecords)
        return cls(str(damage), is_damage=True, path=damage.file.path if is_corrupt else "")


OnMapped = Callable[[MapResult | CleanerFailure], None]
OnCleaned = Callable[[CleanResult | CleanerFailure], None]


class CleanerWorker(Protocol):
    """Does one request at a time; the results of a log share its offset map.

    `done` is called once, later, and never after `stop`.
    """

    def build_map(self, request: MapRequest, done: OnMapped) -> None: ...

    def clean(self, request: CleanRequest, done: OnCleaned) -> None: ...

    def stop(self) -> None:
        """End the work at once and free its memory; unfinished `.cleaned` files may be left."""
        ...


StartWorker = Callable[[float], CleanerWorker]
"""Starts a worker that reads and writes at most so many bytes per second."""
