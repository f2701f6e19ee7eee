"""A CleanerWorker on the event loop: the log cleaner's work in steps of one chunk.

The simulator uses it, so that a crash can happen between any two operations of a cleaning. The
server runs the same work in a process of its own; docs/decisions/0013 compares the two.
"""

from collections.abc import Callable, Generator
from typing import TypeVar

from sawlog.core.ports import Disk, DiskError, Timer
from sawlog.storage.batch_scan import Damage
from sawlog.storage.cleaner.cleaner_worker import CleanerFailure, OnCleaned, OnMapped
from sawlog.storage.cleaner.segment_cleaner import CleanRequest, MapRequest, SegmentCleaner

ResultT = TypeVar("ResultT")


class SteppedCleaner:
    """Runs one step of a request after the other; other events happen in between."""

    def __init__(self, disk: Disk, timer: Timer) -> None:
        self._disk = disk
        self._cleaner = SegmentCleaner()
        self._timer = timer
        self._is_stopped = False

    def build_map(self, request: MapRequest, done: OnMapped) -> None:
        self._run(self._cleaner.build_map(self._disk, request), done)

    def clean(self, request: CleanRequest, done: OnCleaned) -> None:
        self._run(self._cleaner.clean(self._disk, request), done)

    def stop(self) -> None:
        self._is_stopped = True

    def _run(
        self,
        steps: Generator[int, None, ResultT],
        done: Callable[[ResultT | CleanerFailure], None],
    ) -> None:
        def step() -> None:
            if self._is_stopped:
                return
            try:
                next(steps)
            except StopIteration as end:
                done(end.value)
            except Damage as damage:
                done(CleanerFailure.of(damage))
            except FileNotFoundError as error:
                done(CleanerFailure(f"{error}: the file is missing"))
            except DiskError as error:
                done(CleanerFailure(str(error)))
            else:
                self._timer.after(0, step)

        self._timer.after(0, step)
