"""The log cleaner's worker as a process: started on demand, driven over two pipes.

The process (`cleaner_main.py`) has a lower priority, so the event loop keeps its core. It does one
request at a time, and a request writes one group of `.cleaned` files: a worker whose broker was
killed cannot touch the files of the next one. `stop` kills it, which also frees its memory.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable

from sawlog.core.event_logger import EventLogger
from sawlog.core.ports import DiskError, Timer
from sawlog.server import cleaner_messages
from sawlog.storage.cleaner.cleaner_worker import CleanerFailure, OnCleaned, OnMapped
from sawlog.storage.cleaner.segment_cleaner import CleanRequest, CleanResult, MapRequest, MapResult

logger = EventLogger(__name__)

MODULE = "sawlog.server.cleaner_main"
REAP_MS = 20
OWN_GROUP = 0
"""A process group of its own: Ctrl-C at the terminal is for the broker only. It stays in the
broker's session, so that the group is orphaned when the broker ends: the kernel sends SIGHUP and
SIGCONT to a worker that was stopped (SIGSTOP) before it called `end_with_parent`. A group that
begins a session is orphaned from the start, and such a worker would stay."""
_READ_BYTES = 1 << 16

Result = MapResult | CleanResult | CleanerFailure


class CleanerProcess:
    """A CleanerWorker. Invariant: at most one request is in flight."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        timer: Timer,
        data_directory: str,
        bytes_per_second: float,
    ) -> None:
        """Start the process; DiskError if that fails."""
        self._loop = loop
        self._timer = timer
        self._done: Callable[[Result], None] | None = None
        self._received = bytearray()
        self._to_send = memoryview(b"")
        self._is_stopped = False
        self._has_ended = False
        try:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    MODULE,
                    data_directory,
                    repr(bytes_per_second),
                    str(os.getpid()),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                process_group=OWN_GROUP,
            )
        except OSError as error:
            raise DiskError(data_directory, f"cannot start a process: {error}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin = self._process.stdin.fileno()
        self._stdout = self._process.stdout.fileno()
        os.set_blocking(self._stdin, False)
        os.set_blocking(self._stdout, False)
        loop.add_reader(self._stdout, self._readable)

    @property
    def process_id(self) -> int:
        return self._process.pid

    def build_map(self, request: MapRequest, done: OnMapped) -> None:
        self._request(cleaner_messages.encode_request(request), done)

    def clean(self, request: CleanRequest, done: OnCleaned) -> None:
        self._request(cleaner_messages.encode_request(request), done)

    def stop(self) -> None:
        if not self._is_stopped:
            self._is_stopped = True
            self._done = None
            self._loop.remove_reader(self._stdout)
            self._loop.remove_writer(self._stdin)
            self._process.kill()
            self._reap()

    def _request(self, line: bytes, done: Callable[..., None]) -> None:
        assert self._done is None
        self._done = done
        if self._has_ended:  # while it had nothing to do
            self._timer.after(0, self._report_end)
            return
        self._to_send = memoryview(line)
        self._writable()

    def _writable(self) -> None:
        """Send what the pipe takes; the rest when it has room again."""
        try:
            self._to_send = self._to_send[os.write(self._stdin, self._to_send) :]
        except BlockingIOError:
            pass
        except OSError:  # the process has ended; `_readable` finds out why
            self._to_send = memoryview(b"")
        if self._to_send:
            self._loop.add_writer(self._stdin, self._writable)
        else:
            self._loop.remove_writer(self._stdin)

    def _readable(self) -> None:
        try:
            data = os.read(self._stdout, _READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._ended()
            return
        self._received += data
        if self._received.endswith(b"\n"):
            line = bytes(self._received)
            self._received.clear()
            self._deliver(cleaner_messages.decode_result(line))

    def _ended(self) -> None:
        """The process has closed its output: it crashed or was killed."""
        self._has_ended = True
        self._loop.remove_reader(self._stdout)
        logger.error("log cleaner process ended", process=self.process_id)
        self._report_end()

    def _report_end(self) -> None:
        self._deliver(CleanerFailure(f"the log cleaner's process {self.process_id} has ended"))

    def _deliver(self, result: Result) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(result)

    def _reap(self) -> None:
        """Collect the exit status of the killed process, without waiting for it."""
        if self._process.poll() is None:
            self._timer.after(REAP_MS, self._reap)
            return
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
