"""The process of the log cleaner, started with DATA BYTES_PER_SECOND BROKER as its arguments.

It reads requests from standard input and writes results to standard output, one line each, until
its input ends: then its broker is gone, and it exits at once, in the middle of a request too.
BROKER is the broker's process id.
"""

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Generator
from queue import SimpleQueue

from sawlog.core.ports import DiskError
from sawlog.server.cleaner_messages import Result, decode_request, encode_result
from sawlog.server.disk import RealDisk
from sawlog.storage.batch_scan import Damage
from sawlog.storage.cleaner.cleaner_worker import CleanerFailure
from sawlog.storage.cleaner.segment_cleaner import MapRequest, SegmentCleaner

NICENESS = 10
"""Added to the broker's: where both want the same core, the broker gets nine tenths of it."""

_MAX_SLEEP_S = 1.0
_PR_SET_PDEATHSIG = 1  # of prctl(2)


class Throttle:
    """Sleeps so that no more than a number of bytes per second are read and written."""

    def __init__(self, bytes_per_second: float) -> None:
        self._rate = bytes_per_second
        self._began = time.monotonic()
        self._bytes = 0

    def take(self, count: int) -> None:
        self._bytes += count
        ahead_s = self._bytes / self._rate - (time.monotonic() - self._began)
        while ahead_s > 0:
            time.sleep(min(ahead_s, _MAX_SLEEP_S))
            ahead_s = self._bytes / self._rate - (time.monotonic() - self._began)


def answer(line: bytes, cleaner: SegmentCleaner, root: str, throttle: Throttle) -> Result:
    """Do one request. The disk is opened anew: the broker renames files between requests."""
    request = decode_request(line)
    disk = RealDisk(root, lambda action: action())
    try:
        if isinstance(request, MapRequest):
            return _run(cleaner.build_map(disk, request), throttle)
        return _run(cleaner.clean(disk, request), throttle)
    except Damage as damage:
        return CleanerFailure(str(damage), is_damage=True)
    except FileNotFoundError as error:
        return CleanerFailure(f"{error}: the file is missing")
    except DiskError as error:
        return CleanerFailure(str(error))
    except MemoryError:
        return CleanerFailure("the memory of the log cleaner's process is exhausted")
    finally:
        disk.close()


def _run(steps: Generator[int, None, Result], throttle: Throttle) -> Result:
    while True:
        try:
            throttle.take(next(steps))
        except StopIteration as end:
            result: Result = end.value
            return result


def _read_lines(lines: "SimpleQueue[bytes]") -> None:
    for line in sys.stdin.buffer:
        lines.put(line)
    os._exit(0)


def end_with_broker(broker: int) -> None:
    """Let the kernel kill this process when its broker ends, even while it is stopped (SIGSTOP):
    if it went on later, it would write to the files of the next broker's worker."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != broker:
        os._exit(0)


def main(arguments: list[str]) -> None:
    root, bytes_per_second, broker = arguments
    end_with_broker(int(broker))
    os.nice(NICENESS)
    lines: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_read_lines, args=(lines,), daemon=True).start()
    cleaner = SegmentCleaner()
    throttle = Throttle(float(bytes_per_second))
    while True:
        result = answer(lines.get(), cleaner, root, throttle)
        sys.stdout.buffer.write(encode_result(result))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
