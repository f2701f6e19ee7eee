"""Run a command on a pseudo-terminal: type input, read the screen."""

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping

TIMEOUT_S = 60
END_OF_INPUT = b"\x04"


class Terminal:
    """`sawlog` with stdin, stdout and stderr on one terminal; `shown` is the screen so far."""

    def __init__(self, *arguments: str, environment: Mapping[str, str]) -> None:
        self._screen, inside = pty.openpty()
        settings = termios.tcgetattr(inside)
        settings[3] &= ~termios.ECHO  # lflags: the screen then has only the output of the command
        termios.tcsetattr(inside, termios.TCSANOW, settings)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sawlog", *arguments],
            stdin=inside,
            stdout=inside,
            stderr=inside,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm", **environment},
        )
        os.close(inside)
        self.shown = b""

    def type(self, text: bytes) -> None:
        os.write(self._screen, text)

    def read_until(self, words: str) -> None:
        """Wait until the screen shows `words`; AssertionError if the command ends before."""
        while words.encode() not in self.shown:
            assert self._read(), self.shown

    def interrupt(self) -> int:
        """Send SIGINT and return the exit code."""
        self._process.send_signal(signal.SIGINT)
        return self.end()

    def end(self) -> int:
        """Wait for the end of the command, read all its output, return the exit code."""
        while self._read():
            pass
        return self._process.wait(TIMEOUT_S)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._screen)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._screen], [], [], TIMEOUT_S)
        assert ready, f"no more output after {self.shown!r}"
        with contextlib.suppress(OSError):  # EIO: the other side is closed
            piece = os.read(self._screen, 65_536)
            self.shown += piece
            return bool(piece)
        return False


@contextlib.contextmanager
def terminal(*arguments: str, bootstrap: str) -> Iterator[Terminal]:
    opened = Terminal(*arguments, environment={"SAWLOG_BOOTSTRAP": bootstrap})
    try:
        yield opened
    finally:
        opened.close()
