"""Time and order in a simulated world: what happens next, decided by a seed.

It is the Clock and the Timer of everything in that world. Things that are due at the same moment
happen in an order drawn from the seed, so that no test depends on a lucky one.
"""

import heapq
from collections.abc import Callable
from random import Random as Generator


class Handle:
    """A thing that will happen unless it is cancelled."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None


class Schedule:
    """Clock, Timer and the queue of all that is under way."""

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
        """At this moment of simulated time, but not inside the call that asks for it."""
        self.after(0, action)

    def clear(self) -> None:
        """Nothing that was under way happens any more: the machine lost its power."""
        self._queue.clear()

    def step(self) -> bool:
        """Lets the next thing happen; False where nothing is under way."""
        while self._queue:
            due_ms, _, _, handle = heapq.heappop(self._queue)
            if handle.action is not None:
                self._elapsed_ms = max(self._elapsed_ms, due_ms)
                handle.action()
                return True
        return False

    def run(self, until: Callable[[], bool], *, most: int = 100_000) -> bool:
        """Steps until the condition holds; False where it never does within `most` steps."""
        for _ in range(most):
            if until():
                return True
            if not self.step():
                return until()
        return until()

    def stall(self, duration_ms: int) -> None:
        """The process does not get to run for so long; then all happens that was due meanwhile."""
        self._elapsed_ms += duration_ms
        self.run_for(0)

    def run_for(self, duration_ms: int) -> None:
        """Lets everything happen that is due within `duration_ms` from now."""
        end_ms = self._elapsed_ms + duration_ms
        while self._queue and self._queue[0][0] <= end_ms:
            if self._queue[0][3].action is None:
                heapq.heappop(self._queue)  # cancelled: what comes behind it may be later
            else:
                self.step()
        self._elapsed_ms = max(self._elapsed_ms, end_ms)


class SeededRandom:
    """The Random port from a seed."""

    def __init__(self, seed: int) -> None:
        self._generator = Generator(seed)

    def bytes(self, count: int) -> bytes:
        return self._generator.randbytes(count)

    def below(self, limit: int) -> int:
        return self._generator.randrange(limit)
