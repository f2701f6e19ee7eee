"""The Store port in a simulation: one tree, many clients, and sessions that fail on demand.

Requests and responses take a delay drawn from the seed and keep their order. `suspend` cuts a
connection: pending calls fail with ConnectionLost, and the seed decides whether they took effect.
`expire` ends a session: its ephemerals are deleted, and the client starts a new session.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sawlog.cluster.store_tree import Change, StoreTree, Watches
from sawlog.core.store import (
    ConnectionLost,
    Delete,
    Node,
    NodeStat,
    OnDone,
    Operation,
    Result,
    SessionLost,
    SessionState,
    StoreError,
    Watch,
)
from sawlog.simulation.schedule import Schedule, SeededRandom

MAX_DELAY_MS = 3
SESSION_TIMEOUT_MS = 6_000


class StoreService:
    """The tree and its live sessions; stands for a ZooKeeper ensemble."""

    def __init__(self, schedule: Schedule, seed: int = 0) -> None:
        self.schedule = schedule
        self.random = SeededRandom(seed)
        self.tree = StoreTree()
        self._last_session = 0
        self._clients: dict[int, SimulatedStore] = {}

    def connect(self) -> "SimulatedStore":
        return SimulatedStore(self)

    def delay_ms(self) -> int:
        return self.random.below(MAX_DELAY_MS + 1)

    def begin_session(self, client: "SimulatedStore") -> int:
        self._last_session += 1
        self._clients[self._last_session] = client
        return self._last_session

    def end_session(self, session: int) -> None:
        """Delete the ephemerals of a session; the watches of other sessions fire."""
        self._clients.pop(session, None)
        leftovers = self.tree.ephemerals(session)
        if leftovers:
            self.write([Delete(path) for path in leftovers], session)

    def write(self, operations: Sequence[Operation], session: int) -> list[Result]:
        applied = self.tree.apply(operations, session)
        if not applied.changes:
            self.tree.undo()
        for client in list(self._clients.values()):
            client.fire_watches(applied.changes)
        return applied.results


class _Call:
    """One pending call: its action on the tree, and its callback."""

    __slots__ = ("act", "done", "path")

    def __init__(self, path: str, act: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.path = path
        self.act = act
        self.done = done


class SimulatedStore:
    """One client of the service. `crash` leaves its session open, as a dead process does."""

    def __init__(self, service: StoreService) -> None:
        self._service = service
        self._listeners: list[Callable[[SessionState], None]] = []
        self._connection = 0
        self._calls: deque[_Call] = deque()
        self._replies: deque[Callable[[], None]] = deque()
        self._unanswered: dict[_Call, None] = {}
        self._watches = Watches()
        self._is_dead = False
        self._suspended_ms = 0
        self.state = SessionState.CONNECTED
        self.session_id = service.begin_session(self)

    def may_have_expired(self) -> bool:
        """While connected, the client counts as heard from all the time."""
        if self.state is not SessionState.SUSPENDED:
            return self.state is SessionState.LOST
        suspended_for_ms = self._service.schedule.monotonic_ms() - self._suspended_ms
        return suspended_for_ms >= SESSION_TIMEOUT_MS

    def on_state(self, listener: Callable[[SessionState], None]) -> None:
        self._listeners.append(listener)

    # Calls

    def get(self, path: str, done: OnDone[Node], watch: Watch | None = None) -> None:
        def act() -> Node:
            node = self._service.tree.get(path)
            if watch is not None:
                self._watches.watch_node(path, watch)
            return node

        self._send(_Call(path, act, done))

    def exists(self, path: str, done: OnDone[NodeStat | None], watch: Watch | None = None) -> None:
        def act() -> NodeStat | None:
            stat = self._service.tree.exists(path)
            if watch is not None:
                self._watches.watch_node(path, watch)
            return stat

        self._send(_Call(path, act, done))

    def children(self, path: str, done: OnDone[list[str]], watch: Watch | None = None) -> None:
        def act() -> list[str]:
            names = self._service.tree.children(path)
            if watch is not None:
                self._watches.watch_children(path, watch)
            return names

        self._send(_Call(path, act, done))

    def multi(
        self,
        operations: Sequence[Operation],
        done: OnDone[list[Result]],
        *,
        urgent: bool = False,  # noqa: ARG002 - this store never runs out of space
    ) -> None:
        path = operations[0].path if operations else ""
        copied = list(operations)
        self._send(_Call(path, lambda: self._service.write(copied, self.session_id), done))

    def close(self, done: Callable[[], None]) -> None:
        def act() -> None:
            self._service.end_session(self.session_id)

        def closed(_: object) -> None:
            self.state = SessionState.LOST
            self._watches.clear()
            done()

        self._send(_Call("", act, closed))

    # Requests and responses

    def _send(self, call: _Call) -> None:
        self._unanswered[call] = None
        if self.state is not SessionState.CONNECTED:
            lost = SessionLost if self.state is SessionState.LOST else ConnectionLost
            self._service.schedule.soon(partial(self._answer, call, lost(call.path)))
            return
        self._calls.append(call)
        self._later(self._arrive)

    def _later(self, action: Callable[[], None]) -> None:
        """Run `action` after a delay, unless the connection was cut by then."""
        connection = self._connection

        def due() -> None:
            if connection == self._connection and not self._is_dead:
                action()

        self._service.schedule.after(self._service.delay_ms(), due)

    def _arrive(self) -> None:
        """The oldest call reaches the tree; calls keep their order, whatever their delays."""
        call = self._calls.popleft()
        answer: Any
        try:
            answer = call.act()
        except StoreError as error:
            answer = error
        self._reply(partial(self._answer, call, answer))

    def fire_watches(self, changes: Sequence[Change]) -> None:
        """Send the events of all watches that these changes trigger."""
        for watch, event in self._watches.triggered(changes):
            self._reply(partial(watch, event))

    def _reply(self, action: Callable[[], None]) -> None:
        self._replies.append(action)
        self._later(self._deliver)

    def _deliver(self) -> None:
        self._replies.popleft()()

    def _answer(self, call: _Call, answer: Any) -> None:
        if self._unanswered.pop(call, call) is None and not self._is_dead:
            call.done(answer)

    # Faults

    def suspend(self) -> None:
        """Cut the connection. Pending calls fail; the seed decides which of them took effect."""
        assert self.state is SessionState.CONNECTED
        self._break_connection()
        self._suspended_ms = self._service.schedule.monotonic_ms()
        self._change(SessionState.SUSPENDED)

    def resume(self) -> None:
        """Restore the connection before the session times out."""
        assert self.state is SessionState.SUSPENDED
        self._change(SessionState.CONNECTED)

    def expire(self) -> None:
        """End the session; the client is notified and starts a new one."""
        self._break_connection()
        self._service.end_session(self.session_id)
        if self._is_dead:
            return
        self._change(SessionState.LOST)
        self._service.schedule.after(1 + self._service.delay_ms(), self._reconnect)

    def crash(self) -> None:
        """End the client's process without closing its session; `expire` ends the session later."""
        self._is_dead = True
        self._watches.clear()

    def _break_connection(self) -> None:
        while self._calls:
            call = self._calls.popleft()
            if self._service.random.below(2):
                try:
                    call.act()
                except StoreError:
                    pass
        self._connection += 1
        self._replies.clear()
        self._watches.clear()
        for call in list(self._unanswered):
            self._service.schedule.soon(partial(self._answer, call, ConnectionLost(call.path)))

    def _reconnect(self) -> None:
        if not self._is_dead:
            self.session_id = self._service.begin_session(self)
            self._change(SessionState.CONNECTED)

    def _change(self, state: SessionState) -> None:
        self.state = state
        for listener in list(self._listeners):
            listener(state)
