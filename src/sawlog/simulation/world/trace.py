"""The trace of a simulation: its notable events as text, and a hash over everything that happened.

Two runs of one seed have the same hash. The hash covers the time of every event, also of those that
the text leaves out.
"""

from collections import deque
from zlib import crc32

from sawlog.simulation.schedule import Schedule

MAX_LINES = 2_000


class Trace:
    """The last lines of a run, each with its simulated time."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self.lines: deque[str] = deque(maxlen=MAX_LINES)
        self.hash = 0

    def note(self, text: str) -> None:
        """Record a notable event."""
        line = f"{self._schedule.monotonic_ms() / 1000:9.3f}  {text}"
        self.lines.append(line)
        self.hash = crc32(line.encode(), self.hash)

    def count(self, text: str) -> None:
        """Let an event change the hash without a line of its own."""
        self.hash = crc32(text.encode(), self.hash)

    def step(self) -> None:
        """Add one event of the schedule to the hash."""
        self.hash = crc32(self._schedule.monotonic_ms().to_bytes(8, "big"), self.hash)
