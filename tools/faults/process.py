"""A child process whose output goes to a file, and which gets any signal."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from sawlog.server.parent_death import end_with_parent

END_S = 120.0
POLL_S = 0.02
PATIENCE_S = 300.0


def wait_for(is_so: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    """Poll a condition; AssertionError with `what` after `patience_s`."""
    deadline = time.monotonic() + patience_s
    while not is_so():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {patience_s:.0f} s still not so: {what}")
        time.sleep(POLL_S)


class Child:
    """One process at a time; its output is appended to the same file at every start."""

    def __init__(self, command: Sequence[str], output: Path) -> None:
        self.command = list(command)
        self.output = output
        self._process: subprocess.Popen[bytes] | None = None
        self._read_from = 0

    def start(self) -> None:
        self._read_from = self.output.stat().st_size if self.output.exists() else 0
        with self.output.open("ab") as sink:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
                preexec_fn=partial(end_with_parent, os.getpid()),  # noqa: PLW1509
            )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def text(self) -> str:
        """What the present process has written."""
        with self.output.open("rb") as file:
            file.seek(self._read_from)
            return file.read().decode(errors="replace")

    @property
    def all_lines(self) -> list[str]:
        """What all processes, from the first start on, have written."""
        return self.output.read_text(errors="replace").splitlines()

    def wait_for_text(self, text: str) -> None:
        def found() -> bool:
            assert self.is_running, f"ended before {text!r}:\n{self.text}"
            return text in self.text

        wait_for(found, f"{text!r} in {self.output}")

    def signal(self, number: int) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def end(self, number: int) -> int:
        """Send a signal that ends the process, and return its exit code."""
        self.signal(number)
        return self.wait()

    def wait(self) -> int:
        """Wait for the end of the process; AssertionError if it does not end."""
        assert self._process is not None
        try:
            return self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"not ended in {END_S} s:\n{self.text}") from None

    def kill(self) -> None:
        if self.is_running:
            self.end(signal.SIGKILL)
