"""The Store of a single broker: the tree in this process, journaled in the data directory.

A write is checked against the tree, appended to the journal and applied; its answer, its watches,
and every read that could have seen it wait for the fsync that covers it. One fsync serves all
writes that came while the last one ran. What is only about ephemerals is not written for its own
sake, because no later start wants it: so a broker leaves, and comes back, on a full disk too.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from sawlog.cluster.callbacks import guarded
from sawlog.cluster.disk_reserve import Reserve
from sawlog.cluster.store_journal import SNAPSHOT_BYTES, Journal
from sawlog.cluster.store_tree import CHANGED, Applied, Watches
from sawlog.core.event_logger import EventLogger
from sawlog.core.ports import Disk, DiskError, DiskFull, Timer
from sawlog.core.store import (
    ConnectionLost,
    Delete,
    Done,
    Node,
    NodeStat,
    Operation,
    Result,
    SessionLost,
    SessionState,
    StoreError,
    StoreUnavailable,
    Watch,
)

HELD_MS = 1_000
"""Between two tries at what waits in memory for room."""
T = TypeVar("T")
logger = EventLogger("sawlog.cluster.embedded_store")


class EmbeddedStore:
    """Opens in the constructor; raises StoreDamaged or DiskError. One session for its life."""

    def __init__(self, disk: Disk, timer: Timer, *, snapshot_bytes: int = SNAPSHOT_BYTES) -> None:
        self._journal = Journal(disk, snapshot_bytes=snapshot_bytes)
        self._timer = timer
        self._tree = self._journal.open()
        self._watches = Watches()
        self._listeners: list[Callable[[SessionState], None]] = []
        # What is to be told, and the change that must be durable before.
        self._outbox: deque[tuple[int, Callable[[], None], Callable[[], None]]] = deque()
        self._delivery_is_due = False
        self._held_is_due = False
        self._is_refusing = False  # since the last write that found no room
        self._failure: DiskError | None = None
        self.state = SessionState.CONNECTED
        self.session_id = self._tree.number + 1
        leftovers = self._tree.ephemerals()
        if leftovers:
            # The process that owned them is gone, or this one could not have the directory.
            self._write([Delete(path) for path in leftovers])
        self._reserve = Reserve(disk, timer, lambda: self.state is SessionState.LOST)
        self._reserve.keep()

    def on_state(self, listener: Callable[[SessionState], None]) -> None:
        self._listeners.append(listener)

    def get(self, path: str, done: Done[Node], watch: Watch | None = None) -> None:
        def read() -> Node:
            node = self._tree.get(path)
            if watch is not None:
                self._watches.watch_node(path, watch)
            return node

        self._answer_read(path, read, done)

    def exists(self, path: str, done: Done[NodeStat | None], watch: Watch | None = None) -> None:
        def read() -> NodeStat | None:
            stat = self._tree.exists(path)
            if watch is not None:
                self._watches.watch_node(path, watch)
            return stat

        self._answer_read(path, read, done)

    def children(self, path: str, done: Done[list[str]], watch: Watch | None = None) -> None:
        def read() -> list[str]:
            names = self._tree.children(path)
            if watch is not None:
                self._watches.watch_children(path, watch)
            return names

        self._answer_read(path, read, done)

    def multi(
        self, operations: Sequence[Operation], done: Done[list[Result]], *, urgent: bool = False
    ) -> None:
        path = operations[0].path if operations else ""
        answer: list[Result] | StoreError
        if self.state is not SessionState.CONNECTED:
            answer = SessionLost(path)
        else:
            try:
                answer = self._write(operations, urgent=urgent)
            except StoreError as error:
                answer = error
        self._tell(lambda: done(answer), lambda: done(ConnectionLost(path)))

    def close(self, done: Callable[[], None]) -> None:
        leftovers = self._tree.ephemerals(self.session_id)
        if self.state is SessionState.CONNECTED and leftovers:
            self._write([Delete(path) for path in leftovers])
            if self._held_is_due:
                self._write_held()
        self.state = SessionState.LOST

        def closed() -> None:
            self._watches.clear()
            self._journal.close()
            done()

        self._tell(closed, closed)

    def _answer_read(self, path: str, read: Callable[[], T], done: Done[T]) -> None:
        answer: T | StoreError
        if self.state is not SessionState.CONNECTED:
            answer = SessionLost(path)
        else:
            try:
                answer = read()
            except StoreError as error:
                answer = error
        self._tell(lambda: done(answer), lambda: done(ConnectionLost(path)))

    def _write(self, operations: Sequence[Operation], *, urgent: bool = False) -> list[Result]:
        """Applied and in the journal, not yet durable; StoreError, and nothing has changed."""
        applied = self._tree.apply(operations, self.session_id)
        if not applied.changes:  # checks alone: nothing to journal
            self._tree.undo()
            return applied.results
        try:
            self._record(applied, urgent=urgent)
        except DiskError as error:
            self._tree.undo()
            if not self._is_refusing:  # the controller tries again every second
                self._is_refusing = True
                logger.error("the store's journal takes no more", reason=error.reason)
            raise StoreUnavailable(operations[0].path, error.reason) from error
        for watch, event in self._watches.triggered(applied.changes):
            self._tell(partial(watch, event), _nothing)
        if self._journal.last > self._journal.synced:
            self._journal.sync_later(self._synced)
        return applied.results

    def _record(self, applied: Applied, *, urgent: bool) -> None:
        number, _, changes = applied
        lasting = [change for change in changes if not change.owner]
        if not lasting:
            self._journal.hold(number, changes)
            return
        try:
            self._journal.append(number, changes)
        except DiskFull:
            if not urgent:
                raise
            if all(change.kind == CHANGED for change in lasting):
                # Lost in a crash, it is made again at the next start.
                self._journal.hold(number, changes)
                self._write_held_later()
                return
            if not self._reserve.give(self._journal.size_of(changes)):
                raise
            self._journal.append(number, changes)
        else:
            if self._is_refusing:
                self._is_refusing = False
                logger.info("the store's journal takes writes again")

    def _write_held_later(self) -> None:
        if not self._held_is_due:
            self._held_is_due = True
            logger.error("the disk is full: elections are kept in memory until there is room")
            self._timer.after(HELD_MS, self._try_held)

    def _try_held(self) -> None:
        if self.state is SessionState.CONNECTED and not self._write_held():
            self._timer.after(HELD_MS, self._try_held)
        else:
            self._held_is_due = False
            logger.info("nothing of the store waits for room any more")

    def _write_held(self) -> bool:
        try:
            self._journal.append_held()
        except DiskError:
            return False  # it was told when the first of it had no room
        if self._journal.last > self._journal.synced:
            self._journal.sync_later(self._synced)
        return True

    def _tell(self, action: Callable[[], None], instead: Callable[[], None]) -> None:
        """Calls `action` once all changes up to now are durable; `instead`, if they never are."""
        self._outbox.append((self._journal.last, action, instead))
        if self._journal.last <= self._journal.synced or self._failure is not None:
            self._deliver_soon()

    def _deliver_soon(self) -> None:
        if not self._delivery_is_due:
            self._delivery_is_due = True
            self._timer.after(0, self._deliver)

    def _deliver(self) -> None:
        """Everything that is due by now; what is asked from within an answer comes later."""
        self._delivery_is_due = False
        for _ in range(len(self._outbox)):
            if not self._is_due():
                return
            _, action, instead = self._outbox.popleft()
            try:
                (action if self._failure is None else instead)()
            except BaseException:
                self._deliver_soon()  # the others are not to blame
                raise
        if self._is_due():
            self._deliver_soon()

    def _is_due(self) -> bool:
        """Is there something to tell, and may it be told?"""
        outbox = self._outbox
        if not outbox:
            return False
        return outbox[0][0] <= self._journal.synced or self._failure is not None

    def _synced(self, error: DiskError | None) -> None:
        if error is not None:
            self._fail(error)
            return
        if self._journal.last > self._journal.synced:
            self._journal.sync_later(self._synced)
        elif self._journal.wants_snapshot():
            try:
                self._journal.snapshot(self._tree)
            except DiskError as failure:
                self._fail(failure)
                return
        self._deliver()

    def _fail(self, error: DiskError) -> None:
        """What was written may or may not be there after the next start: nothing more is said."""
        logger.error("the store's journal cannot be flushed", reason=error.reason)
        self._failure = error
        self._watches.clear()
        self._deliver_soon()
        self.state = SessionState.LOST
        for listener in list(self._listeners):
            guarded(listener, self.state)


def _nothing() -> None:
    pass
