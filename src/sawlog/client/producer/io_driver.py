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

_MIN_NAP_MS = 1.0
_MAX_NAP_MS = 20.0
_AWAKE_MS = 1_000  # so long after the last record the thread naps, and then sleeps until rung for
_MAX_WAIT_MS = 1_000
_STOPPED = -1.0

_logger = EventLogger("sawlog.client.producer.producer")


class IoDriver:
    """`lock` guards the sender, its batches and what the producer keeps of them."""

    def __init__(self, sender: Sender, linger_ms: float) -> None:
        self._sender = sender
        self._nap_ms = min(max(linger_ms, _MIN_NAP_MS), _MAX_NAP_MS)
        self.lock = threading.Lock()
        self._changed = threading.Condition(self.lock)
        self.is_stopped = False
        # Who waits for the network, and for what
        self._has_network_waiter = False
        self._waiter_descriptors: frozenset[int] = frozenset()
        self._waiter_until_ms = 0.0
        self._network_wakeup = Wakeup()
        self._blocked_callers = 0
        # The thread
        self._thread: threading.Thread | None = None
        self._thread_wakeup = Wakeup()
        self._is_asleep = False
        self._last_round_ms = 0.0
        self._last_busy_ms = 0.0
        # Callbacks in order, and who calls them
        self._callbacks: deque[Callable[[], None]] = deque()
        self._callback_lock = threading.Lock()
        self._callback_thread: int | None = None

    # Under the lock

    def run_round(self, now: float) -> None:
        """A round in the caller's thread, without waiting."""
        self._last_round_ms = now
        self._sender.run_once()
        if self._has_network_waiter:
            self._wake_network_waiter(flushing=False)

    def wake(self) -> None:
        """There is something to look after."""
        if self._thread is None:
            self._start()
        elif self._is_asleep:
            self._is_asleep = False
            self._thread_wakeup.signal()

    def pause(self, wait_ms: float) -> None:
        """Others have the lock meanwhile."""
        self._run_unlocked(lambda: time.sleep(wait_ms / 1_000))

    def queue_callbacks(self, callbacks: list[Callable[[], None]]) -> None:
        self._callbacks.extend(callbacks)

    # Without the lock

    def run_until(self, is_done: Callable[[], bool], timeout_ms: float | None = None) -> bool:
        """Sends all and waits until `is_done`, which is asked under the lock; False where the time
        is up before.
        """
        deadline = Deadline(float("inf") if timeout_ms is None else timeout_ms)
        with self.lock:
            self._blocked_callers += 1
            try:
                while True:
                    if not self.is_stopped:
                        self._sender.run_once(flushing=True)
                    if is_done() or deadline.has_passed:
                        return is_done()
                    if self.is_stopped:
                        raise ClientError("the producer was closed before all had an outcome")
                    if self._callbacks and self._callback_thread is None:
                        self._run_unlocked(self.run_callbacks)
                    elif self._has_network_waiter:
                        self._wake_network_waiter(flushing=True)
                        wait_ms = min(deadline.remaining_ms, _MAX_WAIT_MS)
                        self._changed.wait(wait_ms / 1_000)
                    else:
                        self._wait_for_network(deadline.remaining_ms, flushing=True)
            finally:
                self._blocked_callers -= 1

    def run_callbacks(self, *, wait: bool = False) -> None:
        """Calls what waits to be called, one at a time and in order, whichever thread does it;
        `wait`: until all of it was.
        """
        me = threading.get_ident()
        if self._callback_thread == me:
            return  # from within a callback
        while self._callbacks:
            if not self._callback_lock.acquire(blocking=wait):
                return
            self._callback_thread = me
            try:
                while self._callbacks:
                    self._call(self._callbacks.popleft())
            finally:
                self._callback_thread = None
                self._callback_lock.release()
        if wait:
            with self._callback_lock:
                pass

    def stop(self) -> None:
        with self.lock:
            self.is_stopped = True
            self._changed.notify_all()
        self._network_wakeup.signal()
        self._thread_wakeup.signal()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def close(self) -> None:
        self._network_wakeup.close()
        self._thread_wakeup.close()

    def run_thread_turn(self) -> float | None:
        """One turn of the thread: for how many milliseconds it has nothing to do; None: until it
        is rung for.
        """
        with self.lock:
            now = now_ms()
            if self.is_stopped:
                return _STOPPED
            if self._sender.is_idle:
                if now - self._last_busy_ms < _AWAKE_MS:
                    return self._nap_ms
                self._is_asleep = True
                return None
            self._last_busy_ms = now
            if self._blocked_callers or now - self._last_round_ms < self._nap_ms:
                return self._nap_ms
            self._sender.run_once()
            if not self._sender.is_idle and not self._callbacks and not self._has_network_waiter:
                self._wait_for_network(_MAX_WAIT_MS, flushing=False)
                self._sender.run_once()
        self.run_callbacks()
        return 0.0

    def _wait_for_network(self, longest_ms: float, *, flushing: bool) -> None:
        """Waits for the network with the lock released."""
        descriptors, wait_ms = self._sender.next_wait(flushing=flushing)
        wait_ms = min(wait_ms, longest_ms)
        try:
            self._has_network_waiter = True
            self._waiter_descriptors = frozenset(descriptors)
            self._waiter_until_ms = now_ms() + wait_ms
            self._run_unlocked(lambda: self._network_wakeup.wait(wait_ms, descriptors))
        finally:
            self._has_network_waiter = False
            self._changed.notify_all()

    def _wake_network_waiter(self, *, flushing: bool) -> None:
        """Has it look again, where there is something that it does not wait for."""
        descriptors, wait_ms = self._sender.next_wait(flushing=flushing)
        is_late = now_ms() + wait_ms < self._waiter_until_ms - _MIN_NAP_MS
        if is_late or not self._waiter_descriptors.issuperset(descriptors):
            self._network_wakeup.signal()

    def _run_unlocked(self, act: Callable[[], None]) -> None:
        try:
            self.lock.release()
            act()
        finally:
            self.lock.acquire()

    def _start(self) -> None:
        wakeup = self._thread_wakeup
        me = weakref.ref(self, lambda _: wakeup.signal())
        self._last_busy_ms = now_ms()
        self._thread = threading.Thread(
            target=_run_thread, args=(me, wakeup), name="sawlog-producer", daemon=True
        )
        self._thread.start()

    def _call(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception:  # it is not the producer's, and the next one still has to be called
            _logger.exception("a callback of a delivery failed")


def _run_thread(who: "weakref.ref[IoDriver]", wakeup: Wakeup) -> None:
    """Holds the producer only while there is something to do, so that one may be dropped."""
    while (mover := who()) is not None:
        wait_ms = mover.run_thread_turn()
        del mover
        if wait_ms == _STOPPED:
            return
        wakeup.wait(wait_ms)
