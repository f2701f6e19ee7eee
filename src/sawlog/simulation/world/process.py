"""One simulated process: the timer of its code, which can be paused as by SIGSTOP, and killed."""

from collections.abc import Callable
from functools import partial

from sawlog.simulation.schedule import Handle, Schedule


class Process:
    """Invariant: no action runs after `kill`, and none while the process is paused; `resume` runs
    what was due meanwhile, in the order in which it was due."""

    def __init__(self, schedule: Schedule, entered: Callable[[], None]) -> None:
        """`entered` is called before each action, so that the simulation knows whose code ran."""
        self._schedule = schedule
        self._entered = entered
        self._backlog: list[Callable[[], None]] = []
        self.is_alive = True
        self.is_paused = False

    def after(self, delay_ms: int, action: Callable[[], None]) -> Handle:
        handle = Handle(action)
        self._schedule.after(delay_ms, partial(self._run_handle, handle))
        return handle

    def soon(self, action: Callable[[], None]) -> None:
        self._schedule.after(0, partial(self.run, action))

    def run(self, action: Callable[[], None]) -> None:
        """Run the action now; when the process is paused, as soon as it is resumed."""
        if not self.is_alive:
            return
        if self.is_paused:
            self._backlog.append(action)
            return
        self._entered()
        action()

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        self._schedule.soon(self._catch_up)

    def kill(self) -> None:
        self.is_alive = False
        self._backlog.clear()

    def _catch_up(self) -> None:
        """Run one action of the backlog as an event of its own."""
        if self._backlog and self.is_alive and not self.is_paused:
            action = self._backlog.pop(0)
            self._schedule.soon(self._catch_up)
            self._entered()
            action()

    def _run_handle(self, handle: Handle) -> None:
        if handle.action is not None:
            self.run(partial(_call, handle))


def _call(handle: Handle) -> None:
    if handle.action is not None:  # it may be cancelled while the process is paused
        handle.action()


class ProcessClock:
    """The clock of one machine; `offset_ms` is how wrong its wall clock is."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self.offset_ms = 0

    def now_ms(self) -> int:
        return self._schedule.now_ms() + self.offset_ms

    def monotonic_ms(self) -> int:
        return self._schedule.monotonic_ms()
