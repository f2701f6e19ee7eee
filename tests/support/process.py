"""A server under test as a child process: its output, exit code, memory and descriptors."""

import collections
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

START_TIMEOUT_S = 300
STOP_TIMEOUT_S = 180
DUMP_TIMEOUT_S = 10
PATIENCE_S = 600.0
KEEP_OLD_RECORDS = {"log.retention.check.interval.ms": str(24 * 60 * 60 * 1000)}
"""No retention by time: tests write records with old timestamps."""


class ServerProcess:
    """A child process whose output is read by a thread, so that it never blocks on the pipe."""

    def __init__(self, command: Sequence[str], *, cwd: Path | None = None) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd=cwd,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"},
        )
        self.pid = self._process.pid
        self._lines: collections.deque[str] = collections.deque(maxlen=20_000)
        self._changed = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        """Read the pipe to its end and close it: other threads may wait for the process at once."""
        assert self._process.stdout is not None
        with self._process.stdout:
            for line in self._process.stdout:
                with self._changed:
                    self._lines.append(line.rstrip("\n"))
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    @property
    def lines(self) -> list[str]:
        with self._changed:
            return list(self._lines)

    def wait_for_line(self, pattern: str, timeout_s: float = START_TIMEOUT_S) -> re.Match[str]:
        """Wait for a line that matches; AssertionError if the process ends before."""
        found: list[re.Match[str]] = []

        def look() -> bool:
            match = next((m for line in self._lines if (m := re.search(pattern, line))), None)
            if match:
                found.append(match)
            return bool(found) or self._ended

        with self._changed:
            self._changed.wait_for(look, timeout_s)
        if not found:
            self.kill()
            raise AssertionError(f"no line like {pattern!r} from {self.pid}:\n{self.output}")
        return found[0]

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def terminate(self) -> int:
        """Send SIGTERM; return the exit code."""
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        return self.wait()

    def kill(self) -> None:
        """Send SIGKILL and wait for the process to end."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self.wait()

    def wait(self) -> int:
        try:
            code = self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._dump_threads()
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"{self.pid} did not stop in time:\n{self.output}") from None
        self._reader.join(STOP_TIMEOUT_S)
        return code

    def _dump_threads(self) -> None:
        """Let a Python process that hangs write where its threads are, and abort."""
        if self._process.args[0] == sys.executable:  # type: ignore[index]
            self._process.send_signal(signal.SIGABRT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(DUMP_TIMEOUT_S)
            self._reader.join(DUMP_TIMEOUT_S)

    def rss_bytes(self) -> int:
        return int(psutil.Process(self.pid).memory_info().rss)

    def open_files(self) -> int:
        return int(psutil.Process(self.pid).num_fds())


def wait_until(
    is_so: Callable[[], bool], *processes: ServerProcess, patience_s: float = PATIENCE_S
) -> None:
    """Poll a condition without taking the processor from the processes that it depends on.

    Raises AssertionError with the output of the processes after `patience_s`.
    """
    deadline = time.monotonic() + patience_s
    while not is_so():
        said = "\n".join(process.output for process in processes)
        assert time.monotonic() < deadline, f"it did not become so in {patience_s} s:\n{said}"
        time.sleep(0.05)


def is_alive(process: psutil.Process) -> bool:
    """Whether a process, of any parent, exists and has not ended."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
