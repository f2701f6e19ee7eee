"""Simulated time: the Clock, the Timer and the event queue of a simulation, driven by a seed.

Events that are due at the same time run in an order drawn from the seed, so that no test depends on
one order.
"""

import heapq
from collections.abc import Callable
from functools import partial
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

    def scope(self) -> "TimerScope":
        """Return a timer of its own for one process, on this time."""
        return TimerScope(self)

    def clear(self) -> None:
        """Drop all events of all scopes."""
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


class ScopedHandle:
    """An event of a scope; `action` is None once it has run or is cancelled."""

    __slots__ = ("_scope", "action")

    def __init__(self, scope: "TimerScope", action: Callable[[], None]) -> None:
        self._scope = scope
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None
        self._scope.forget(self)

    def run(self) -> None:
        action, self.action = self.action, None
        if action is not None:
            action()


class TimerScope:
    """The events of one simulated process: its Timer, and its only way to be called later.

    Invariant: no event runs after `close`, nor between `pause` and `resume`. `_held` has the events
    that became due meanwhile, and `_pending` all others, with their entries in the schedule.
    """

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._pending: dict[ScopedHandle, Handle] = {}
        self._held: list[ScopedHandle] = []
        self.is_paused = False
        self.is_closed = False

    def after(self, delay_ms: int, action: Callable[[], None]) -> ScopedHandle:
        event = ScopedHandle(self, action)
        self._schedule_event(event, delay_ms)
        return event

    def soon(self, action: Callable[[], None]) -> None:
        """Run `action` at the present simulated time, after the current event returns."""
        self.after(0, action)

    def run(self, action: Callable[[], None]) -> None:
        """Run `action` now; after `resume` if the process is paused, never if it is dead."""
        if self.is_paused:
            self._held.append(ScopedHandle(self, action))
        elif not self.is_closed:
            action()

    def pause(self) -> None:
        """Stop the process (SIGSTOP): events that become due are held."""
        self.is_paused = True

    def resume(self) -> None:
        """Continue the process (SIGCONT): held events run at the present simulated time."""
        self.is_paused = False
        held, self._held = self._held, []
        for event in held:
            self._schedule_event(event, 0)

    def close(self) -> None:
        """End the process: its events never run, and new ones are ignored."""
        self.is_closed = True
        for scheduled in self._pending.values():
            scheduled.cancel()
        self._pending.clear()
        self._held.clear()

    def forget(self, event: ScopedHandle) -> None:
        """Called by a cancelled event: it takes no step of the schedule any more."""
        scheduled = self._pending.pop(event, None)
        if scheduled is not None:
            scheduled.cancel()

    def _schedule_event(self, event: ScopedHandle, delay_ms: int) -> None:
        if not self.is_closed and event.action is not None:
            self._pending[event] = self._schedule.after(delay_ms, partial(self._due, event))

    def _due(self, event: ScopedHandle) -> None:
        del self._pending[event]
        if self.is_paused:
            self._held.append(event)
        else:
            event.run()


class SeededRandom:
    """The Random port, from a seed."""

    def __init__(self, seed: int) -> None:
        self._generator = Generator(seed)

    def bytes(self, count: int) -> bytes:
        return self._generator.randbytes(count)

    def below(self, limit: int) -> int:
        return self._generator.randrange(limit)
