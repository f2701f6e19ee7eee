"""A harness for each implementation of the Store port, for the contract suite.

`drive` runs the implementation until a condition holds.
"""

import queue
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from sawlog.cluster.embedded_store import EmbeddedStore
from sawlog.core.store import (
    ANY_VERSION,
    OnDone,
    Operation,
    Result,
    SessionState,
    SetData,
    Store,
    StoreError,
)
from sawlog.server.disk import RealDisk
from sawlog.simulation.schedule import Schedule
from sawlog.simulation.simulated_disk import SimulatedDisk
from sawlog.simulation.simulated_store import (
    SESSION_TIMEOUT_MS,
    SimulatedStore,
    StoreService,
)

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


class Link(Protocol):
    """A store with a session that a test breaks."""

    store: Store

    def end_session(self) -> None:
        """End the connected session in the store's service; the client is not asked."""
        ...

    def next_session(self) -> Store:
        """Return the store to use after a lost session: the same one, if it reconnects itself."""
        ...


class Cable(Link, Protocol):
    """A link to a service that other sessions use too: the connection can be cut and restored."""

    def cut(self) -> None: ...

    def restore(self) -> None: ...

    def lose_answer(self, operation: Operation, done: OnDone[list[Result]]) -> None:
        """Send a write that takes effect, and cut the connection before its answer arrives."""
        ...


class LinkedSession(Session):
    """A session over a link, with the states that its store has reported since it connected."""

    def __init__(self, harness: StoreHarness, link: Link) -> None:
        self.harness = harness
        self.store = link.store
        self.states: list[SessionState] = []
        self.await_state(SessionState.CONNECTED)
        self.store.on_state(self.states.append)

    def await_state(self, state: SessionState) -> None:
        assert self.harness.drive(lambda: self.store.state is state), self.states


class EmbeddedOnSimulatedDisk:
    def __init__(self, seed: int = 7) -> None:
        self.schedule = Schedule(seed)
        self.disk = SimulatedDisk(self.schedule.soon)

    def connect(self) -> EmbeddedStore:
        return EmbeddedStore(self.disk, self.schedule)

    def link(self) -> "FailingJournal":
        return FailingJournal(self)

    def drive(self, until: Callable[[], bool]) -> bool:
        return self.schedule.run(until)

    def close(self) -> None:
        pass


class FailingJournal:
    """The link of an embedded store: its session ends with a failed fsync, and a new process has
    the next one."""

    def __init__(self, harness: EmbeddedOnSimulatedDisk) -> None:
        self._harness = harness
        self.store = harness.connect()

    def end_session(self) -> None:
        self._harness.disk.fails_syncs = True
        self.store.multi([SetData("/", b"", ANY_VERSION)], lambda _: None)
        assert self._harness.drive(lambda: self.store.state is SessionState.LOST)
        self._harness.disk.fails_syncs = False

    def next_session(self) -> EmbeddedStore:
        self._harness.schedule.clear()
        self._harness.disk.kill()
        return self._harness.connect()


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
        self.service = StoreService(self.schedule, seed, session_timeout_ms=SESSION_TIMEOUT_MS)

    def connect(self) -> SimulatedStore:
        return self.service.connect()

    def link(self) -> "SimulatedLink":
        return SimulatedLink(self)

    def drive(self, until: Callable[[], bool]) -> bool:
        return self.schedule.run(until)

    def close(self) -> None:
        pass


class SimulatedLink:
    def __init__(self, harness: Simulated) -> None:
        self._harness = harness
        self.store = harness.connect()

    def cut(self) -> None:
        self.store.suspend()

    def restore(self) -> None:
        self.store.resume()

    def end_session(self) -> None:
        self.store.expire()

    def next_session(self) -> SimulatedStore:
        assert self._harness.drive(lambda: self.store.state is SessionState.CONNECTED)
        return self.store

    def lose_answer(self, operation: Operation, done: OnDone[list[Result]]) -> None:
        tree = self._harness.service.tree
        before = tree.exists(operation.path)
        self.store.multi([operation], done)
        assert self._harness.drive(lambda: tree.exists(operation.path) != before)
        self.cut()


HARNESSES: dict[str, Callable[[Path], StoreHarness]] = {
    "embedded-real-disk": EmbeddedOnRealDisk,
    "embedded-simulated-disk": lambda _: EmbeddedOnSimulatedDisk(),
    "simulated": lambda _: Simulated(),
}


def flattened(results: Sequence[Result]) -> list[object]:
    """Replace stats by their class names, to compare results."""
    return [result if isinstance(result, str) else type(result).__name__ for result in results]
