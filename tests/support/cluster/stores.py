"""A harness for each implementation of the Store port, for the contract suite.

`drive` runs the implementation until a condition holds.
"""

import queue
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from sawlog.cluster.embedded_store import EmbeddedStore
from sawlog.core.store import OnDone, Operation, Result, Store, StoreError
from sawlog.server.disk import RealDisk
from sawlog.simulation.schedule import Schedule
from sawlog.simulation.simulated_disk import SimulatedDisk
from sawlog.simulation.simulated_store import SimulatedStore, StoreService

PATIENCE_S = 180.0


class StoreHarness(Protocol):
    """An implementation of the Store under test."""

    def connect(self) -> Store:
        """Open a new session on the same tree."""
        ...

    def drive(self, until: Callable[[], bool]) -> bool: ...

    def close(self) -> None: ...


class Session:
    """A store with blocking calls: they return the result or raise the error."""

    def __init__(self, harness: StoreHarness) -> None:
        self.harness = harness
        self.store = harness.connect()

    def call(self, ask: Callable[[OnDone[Any]], None]) -> Any:
        results: list[Any] = []
        ask(results.append)
        assert self.harness.drive(lambda: bool(results)), "`done` was not called"
        if isinstance(results[0], StoreError):
            raise results[0]
        return results[0]

    def multi(self, *operations: Operation) -> list[Result]:
        results: list[Result] = self.call(lambda done: self.store.multi(operations, done))
        return results

    def get(self, path: str, watch: Any = None) -> Any:
        return self.call(lambda done: self.store.get(path, done, watch))

    def exists(self, path: str, watch: Any = None) -> Any:
        return self.call(lambda done: self.store.exists(path, done, watch))

    def children(self, path: str, watch: Any = None) -> list[str]:
        names: list[str] = self.call(lambda done: self.store.children(path, done, watch))
        return names

    def close(self) -> None:
        ended: list[bool] = []
        self.store.close(lambda: ended.append(True))
        assert self.harness.drive(lambda: bool(ended)), "the store did not close"

    def settle(self) -> None:
        """Wait until all earlier calls have their results, and their watches are called."""
        for _ in range(2):
            self.exists("/")


class EmbeddedOnSimulatedDisk:
    def __init__(self, seed: int = 7) -> None:
        self.schedule = Schedule(seed)
        self.disk = SimulatedDisk(self.schedule.soon)

    def connect(self) -> Store:
        return EmbeddedStore(self.disk, self.schedule)

    def drive(self, until: Callable[[], bool]) -> bool:
        return self.schedule.run(until)

    def close(self) -> None:
        pass


class _Handle:
    def __init__(self, action: Callable[[], None]) -> None:
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None


class EmbeddedOnRealDisk:
    """The disk's threads and the timer put their calls into a queue that replaces the loop."""

    def __init__(self, root: Path) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._disk = RealDisk(str(root), self._calls.put)

    def after(self, delay_ms: int, action: Callable[[], None]) -> _Handle:
        assert delay_ms == 0
        handle = _Handle(action)
        self._calls.put(lambda: handle.action() if handle.action is not None else None)
        return handle

    def connect(self) -> Store:
        return EmbeddedStore(self._disk, self)

    def drive(self, until: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + PATIENCE_S
        while not until():
            try:
                self._calls.get(timeout=max(0.0, deadline - time.monotonic()))()
            except queue.Empty:
                return False
        return True

    def close(self) -> None:
        self._disk.close()


class Simulated:
    def __init__(self, seed: int = 7) -> None:
        self.schedule = Schedule(seed)
        self.service = StoreService(self.schedule, seed)

    def connect(self) -> SimulatedStore:
        return self.service.connect()

    def drive(self, until: Callable[[], bool]) -> bool:
        return self.schedule.run(until)

    def close(self) -> None:
        pass


HARNESSES: dict[str, Callable[[Path], StoreHarness]] = {
    "embedded-real-disk": EmbeddedOnRealDisk,
    "embedded-simulated-disk": lambda _: EmbeddedOnSimulatedDisk(),
    "simulated": lambda _: Simulated(),
}


def flattened(results: Sequence[Result]) -> list[object]:
    """Replace stats by their class names, to compare results."""
    return [result if isinstance(result, str) else type(result).__name__ for result in results]
