"""What moves a producer's data: the callers' threads while they call, one of its own otherwise.

A caller that sends or waits does the work itself, which spares a handover for every batch. The
thread looks after what callers leave behind: records that have lingered, answers, retries. One at a
time waits for the network; the others wait for that one.
"""

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable

from sawlog.client.errors import ClientError
from sawlog.client.net.retries import Deadline
from sawlog.client.net.wakeup import Wakeup
from sawlog.client.producer.sender import Sender, now_ms
from sawlog.core.event_logger import EventLogger

_LEAST_NAP_MS = 1.0
_LONGEST_NAP_MS = 20.0
_AWAKE_MS = 1_000  # so long after the last record the thread naps, and then sleeps until rung for
_LONGEST_WAIT_MS = 1_000
_OVER = -1.0

_logger = EventLogger("sawlog.client.producer.producer")


class IoDriver:
    """`lock` guards the sender, its batches and what the producer keeps of them."""

    def __init__(self, sender: Sender, linger_ms: float) -> None:
        self._sender = sender
        self._nap_ms = min(max(linger_ms, _LEAST_NAP_MS), _LONGEST_NAP_MS)
        self.lock = threading.Lock()
        self._changed = threading.Condition(self.lock)
        self.is_stopped = False
        # Who waits for the network, and for what
        self._is_watched = False
        self._watched: frozenset[int] = frozenset()
        self._watched_until_ms = 0.0
        self._watch_bell = Wakeup()
        self._driver_count = 0
        # The thread
        self._thread: threading.Thread | None = None
        self._thread_bell = Wakeup()
        self._is_asleep = False
        self._moved_ms = 0.0
        self._busy_ms = 0.0
        # Callbacks in order, and who calls them
        self._callbacks: deque[Callable[[], None]] = deque()
        self._calling = threading.Lock()
        self._caller: int | None = None

    # Under the lock

    def moves(self, now: float) -> None:
        """A round in the caller's thread, without waiting."""
        self._moved_ms = now
        self._sender.round()
        if self._is_watched:
            self._tell_watcher(flushing=False)

    def wake(self) -> None:
        """There is something to look after."""
        if self._thread is None:
            self._start()
        elif self._is_asleep:
            self._is_asleep = False
            self._thread_bell.ring()

    def pause(self, wait_ms: float) -> None:
        """Others have the lock meanwhile."""
        self._release_and(lambda: time.sleep(wait_ms / 1_000))

    def call_later(self, callbacks: list[Callable[[], None]]) -> None:
        self._callbacks.extend(callbacks)

    # Without the lock

    def drive(self, is_done: Callable[[], bool], timeout_ms: float | None = None) -> bool:
        """Sends all and waits until `is_done`, which is asked under the lock; False where the time
        is up before.
        """
        deadline = Deadline(float("inf") if timeout_ms is None else timeout_ms)
        with self.lock:
            self._driver_count += 1
            try:
                while True:
                    if not self.is_stopped:
                        self._sender.round(flushing=True)
                    if is_done() or deadline.has_passed:
                        return is_done()
                    if self.is_stopped:
                        raise ClientError("the producer was closed before all had an outcome")
                    if self._callbacks and self._caller is None:
                        self._release_and(self.call_back)
                    elif self._is_watched:
                        self._tell_watcher(flushing=True)
                        wait_ms = min(deadline.remaining_ms, _LONGEST_WAIT_MS)
                        self._changed.wait(wait_ms / 1_000)
                    else:
                        self._watch(deadline.remaining_ms, flushing=True)
            finally:
                self._driver_count -= 1

    def call_back(self, *, wait: bool = False) -> None:
        """Calls what waits to be called, one at a time and in order, whichever thread does it;
        `wait`: until all of it was.
        """
        me = threading.get_ident()
        if self._caller == me:
            return  # from within a callback
        while self._callbacks:
            if not self._calling.acquire(blocking=wait):
                return
            self._caller = me
            try:
                while self._callbacks:
                    self._call(self._callbacks.popleft())
            finally:
                self._caller = None
                self._calling.release()
        if wait:
            with self._calling:
                pass

    def stop(self) -> None:
        with self.lock:
            self.is_stopped = True
            self._changed.notify_all()
        self._watch_bell.ring()
        self._thread_bell.ring()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def close(self) -> None:
        self._watch_bell.close()
        self._thread_bell.close()

    def attend(self) -> float | None:
        """One turn of the thread: for how many milliseconds it has nothing to do; None: until it
        is rung for.
        """
        with self.lock:
            now = now_ms()
            if self.is_stopped:
                return _OVER
            if self._sender.is_idle:
                if now - self._busy_ms < _AWAKE_MS:
                    return self._nap_ms
                self._is_asleep = True
                return None
            self._busy_ms = now
            if self._driver_count or now - self._moved_ms < self._nap_ms:
                return self._nap_ms
            self._sender.round()
            if not self._sender.is_idle and not self._callbacks and not self._is_watched:
                self._watch(_LONGEST_WAIT_MS, flushing=False)
                self._sender.round()
        self.call_back()
        return 0.0

    def _watch(self, longest_ms: float, *, flushing: bool) -> None:
        """Waits for the network with the lock released."""
        descriptors, wait_ms = self._sender.awaited(flushing=flushing)
        wait_ms = min(wait_ms, longest_ms)
        try:
            self._is_watched = True
            self._watched = frozenset(descriptors)
            self._watched_until_ms = now_ms() + wait_ms
            self._release_and(lambda: self._watch_bell.wait(wait_ms, descriptors))
        finally:
            self._is_watched = False
            self._changed.notify_all()

    def _tell_watcher(self, *, flushing: bool) -> None:
        """Has it look again, where there is something that it does not wait for."""
        descriptors, wait_ms = self._sender.awaited(flushing=flushing)
        is_late = now_ms() + wait_ms < self._watched_until_ms - _LEAST_NAP_MS
        if is_late or not self._watched.issuperset(descriptors):
            self._watch_bell.ring()

    def _release_and(self, act: Callable[[], None]) -> None:
        try:
            self.lock.release()
            act()
        finally:
            self.lock.acquire()

    def _start(self) -> None:
        bell = self._thread_bell
        me = weakref.ref(self, lambda _: bell.ring())
        self._busy_ms = now_ms()
        self._thread = threading.Thread(
            target=_keep_moving, args=(me, bell), name="sawlog-producer", daemon=True
        )
        self._thread.start()

    def _call(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception:  # it is not the producer's, and the next one still has to be called
            _logger.exception("a callback of a delivery failed")


def _keep_moving(who: "weakref.ref[IoDriver]", bell: Wakeup) -> None:
    """Holds the producer only while there is something to do, so that one may be dropped."""
    while (mover := who()) is not None:
        wait_ms = mover.attend()
        del mover
        if wait_ms == _OVER:
            return
        bell.wait(wait_ms)
