"""The broker's process: event loop, stop signals, descriptors, garbage collection, metrics."""

import asyncio
import gc
import os
import resource
import signal
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

from sawlog.core.event_logger import EventLogger
from sawlog.core.metrics import Registry
from sawlog.core.ports import Disk

logger = EventLogger(__name__)

T = TypeVar("T")

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

# Requests rarely create reference cycles, so the collector can run rarely; each run over the young
# generation costs time for its live objects.
_COLLECT_AFTER = (20_000, 20, 20)


def run(main: Callable[[asyncio.AbstractEventLoop], Coroutine[Any, Any, T]]) -> T:
    """Run `main` on a new event loop, with the highest descriptor limit the system allows."""
    raise_descriptor_limit()
    gc.disable()  # until `freeze_garbage_collector`: a start creates many lasting objects
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main(runner.get_loop()))
    finally:
        gc.enable()


def on_stop_signal(
    loop: asyncio.AbstractEventLoop,
    stop: Callable[[], None],
    leave: Callable[[int], object] = os._exit,
) -> None:
    """Call `stop` at the first SIGTERM or SIGINT; at the second one exit at once."""
    seen = 0

    def received(number: int) -> None:
        nonlocal seen
        seen += 1
        name = signal.Signals(number).name
        if seen == 1:
            logger.info("stopping", signal=name)
            stop()
        else:
            logger.warning("second stop signal: exiting at once", signal=name)
            leave(128 + number)

    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, received, number)


def raise_descriptor_limit() -> int:
    """Raise the limit on open descriptors to the hard limit; return the limit in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            return soft  # some systems report a hard limit that cannot be set
    return hard


def seconds_since_start() -> float:
    """Return the age of this process, including interpreter start and imports."""
    with open("/proc/self/stat", "rb") as file:
        ticks = int(file.read().rpartition(b")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / _TICKS_PER_SECOND


def freeze_garbage_collector() -> None:
    """After the start, exclude all existing objects from garbage collection."""
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
    gc.enable()


def declare_process_metrics(registry: Registry) -> None:
    """Declare the standard process metrics of Prometheus client libraries."""
    began = time.time()
    registry.read_counter(
        "process_cpu_seconds_total", "User and system CPU time spent, in seconds.", _cpu_seconds
    )
    registry.read_gauge(
        "process_resident_memory_bytes", "Resident memory, in bytes.", _resident_bytes
    )
    registry.read_gauge("process_open_fds", "Open file descriptors.", _open_descriptors)
    registry.read_gauge(
        "process_max_fds", "Maximum number of open file descriptors.", _max_descriptors
    )
    registry.read_gauge(
        "process_start_time_seconds", "Start of the process, in seconds since 1970.", lambda: began
    )


def declare_file_system_metrics(registry: Registry, disk: Disk) -> None:
    """Declare the size and the free space of the data directory's file system."""
    registry.read_gauge(
        "sawlog_data_directory_free_bytes",
        "Free space on the file system of the data directory.",
        lambda: disk.space().usable_bytes,
    )
    registry.read_gauge(
        "sawlog_data_directory_size_bytes",
        "Size of the file system of the data directory.",
        lambda: disk.space().total_bytes,
    )


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _resident_bytes() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * _PAGE_BYTES


def _open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) - 1  # the listing's own


def _max_descriptors() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
