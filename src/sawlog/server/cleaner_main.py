"""The process of the log cleaner, started with DATA BYTES_PER_SECOND BROKER as its arguments.

It reads requests from standard input and writes results to standard output, one line each, until
its input ends: then its broker is gone, and it exits at once, in the middle of a request too.
BROKER is the broker's process id.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Generator
from queue import SimpleQueue

from sawlog.core.ports import DiskError
from sawlog.server.cleaner_messages import Result, decode_request, encode_result
from sawlog.server.disk import RealDisk
from sawlog.server.parent_death import end_with_parent
from sawlog.storage.batch_scan import Damage
from sawlog.storage.cleaner.cleaner_worker import CleanerFailure
from sawlog.storage.cleaner.segment_cleaner import MapRequest, SegmentCleaner

NICENESS = 10
"""Added to the broker's: where both want the same core, the broker gets nine tenths of it."""

_MAX_SLEEP_S = 1.0
_MAX_CREDIT_S = 1.0
"""How far the work may fall behind its rate and make up for it: disks do not run evenly."""


class Throttle:
    """Sleeps so that no more than a number of bytes per second are read and written.

    Time without work is not made up for: what follows a pause is as slow as before it.
    """

    def __init__(
        self,
        bytes_per_second: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._free_at = clock()  # when all bytes so far have had their time

    def take(self, count: int) -> None:
        self._free_at = max(self._free_at, self._clock() - _MAX_CREDIT_S) + count / self._rate
        while (ahead_s := self._free_at - self._clock()) > 0:
            self._sleep(min(ahead_s, _MAX_SLEEP_S))


def answer(line: bytes, cleaner: SegmentCleaner, root: str, throttle: Throttle) -> Result:
    """Do one request. The disk is opened anew: the broker renames files between requests."""
    request = decode_request(line)
    disk = RealDisk(root, lambda action: action())
    try:
        if isinstance(request, MapRequest):
            return _run(cleaner.build_map(disk, request), throttle)
        return _run(cleaner.clean(disk, request), throttle)
    except Damage as damage:
        return CleanerFailure.of(damage)
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


def main(arguments: list[str]) -> None:
    root, bytes_per_second, broker = arguments
    # If it went on after its broker, it would write to the files of the next broker's worker.
    end_with_parent(int(broker))
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
