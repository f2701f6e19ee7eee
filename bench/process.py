"""Child processes and their CPU, memory and bytes read, from the kernel's counters.

A child runs in its own session, writes to a file and is stopped by its process id, so that neither
a full pipe nor a signal disturbs a measurement.
"""

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

BYTECODE = Path(__file__).resolve().parent.parent / ".cache" / "bytecode"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
STOP_TIMEOUT_S = 60.0
POLL_S = 0.02
TAIL_LINES = 25


class ChildFailed(Exception):
    """A child failed or did not end in time; the text has its last lines of output."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A child that has ended."""

    output: str
    cpu_s: float


def environment() -> dict[str, str]:
    """Let Python cache bytecode, like an installed package, outside of the source tree."""
    kept = dict(os.environ)
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    kept["PYTHONPYCACHEPREFIX"] = os.fspath(BYTECODE)
    return kept


class Server:
    """A child that runs until it is stopped."""

    def __init__(self, command: Sequence[str], output: Path) -> None:
        self.output = output
        with output.open("ab") as sink:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=environment(),
                start_new_session=True,
            )
        self.pid = self._process.pid

    def check_running(self) -> None:
        if self._process.poll() is not None:
            code = self._process.returncode
            raise ChildFailed(f"a server ended with code {code}:\n{self.tail()}")

    def tail(self) -> str:
        lines = self.output.read_text(errors="replace").splitlines()
        return "\n".join(lines[-TAIL_LINES:])

    def stop(self) -> float:
        """Send SIGTERM, and SIGKILL after a timeout; return the seconds."""
        began = time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
        return time.monotonic() - began

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()

    def cpu_s(self) -> float:
        """CPU seconds of all threads since the start, with a resolution of 10 ms."""
        # The command name is in parentheses and may contain spaces: parse after it.
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S

    def family_cpu_s(self) -> float:
        """CPU seconds of this process, its children, and those of them that have ended."""
        ticks = 0
        for pid in (self.pid, *self.children()):
            with contextlib.suppress(FileNotFoundError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                ticks += sum(map(int, fields[11:15]))
        return ticks / TICKS_PER_S

    def children(self) -> list[int]:
        """The running child processes."""
        listed = Path(f"/proc/{self.pid}/task").glob("*/children")
        return [int(pid) for path in listed for pid in path.read_text().split()]

    def resident_bytes(self) -> int:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * PAGE_BYTES

    def read_bytes(self) -> int:
        """Bytes returned by read calls, from the page cache or from disk."""
        for line in Path(f"/proc/{self.pid}/io").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "rchar":
                return int(value)
        raise ChildFailed("the kernel does not report the bytes read by a process")


def run_to_end(command: Sequence[str], timeout_s: float, cwd: Path | None = None) -> Finished:
    """Run a client; raise ChildFailed if it fails or does not end in time."""
    with tempfile.TemporaryFile() as sink:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=environment(),
            start_new_session=True,
        )
        try:
            cpu_s = _wait(process, timeout_s)
        finally:
            if process.returncode is None:
                process.kill()
                process.wait()
        sink.seek(0)
        output = sink.read().decode(errors="replace")
    if process.returncode != 0:
        tail = "\n".join(output.splitlines()[-TAIL_LINES:])
        raise ChildFailed(f"a client ended with code {process.returncode}:\n{tail}")
    return Finished(output, cpu_s)


def _wait(process: subprocess.Popen[bytes], timeout_s: float) -> float:
    """Wait with wait4, which returns the CPU time of this child only."""
    deadline = time.monotonic() + timeout_s
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return usage.ru_utime + usage.ru_stime
        if time.monotonic() > deadline:
            raise ChildFailed(f"a client did not end within {timeout_s:.0f} s")
        time.sleep(POLL_S)


def machine_busy_s() -> float:
    """CPU seconds used by all processes, and stolen by the hypervisor."""
    first = Path("/proc/stat").read_text().partition("\n")[0]
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, first.split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS_PER_S


def wait_for_calm(patience_s: float, cores: float = 0.3, watched_s: float = 1.0) -> None:
    """Return when the machine was idle for a second, or after `patience_s`."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() + watched_s < deadline:
        busy_s = machine_busy_s()
        time.sleep(watched_s)
        if machine_busy_s() - busy_s < cores * watched_s:
            return
