"""The Store port in a simulation: one tree, many clients, and sessions that fail on demand.

Requests and responses take a delay drawn from the seed and keep their order. `suspend` cuts a
connection: pending calls fail with ConnectionLost, and the seed decides whether they took effect.
`expire` ends a session: its ephemerals are deleted, and the client starts a new session. With a
session timeout, the service itself ends the session of a client that it has not heard of.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sawlog.cluster.store_tree import Change, StoreTree, Watches
from sawlog.core.ports import Timer
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
from sawlog.simulation.schedule import Schedule, SeededRandom, TimerScope

MAX_DELAY_MS = 3
SESSION_TIMEOUT_MS = 6_000
"""What a client counts with if the service has no timeout of its own."""
RECONNECT_MS = 100
"""Delay before a client without a session asks again for one, while the service does not answer."""

OnWrite = Callable[[Sequence[Operation], int, Sequence[Change]], None]
"""Called after each write with its operations, its session and the changes of the tree."""


class StoreService:
    """The tree and its live sessions; stands for a ZooKeeper ensemble."""

    def __init__(
        self, schedule: Schedule, seed: int = 0, *, session_timeout_ms: int | None = None
    ) -> None:
        """Without a timeout, sessions end only on demand."""
        self.schedule = schedule
        self.random = SeededRandom(seed)
        self.tree = StoreTree()
        self.session_timeout_ms = session_timeout_ms
        self.is_available = True
        self.on_write: OnWrite | None = None
        self._last_session = 0
        self._clients: dict[int, SimulatedStore] = {}

    def connect(self, scope: TimerScope | None = None) -> "SimulatedStore":
        """Return a client whose callbacks run in `scope`, that of its process."""
        return SimulatedStore(self, scope or self.schedule.scope())

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
        if self.on_write is not None:
            self.on_write(operations, session, applied.changes)
        return applied.results

    def stop(self) -> None:
        """Stop answering, as an ensemble without a quorum; sessions do not time out meanwhile."""
        self.is_available = False
        for client in list(self._clients.values()):
            client.lose_service()

    def start(self) -> None:
        """Answer again; every session has its full timeout, as after an election in ZooKeeper."""
        self.is_available = True
        for client in list(self._clients.values()):
            client.find_service()


class _Call:
    """One pending call: its action on the tree, and its callback."""

    __slots__ = ("act", "done", "path")

    def __init__(self, path: str, act: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.path = path
        self.act = act
        self.done = done


class SimulatedStore:
    """One client of the service. `crash` leaves its session open, as a dead process does."""

    def __init__(self, service: StoreService, scope: TimerScope) -> None:
        self._service = service
        self._scope = scope
        self._listeners: list[Callable[[SessionState], None]] = []
        self._connection = 0
        self._calls: deque[_Call] = deque()
        self._replies: deque[Callable[[], None]] = deque()
        self._unanswered: dict[_Call, None] = {}
        self._watches = Watches()
        self._is_dead = False
        self._silent_since_ms: int | None = None  # when its last answered ping was sent
        self._is_cut = False  # whether `suspend` lasts
        self._is_held = False  # whether `hold` lasts
        self._held = 0  # calls that would have reached the service since `hold`
        self._is_expired = False  # whether the session ended while the client was cut off
        self._silences = 0  # how often the service stopped or began to hear of this client
        self.session_id = 0
        self.state = SessionState.LOST
        if service.is_available:
            self.state = SessionState.CONNECTED
            self.session_id = service.begin_session(self)
        else:
            self._scope.after(RECONNECT_MS, self._reconnect)

    @property
    def has_calls_under_way(self) -> bool:
        """Whether calls may still reach the service, even after the end of the process."""
        return bool(self._calls)

    def may_have_expired(self) -> bool:
        """While connected, the client counts as heard from all the time."""
        if self.state is SessionState.LOST or self._silent_since_ms is None:
            return self.state is SessionState.LOST
        silent_ms = self._service.schedule.monotonic_ms() - self._silent_since_ms
        return silent_ms >= (self._service.session_timeout_ms or SESSION_TIMEOUT_MS)

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
            self._scope.after(0, partial(self._answer, call, lost(call.path)))
            return
        self._calls.append(call)
        self._later(self._service.schedule, self._arrive)

    def _later(self, timer: Timer, action: Callable[[], None]) -> None:
        """Run `action` after a delay, unless the connection was cut by then."""
        connection = self._connection

        def due() -> None:
            if connection == self._connection and not self._is_dead:
                action()

        timer.after(self._service.delay_ms(), due)

    def _arrive(self) -> None:
        """The oldest call reaches the tree; calls keep their order, whatever their delays."""
        if self._is_held:
            self._held += 1
            return
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
        self._later(self._scope, self._deliver)

    def _deliver(self) -> None:
        self._replies.popleft()()

    def _answer(self, call: _Call, answer: Any) -> None:
        if self._unanswered.pop(call, call) is None and not self._is_dead:
            call.done(answer)

    # Faults

    def hold(self) -> None:
        """Let calls take until `release` to reach the service; pings and answers still arrive."""
        self._is_held = True

    def release(self) -> None:
        """Let the held calls reach the service now, in their order."""
        self._is_held = False
        held, self._held = self._held, 0
        for _ in range(held):
            self._arrive()

    def suspend(self) -> None:
        """Cut the connection. Pending calls fail; the seed decides which of them took effect."""
        assert self.state is SessionState.CONNECTED
        self._is_cut = True
        self._lose_connection()

    def resume(self) -> None:
        """Restore the connection; a session that has timed out meanwhile is lost."""
        self._is_cut = False
        if self._is_expired:
            self._is_expired = False
            self._scope.run(self._lose_session)
        else:
            self._scope.run(self._restore_connection)

    def expire(self) -> None:
        """End the session; the client is notified and starts a new one."""
        self._is_cut = self._is_expired = False
        self._end_session()

    def _end_session(self) -> None:
        self._break_connection()
        self._service.end_session(self.session_id)
        if self._is_dead:
            return
        self._scope.run(self._lose_session)

    def crash(self) -> None:
        """End the client's process without closing its session; `expire` ends the session later,
        or the service does after the session timeout."""
        self._is_dead = True
        self._watches.clear()
        self.fall_silent()

    def fall_silent(self) -> None:
        """Send no pings any more; the session ends after its timeout, unless `hear` comes first."""
        self._silences += 1
        if self._silent_since_ms is None:
            self._silent_since_ms = self._service.schedule.monotonic_ms()
        if self._service.session_timeout_ms is not None and self.session_id:
            expire = partial(self._time_out, self._silences)
            self._service.schedule.after(self._service.session_timeout_ms, expire)

    def hear(self) -> None:
        """The service hears of the client again."""
        self._silences += 1

    def be_heard(self) -> None:
        """Send pings again, after `fall_silent`."""
        if self._is_cut or not self._service.is_available:
            self.fall_silent()
        else:
            self.hear()
            self._scope.after(1 + self._service.delay_ms(), self._pinged)

    def _pinged(self) -> None:
        """The answer to a ping arrived."""
        if self.state is SessionState.CONNECTED:
            self._silent_since_ms = None

    def lose_service(self) -> None:
        """The whole service stopped."""
        self.hear()  # sessions do not time out before it starts again
        if self.state is SessionState.CONNECTED and not self._is_dead:
            self._lose_connection()
            self.hear()

    def find_service(self) -> None:
        """The whole service started."""
        if self._is_dead or self._is_cut:
            self.fall_silent()
        else:
            self.resume()

    def _time_out(self, silence: int) -> None:
        """The session ends; a client that is cut off learns it when it connects again."""
        if silence != self._silences or not self._service.is_available:
            return
        if self._is_cut and not self._is_dead:
            self._is_expired = True
            self._service.end_session(self.session_id)
        else:
            self._end_session()

    def _restore_connection(self) -> None:
        if self.state is SessionState.SUSPENDED and self._service.is_available:
            self.hear()
            self._silent_since_ms = None
            self._change(SessionState.CONNECTED)

    def _lose_connection(self) -> None:
        self._break_connection()
        self.fall_silent()
        self._scope.run(self._suspended)

    def _suspended(self) -> None:
        if self.state is SessionState.CONNECTED:  # a paused client may have lost the session first
            self._change(SessionState.SUSPENDED)

    def _lose_session(self) -> None:
        self._change(SessionState.LOST)
        self._scope.after(1 + self._service.delay_ms(), self._reconnect)

    def _break_connection(self) -> None:
        while self._calls:
            call = self._calls.popleft()
            if self._service.random.below(2):
                try:
                    call.act()
                except StoreError:
                    pass
        self._connection += 1
        self._held = 0
        self._replies.clear()
        self._watches.clear()
        for call in list(self._unanswered):
            self._scope.after(0, partial(self._answer, call, ConnectionLost(call.path)))

    def _reconnect(self) -> None:
        if self._is_dead or self.state is not SessionState.LOST:
            return
        if self._is_cut or not self._service.is_available:
            self._scope.after(RECONNECT_MS, self._reconnect)
        else:
            self.hear()
            self._silent_since_ms = None
            self.session_id = self._service.begin_session(self)
            self._change(SessionState.CONNECTED)

    def _change(self, state: SessionState) -> None:
        if state is self.state:
            return
        self.state = state
        for listener in list(self._listeners):
            listener(state)
