"""One simulated process: its scope of events, which tells the simulation whose code runs."""

from collections.abc import Callable
from functools import partial

from sawlog.simulation.schedule import Schedule, ScopedHandle, TimerScope


class Process(TimerScope):
    """A scope that calls `entered` before each event.

    After a pause, what was due meanwhile runs in the order in which it was due: messages of one
    connection keep their order.
    """

    def __init__(self, schedule: Schedule, entered: Callable[[], None]) -> None:
        super().__init__(schedule)
        self._entered = entered

    def after(self, delay_ms: int, action: Callable[[], None]) -> ScopedHandle:
        return super().after(delay_ms, partial(self._enter, action))

    def run(self, action: Callable[[], None]) -> None:
        super().run(partial(self._enter, action))

    def resume(self) -> None:
        self.is_paused = False
        self._schedule.soon(self._catch_up)

    def _enter(self, action: Callable[[], None]) -> None:
        self._entered()
        action()

    def _catch_up(self) -> None:
        """Run the oldest event that was held, as an event of its own."""
        if self._held and not self.is_paused and not self.is_closed:
            event = self._held.pop(0)
            self._schedule.soon(self._catch_up)
            event.run()


class ProcessClock:
    """The clock of one machine; `offset_ms` is how wrong its wall clock is."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self.offset_ms = 0

    def now_ms(self) -> int:
        return self._schedule.now_ms() + self.offset_ms

    def monotonic_ms(self) -> int:
        return self._schedule.monotonic_ms()
