"""A command on a pseudo-terminal: what a person types, and all that the screen shows."""

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
    """`sawlog` with stdin, stdout and stderr on one terminal; `shown` is what was read of it."""

    def __init__(self, *arguments: str, environment: Mapping[str, str]) -> None:
        self._screen, inside = pty.openpty()
        settings = termios.tcgetattr(inside)
        settings[3] &= ~termios.ECHO  # lflags: the screen then holds what the command wrote
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
        """Returns when the screen shows `words`; AssertionError where it never does."""
        while words.encode() not in self.shown:
            assert self._read(), self.shown

    def interrupt(self) -> int:
        """Ctrl-C, and the exit code."""
        self._process.send_signal(signal.SIGINT)
        return self.end()

    def end(self) -> int:
        """The exit code, when the command has ended and all that it wrote is in `shown`."""
        while self._read():
            pass
        return self._process.wait(TIMEOUT_S)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._screen)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._screen], [], [], TIMEOUT_S)
        assert ready, f"nothing more is shown after {self.shown!r}"
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
