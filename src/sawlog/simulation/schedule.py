"""Simulated time: the Clock, the Timer and the event queue of a simulation, driven by a seed.

Events that are due at the same time run in an order drawn from the seed, so that no test depends on
one order.
"""

import heapq
from collections.abc import Callable
from random import Random as Generator


class Handle:
    """A scheduled event; `action` is None once it is cancelled."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None


class Schedule:
    """Invariant: time never goes back; every event runs at most once, at or after its due time."""

    def __init__(self, seed: int, *, start_ms: int = 1_700_000_000_000) -> None:
        self._generator = Generator(seed)
        self._start_ms = start_ms
        self._elapsed_ms = 0
        self._queue: list[tuple[int, float, int, Handle]] = []
        self._count = 0

    def now_ms(self) -> int:
        return self._start_ms + self._elapsed_ms

    def monotonic_ms(self) -> int:
        return self._elapsed_ms

    def after(self, delay_ms: int, action: Callable[[], None]) -> Handle:
        handle = Handle(action)
        self._count += 1
        entry = (self._elapsed_ms + delay_ms, self._generator.random(), self._count, handle)
        heapq.heappush(self._queue, entry)
        return handle

    def soon(self, action: Callable[[], None]) -> None:
        """Run `action` at the present simulated time, after the current event returns."""
        self.after(0, action)

    def clear(self) -> None:
        """Drop all events, as a crash of the process does."""
        self._queue.clear()

    def step(self) -> bool:
        """Run the next event; return False if the queue is empty."""
        while self._queue:
            due_ms, _, _, handle = heapq.heappop(self._queue)
            if handle.action is not None:
                self._elapsed_ms = max(self._elapsed_ms, due_ms)
                handle.action()
                return True
        return False

    def run(self, until: Callable[[], bool], *, max_steps: int = 100_000) -> bool:
        """Run events until the condition holds; return False if it does not within `max_steps`."""
        for _ in range(max_steps):
            if until():
                return True
            if not self.step():
                return until()
        return until()

    def stall(self, duration_ms: int) -> None:
        """Let time pass as in a stalled process, then run all events that are due."""
        self._elapsed_ms += duration_ms
        self.run_for(0)

    def run_for(self, duration_ms: int) -> None:
        """Run all events that are due within `duration_ms`, and end at that time."""
        end_ms = self._elapsed_ms + duration_ms
        while self._queue and self._queue[0][0] <= end_ms:
            if self._queue[0][3].action is None:
                heapq.heappop(self._queue)  # cancelled: the next one may be due later
            else:
                self.step()
        self._elapsed_ms = max(self._elapsed_ms, end_ms)


class SeededRandom:
    """The Random port, from a seed."""

    def __init__(self, seed: int) -> None:
        self._generator = Generator(seed)

    def bytes(self, count: int) -> bytes:
        return self._generator.randbytes(count)

    def below(self, limit: int) -> int:
        return self._generator.randrange(limit)
