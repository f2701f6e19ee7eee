"""The threads on which the real disk waits for fsync, and the way back to the loop.

A task is a plain call that may block; what it returns or raises comes back on the loop's thread.
Completions that arrive together are handed over with one wake-up of the loop.
"""

import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

from sawlog.core.event_logger import EventLogger
from sawlog.core.ports import DiskError

Task = Callable[[], None]
Done = Callable[[DiskError | None], None]
Notify = Callable[[Callable[[], None]], object]

logger = EventLogger(__name__)


class DiskThreads:
    """Up to `limit` daemon threads, started as work comes; `notify` is call_soon_threadsafe."""

    def __init__(self, notify: Notify, *, limit: int = 16) -> None:
        self._notify = notify
        self._limit = limit
        self._tasks: SimpleQueue[tuple[Task, Done] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._under_way = 0  # touched by the loop's thread alone
        self._finished: deque[tuple[Done, DiskError | None]] = deque()
        self._lock = threading.Lock()
        self._wake_up_sent = False

    @property
    def under_way(self) -> int:
        """Tasks given whose `done` was not called yet."""
        return self._under_way

    def run(self, task: Task, done: Done) -> None:
        """Never raises: where there is no thread at all to be had, `done` gets the DiskError."""
        self._under_way += 1
        if self._under_way > len(self._threads) < self._limit:
            self._start_thread()
        if self._threads:
            self._tasks.put((task, done))
        else:
            self._finish(done, DiskError("", "the system grants no thread to work on"))

    def stop(self) -> None:
        """Ends the threads after what they are doing; queued tasks before this call still run."""
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
                "cannot start a disk thread", threads=len(self._threads), reason=str(error)
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
            except Exception as failure:  # a bug, but the loop must hear of it all the same
                logger.exception("a disk task broke")
                error = DiskError("", repr(failure))
            if not self._finish(done, error):
                return

    def _finish(self, done: Done, error: DiskError | None) -> bool:
        """On any thread; whether the loop will hear of it."""
        with self._lock:
            self._finished.append((done, error))
            is_first = not self._wake_up_sent
            self._wake_up_sent = True
        if is_first:
            try:
                self._notify(self.deliver)
            except RuntimeError:
                return False  # the loop is closed: nobody waits any more
        return True

    def deliver(self) -> None:
        """On the loop's thread: answers everything that has finished."""
        with self._lock:
            self._wake_up_sent = False
            finished = tuple(self._finished)
            self._finished.clear()
        self._under_way -= len(finished)
        for done, error in finished:
            try:
                done(error)
            except Exception:
                logger.exception("the answer to a disk task broke")
