"""Compacts tables in a child process of the driver, with the lowest priority and on one core.

A Spark task would take a core from the landings while it runs. The child gets its tables through
its stdin, since their paths carry the options of the lake, and prints a line of JSON for each.
"""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple, Self

import pyarrow as pa

from sawlog.pipeline.delta.compaction import compact_tiers
from sawlog.pipeline.delta.table_path import TablePath

_LOWEST_PRIORITY = 19


class CompactionTask(NamedTuple):
    name: str
    path: TablePath
    small_files: int
    target_bytes: int


class Compacted(NamedTuple):
    """The result for one table; with an error nothing is known about the rest."""

    name: str
    files_before: int = 0
    files_after: int = 0
    error: str | None = None


class CompactionProcess:
    """A running child; iterate over the results. It is killed at the end of the block."""

    def __init__(self, tasks: Sequence[CompactionTask]) -> None:
        self._tasks = list(tasks)
        self._child = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the driver
        )
        self._was_killed = False
        assert self._child.stdin is not None
        # A child that has exited already is found by its exit code.
        with suppress(BrokenPipeError), self._child.stdin as stdin:
            pickle.dump(self._tasks, stdin)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._child.wait()
        if self._child.stdout is not None:
            self._child.stdout.close()

    def kill(self) -> None:
        """End it in the middle of a merge; its files are vacuumed later."""
        self._was_killed = True
        self._child.kill()

    def __iter__(self) -> Iterator[Compacted]:
        """The results; a child that dies of itself leaves an error for the table it was at."""
        assert self._child.stdout is not None
        left = [task.name for task in self._tasks]
        for line in self._child.stdout:
            left.pop(0)
            yield Compacted(*json.loads(line))
        code = self._child.wait()
        if left and not self._was_killed:
            yield Compacted(left[0], error=f"the process ended with exit code {code}")


def run_tasks(tasks: Sequence[CompactionTask]) -> Iterator[Compacted]:
    """Compact one table after another; the error of one does not keep the others back."""
    for name, path, small_files, target_bytes in tasks:
        try:
            done = compact_tiers(path, small_files, target_bytes)
        except Exception as error:
            yield Compacted(name, error=str(error) or type(error).__name__)
        else:
            yield Compacted(name, done.files_before, done.files_after)


def main() -> None:
    """Run the tasks of stdin."""
    os.nice(_LOWEST_PRIORITY)
    pa.set_cpu_count(1)
    for done in run_tasks(pickle.load(sys.stdin.buffer)):
        print(json.dumps(done), flush=True)


if __name__ == "__main__":
    main()
