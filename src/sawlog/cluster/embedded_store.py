"""The Store of a single broker: a tree in memory, journaled in the data directory.

A write is applied to the tree and appended to the journal. Its result, its watches and every read
that could see it wait for the fsync that covers it; one fsync covers all writes since the last.
Changes to ephemeral nodes alone are not written at once, because no later start needs them. So a
broker can stop and start on a full disk.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from sawlog.cluster.callbacks import guarded
from sawlog.cluster.disk_reserve import DiskReserve
from sawlog.cluster.store_journal import SNAPSHOT_BYTES, StoreJournal
from sawlog.cluster.store_tree import CHANGED, Applied, Watches
from sawlog.core.event_logger import EventLogger
from sawlog.core.ports import Disk, DiskError, DiskFull, Timer
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
    StoreUnavailable,
    Watch,
)

HELD_RETRY_MS = 1_000
"""Between two attempts to write the changes that are held in memory on a full disk."""
T = TypeVar("T")
logger = EventLogger("sawlog.cluster.embedded_store")


class EmbeddedStore:
    """The constructor opens the journal (StoreDamaged, DiskError) and the only session."""

    def __init__(self, disk: Disk, timer: Timer, *, snapshot_bytes: int = SNAPSHOT_BYTES) -> None:
        self._journal = StoreJournal(disk, snapshot_bytes=snapshot_bytes)
        self._timer = timer
        self._tree = self._journal.open()
        self._watches = Watches()
        self._listeners: list[Callable[[SessionState], None]] = []
        # Callbacks, each with the number of the change that must be durable before it.
        self._outbox: deque[tuple[int, Callable[[], None], Callable[[], None]]] = deque()
        self._delivery_is_due = False
        self._held_is_due = False
        self._is_full = False  # the last write failed
        self._failure: DiskError | None = None
        self.state = SessionState.CONNECTED
        self.session_id = self._tree.number + 1
        leftovers = self._tree.ephemerals()
        if leftovers:
            # The directory is locked, so the process that owned them has ended.
            self._write([Delete(path) for path in leftovers])
        self._reserve = DiskReserve(disk, timer, lambda: self.state is SessionState.LOST)
        self._reserve.refill()

    def may_have_expired(self) -> bool:
        return False  # there is no other broker that could take over

    def on_state(self, listener: Callable[[SessionState], None]) -> None:
        self._listeners.append(listener)

    def get(self, path: str, done: OnDone[Node], watch: Watch | None = None) -> None:
        def read() -> Node:
            node = self._tree.get(path)
            if watch is not None:
                self._watches.watch_node(path, watch)
            return node

        self._answer(path, read, done)

    def exists(self, path: str, done: OnDone[NodeStat | None], watch: Watch | None = None) -> None:
        def read() -> NodeStat | None:
            stat = self._tree.exists(path)
            if watch is not None:
                self._watches.watch_node(path, watch)
            return stat

        self._answer(path, read, done)

    def children(self, path: str, done: OnDone[list[str]], watch: Watch | None = None) -> None:
        def read() -> list[str]:
            names = self._tree.children(path)
            if watch is not None:
                self._watches.watch_children(path, watch)
            return names

        self._answer(path, read, done)

    def multi(
        self, operations: Sequence[Operation], done: OnDone[list[Result]], *, urgent: bool = False
    ) -> None:
        path = operations[0].path if operations else ""
        self._answer(path, lambda: self._write(operations, urgent=urgent), done)

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

        self._when_durable(closed, closed)

    def _answer(self, path: str, act: Callable[[], T], done: OnDone[T]) -> None:
        """Act on the tree now; call `done` with the result or error when it is durable."""
        result: T | StoreError
        failure: StoreError = ConnectionLost(path)
        if self.state is not SessionState.CONNECTED:
            result = failure = SessionLost(path)
        else:
            try:
                result = act()
            except StoreError as error:
                result = error
        self._when_durable(lambda: done(result), lambda: done(failure))

    def _write(self, operations: Sequence[Operation], *, urgent: bool = False) -> list[Result]:
        """Apply and journal operations, not yet durable; a StoreError leaves nothing changed."""
        applied = self._tree.apply(operations, self.session_id)
        if not applied.changes:  # only checks
            self._tree.undo()
            return applied.results
        try:
            self._record(applied, urgent=urgent)
        except DiskError as error:
            self._tree.undo()
            if not self._is_full:  # log once: the controller retries every second
                self._is_full = True
                logger.error("metadata cannot be written: free disk space", reason=error.reason)
            raise StoreUnavailable(operations[0].path, error.reason) from error
        for watch, event in self._watches.triggered(applied.changes):
            self._when_durable(partial(watch, event), _ignore)
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
                # An election; if a crash loses it, the next start repeats it.
                self._journal.hold(number, changes)
                self._write_held_later()
                return
            if not self._reserve.release(self._journal.size_of(changes)):
                raise
            self._journal.append(number, changes)
        else:
            if self._is_full:
                self._is_full = False
                logger.info("metadata can be written again")

    def _write_held_later(self) -> None:
        if not self._held_is_due:
            self._held_is_due = True
            logger.error("the disk is full: elections are kept in memory until there is space")
            self._timer.after(HELD_RETRY_MS, self._retry_held)

    def _retry_held(self) -> None:
        if self.state is SessionState.CONNECTED and not self._write_held():
            self._timer.after(HELD_RETRY_MS, self._retry_held)
        else:
            self._held_is_due = False
            logger.info("all elections are written to the disk again")

    def _write_held(self) -> bool:
        try:
            self._journal.append_held()
        except DiskError:
            return False  # logged when the first change was held
        if self._journal.last > self._journal.synced:
            self._journal.sync_later(self._synced)
        return True

    def _when_durable(self, action: Callable[[], None], failed: Callable[[], None]) -> None:
        """Call `action` when all changes up to now are durable, or `failed` if they never are."""
        self._outbox.append((self._journal.last, action, failed))
        if self._journal.last <= self._journal.synced or self._failure is not None:
            self._deliver_soon()

    def _deliver_soon(self) -> None:
        if not self._delivery_is_due:
            self._delivery_is_due = True
            self._timer.after(0, self._deliver)

    def _deliver(self) -> None:
        """Run the callbacks that are due; those that they add run in a later turn."""
        self._delivery_is_due = False
        for _ in range(len(self._outbox)):
            if not self._is_due():
                return
            _, action, failed = self._outbox.popleft()
            try:
                (action if self._failure is None else failed)()
            except BaseException:
                self._deliver_soon()  # the remaining callbacks
                raise
        if self._is_due():
            self._deliver_soon()

    def _is_due(self) -> bool:
        """Whether the first callback can run: its change is durable, or never will be."""
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
        """End the session: after a failed fsync it is unknown what a restart will find on disk."""
        logger.error("fsync of the store's journal failed; the session ends", reason=error.reason)
        self._failure = error
        self._watches.clear()
        self._deliver_soon()
        self.state = SessionState.LOST
        for listener in list(self._listeners):
            guarded(listener, self.state)


def _ignore() -> None:
    pass
