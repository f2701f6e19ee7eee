"""Threads for blocking disk calls.

A task is a plain call that may block; its `done` is called on the loop's thread. Tasks that finish
together wake up the loop once.
"""

import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

from sawlog.core.event_logger import EventLogger
from sawlog.core.ports import DiskError

Task = Callable[[], None]
OnDone = Callable[[DiskError | None], None]
Notify = Callable[[Callable[[], None]], object]

logger = EventLogger(__name__)


class DiskThreads:
    """Up to `limit` daemon threads, started on demand; `notify` is call_soon_threadsafe."""

    def __init__(self, notify: Notify, *, limit: int = 16) -> None:
        self._notify = notify
        self._limit = limit
        self._tasks: SimpleQueue[tuple[Task, OnDone] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._under_way = 0  # used by the loop's thread only
        self._finished: deque[tuple[OnDone, DiskError | None]] = deque()
        self._lock = threading.Lock()
        self._wake_up_sent = False

    @property
    def under_way(self) -> int:
        """The number of tasks whose `done` was not called yet."""
        return self._under_way

    def run(self, task: Task, done: OnDone) -> None:
        """Run a task. Never raises: without any thread, `done` gets a DiskError."""
        self._under_way += 1
        if self._under_way > len(self._threads) < self._limit:
            self._start_thread()
        if self._threads:
            self._tasks.put((task, done))
        else:
            self._finish(done, DiskError("", "cannot start a disk thread"))

    def stop(self) -> None:
        """Stop the threads after the tasks that are queued."""
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._work, name=f"disk-{len(self._threads)}", daemon=True)
        try:
            thread.start()
        except (RuntimeError, MemoryError) as error:
            logger.warning(
                "cannot start a disk thread; using fewer",
                threads=len(self._threads),
                reason=str(error),
            )
        else:
            self._threads.append(thread)

    def _work(self) -> None:
        while (item := self._tasks.get()) is not None:
            task, done = item
            error: DiskError | None = None
            try:
                task()
            except DiskError as failure:
                error = failure
            except Exception as failure:  # a bug; `done` must be called anyway
                logger.exception("exception in a disk task")
                error = DiskError("", repr(failure))
            if not self._finish(done, error):
                return

    def _finish(self, done: OnDone, error: DiskError | None) -> bool:
        """Queue a `done` for the loop, on any thread; False if the loop is closed."""
        with self._lock:
            self._finished.append((done, error))
            is_first = not self._wake_up_sent
            self._wake_up_sent = True
        if is_first:
            try:
                self._notify(self.deliver)
            except RuntimeError:
                return False
        return True

    def deliver(self) -> None:
        """Call the `done` of all finished tasks, on the loop's thread."""
        with self._lock:
            self._wake_up_sent = False
            finished = tuple(self._finished)
            self._finished.clear()
        self._under_way -= len(finished)
        for done, error in finished:
            try:
                done(error)
            except Exception:
                logger.exception("exception in the callback of a disk task")
