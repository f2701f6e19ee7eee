"""Runs processes of a local cluster: their joint output, restarts with back-off, an ordered stop.

A process that ends after it was ready once is started again. One that ends before is misconfigured:
the whole cluster stops, and the output of that process says why.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TextIO

FIRST_BACKOFF_S = 0.5
MAX_BACKOFF_S = 30.0
STABLE_S = 30.0
"""A process that was ready for so long starts without an earlier one's back-off."""
STOP_TIMEOUT_S = 60.0
"""How long a process may take to stop before it is killed."""
OUTPUT_TIMEOUT_S = 2.0
"""How long the output of an ended process is awaited."""
MAX_LINE_BYTES = 1 << 16

SUPERVISOR = "up"
_COLOURS = (36, 32, 33, 35, 34, 31)  # of ANSI terminals: cyan, green, yellow, ...
_CHILD_MODULE = "sawlog.server.supervised_child"


class CannotStart(Exception):
    """A process ended before it was ready; the text names it, and `code` is its exit code."""

    def __init__(self, name: str, code: int) -> None:
        super().__init__(f"{name} ended with {_reason(code)} at its start")
        self.code = code


class JointOutput:
    """Writes lines with the name of their process, coloured on a terminal."""

    def __init__(self, stream: TextIO, names: Sequence[str], *, is_coloured: bool) -> None:
        self._stream = stream
        width = max(map(len, [SUPERVISOR, *names]))
        self._prefixes = {name: f"{name:<{width}} |" for name in (SUPERVISOR, *names)}
        if is_coloured:
            for position, name in enumerate(names):
                colour = _COLOURS[position % len(_COLOURS)]
                self._prefixes[name] = f"\x1b[{colour}m{self._prefixes[name]}\x1b[0m"
            self._prefixes[SUPERVISOR] = f"\x1b[1m{self._prefixes[SUPERVISOR]}\x1b[0m"

    def write(self, name: str, line: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a closed output does not stop a cluster
            self._stream.write(f"{self._prefixes[name]} {line}\n")
            self._stream.flush()


@dataclass(frozen=True, slots=True)
class ProcessPlan:
    """One process to run. It is ready when a line of its output contains `ready_text`, or when
    `is_ready` returns True; that one is called again and again until then."""

    name: str
    command: Sequence[str]
    ready_text: str | None = None
    is_ready: Callable[[], Awaitable[bool]] | None = None


class RestartBackoff:
    """The delay before a process is started again: it doubles with every end, up to MAX_BACKOFF_S,
    and begins anew after a process that was stable."""

    def __init__(self) -> None:
        self._failures = 0

    def delay_s(self, ready_s: float) -> float:
        """Return the delay after a process that was ready for `ready_s`, 0 if it never was."""
        if ready_s >= STABLE_S:
            self._failures = 0
        delay_s = min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2.0**self._failures)
        self._failures += 1
        return delay_s


class SupervisedProcess:
    """One process and its successors. `ready` is set while the present one is ready."""

    def __init__(self, plan: ProcessPlan, output: JointOutput) -> None:
        self.plan = plan
        self.ready = asyncio.Event()
        self._output = output
        self._process: asyncio.subprocess.Process | None = None
        self._ready_at = 0.0
        self._is_stopping = False

    async def run(self) -> None:
        """Start the process, and again after each end, until `stop`; CannotStart if the first one
        ends before it is ready."""
        was_ready, backoff = False, RestartBackoff()
        while True:
            code = await self._run_once()
            if self._is_stopping:
                return
            ready_s = self._loop_time() - self._ready_at if self.ready.is_set() else 0.0
            was_ready = was_ready or self.ready.is_set()
            self.ready.clear()
            if not was_ready:
                raise CannotStart(self.plan.name, code)
            delay_s = backoff.delay_s(ready_s)
            self._output.write(
                SUPERVISOR,
                f"{self.plan.name} ended with {_reason(code)}; starting it again in {delay_s:g} s",
            )
            await asyncio.sleep(delay_s)

    async def _run_once(self) -> int:
        """Run one process until its end; return its exit code, negative for a signal."""
        command = [sys.executable, "-m", _CHILD_MODULE, str(os.getpid()), *self.plan.command]
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C at the terminal is for the supervisor only
        )
        self._process = process
        self._output.write(SUPERVISOR, f"{self.plan.name} started (process {process.pid})")
        assert process.stdout is not None
        reading = asyncio.create_task(self._copy_output(process.stdout))
        probing = asyncio.create_task(self._probe())
        try:
            if self._is_stopping:  # while it was being started
                self._signal(signal.SIGTERM)
            return await process.wait()
        finally:
            probing.cancel()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(reading, OUTPUT_TIMEOUT_S)
            self._process = None

    async def _copy_output(self, stream: asyncio.StreamReader) -> None:
        rest = b""
        while data := await stream.read(MAX_LINE_BYTES):
            *lines, rest = (rest + data).split(b"\n")
            if len(rest) > MAX_LINE_BYTES:
                lines, rest = [*lines, rest], b""
            for line in lines:
                self._line(line)
        if rest:
            self._line(rest)

    def _line(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace")
        self._output.write(self.plan.name, text)
        if self.plan.ready_text is not None and self.plan.ready_text in text:
            self._became_ready()

    async def _probe(self) -> None:
        is_ready = self.plan.is_ready
        if is_ready is not None:
            while not await is_ready():
                pass
            self._became_ready()

    def _became_ready(self) -> None:
        self._ready_at = self._loop_time()
        self.ready.set()

    async def stop(self) -> None:
        """Send SIGTERM and wait for the end, after a while with SIGKILL."""
        self._is_stopping = True
        process = self._process
        if process is None:
            return
        self._signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), STOP_TIMEOUT_S)
        except TimeoutError:
            self._output.write(
                SUPERVISOR, f"{self.plan.name} did not stop within {STOP_TIMEOUT_S:g} s: killing it"
            )
            self.kill()
            await process.wait()

    def kill(self) -> None:
        self._is_stopping = True
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    def _loop_time(self) -> float:
        return asyncio.get_running_loop().time()


def _reason(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


class Supervisor:
    """Runs groups of processes: each group starts when all of the group before are ready, and
    stops before it. `on_ready` is called once, when all are ready."""

    def __init__(
        self,
        groups: Sequence[Sequence[ProcessPlan]],
        output: JointOutput,
        on_ready: Callable[[], None],
    ) -> None:
        self._output = output
        self._groups = [[SupervisedProcess(plan, output) for plan in group] for group in groups]
        self._on_ready = on_ready
        self._is_stopped = asyncio.Event()

    def stop(self) -> None:
        self._is_stopped.set()

    def kill(self) -> None:
        for group in self._groups:
            for process in group:
                process.kill()

    async def run(self) -> None:
        """Run until `stop`, and return when all processes have ended; CannotStart."""
        running: list[asyncio.Task[None]] = []
        starting = asyncio.create_task(self._start(running))
        stopped = asyncio.create_task(self._is_stopped.wait())
        try:
            while not stopped.done():
                await asyncio.wait(
                    [stopped, *running, *([] if starting.done() else [starting])],
                    return_when=asyncio.FIRST_COMPLETED,
                    timeout=None if starting.done() else 0.1,  # for tasks that it has added
                )
                for task in (starting, *running):
                    if task.done():
                        task.result()  # raises CannotStart
        finally:
            starting.cancel()
            stopped.cancel()
            for group in reversed(self._groups):
                await asyncio.gather(*(process.stop() for process in group))
            for task in running:
                task.cancel()
            await asyncio.gather(starting, stopped, *running, return_exceptions=True)

    async def _start(self, running: list[asyncio.Task[None]]) -> None:
        for group in self._groups:
            running += [asyncio.create_task(process.run()) for process in group]
            await asyncio.gather(*(process.ready.wait() for process in group))
        self._on_ready()
