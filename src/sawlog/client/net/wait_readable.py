"""Waiting until something can be read, with any number of open files in the process.

`select` takes no descriptor above 1023, which a process with many connections soon has.
"""

import select
from collections.abc import Iterable

_LONGEST_MS = 3_600_000


def wait_readable(descriptors: Iterable[int], timeout_ms: float) -> bool:
    """Until one of them can be read, has ended or was closed; False where the time is up before."""
    waiter = select.poll()
    for descriptor in descriptors:
        if descriptor < 0:
            return True  # closed: whoever reads will hear of it
        waiter.register(descriptor, select.POLLIN)
    return bool(waiter.poll(min(max(timeout_ms, 0.0), _LONGEST_MS)))
