"""Decides which thread does a producer's network IO: a caller's, or the producer's own.

A caller that sends or waits does the IO itself, which saves a thread switch per batch. The
background thread handles what no caller does: lingering batches, responses, retries. One thread at
a time waits for the network; the others wait for that one.
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
_AWAKE_MS = 1_000  # the thread naps until this long after the last batch, then sleeps
_MAX_WAIT_MS = 1_000
_STOPPED = -1.0

_logger = EventLogger("sawlog.client.producer.producer")


class IoDriver:
    """`lock` guards the sender, its batches and the producer's counters."""

    def __init__(self, sender: Sender, linger_ms: float) -> None:
        self._sender = sender
        self._accumulator = sender.accumulator
        self._nap_ms = min(max(linger_ms, _MIN_NAP_MS), _MAX_NAP_MS)
        self.lock = threading.Lock()
        self._changed = threading.Condition(self.lock)
        self.is_stopped = False
        # The thread that waits for the network
        self._has_network_waiter = False
        self._waiter_descriptors: frozenset[int] = frozenset()
        self._waiter_until_ms = 0.0
        self._network_wakeup = Wakeup()
        self._blocked_callers = 0
        # The background thread
        self._thread: threading.Thread | None = None
        self._thread_wakeup = Wakeup()
        self._is_asleep = False
        self._last_round_ms = 0.0
        self._last_busy_ms = 0.0
        # Callbacks in order, and the thread that runs them
        self._callbacks: deque[Callable[[], None]] = deque()
        self._callback_lock = threading.Lock()
        self._callback_thread: int | None = None

    # Called with the lock held

    def run_round(self, now: float) -> None:
        """Send and receive in the caller's thread, without waiting."""
        self._last_round_ms = now
        self._sender.run_once()
        if self._has_network_waiter:
            self._wake_network_waiter(flushing=False)

    def wake(self) -> None:
        """Start or wake the background thread: there is a batch."""
        if self._thread is None:
            self._start()
        elif self._is_asleep:
            self._is_asleep = False
            self._thread_wakeup.signal()

    def sleep_unlocked(self, wait_ms: float) -> None:
        self._run_unlocked(lambda: time.sleep(wait_ms / 1_000))

    def queue_callbacks(self, callbacks: list[Callable[[], None]]) -> None:
        self._callbacks.extend(callbacks)

    # Called without the lock

    def run_until(self, is_done: Callable[[], bool], timeout_ms: float | None = None) -> bool:
        """Send all batches and wait until `is_done`, which runs with the lock held.

        Returns False after the timeout.
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
                        raise ClientError("the producer was closed before all records were done")
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
        """Run the queued callbacks, one at a time and in order over all threads.

        `wait` also waits for those that another thread is running.
        """
        this_thread = threading.get_ident()
        if self._callback_thread == this_thread:
            return  # called from a callback
        while self._callbacks:
            if not self._callback_lock.acquire(blocking=wait):
                return
            self._callback_thread = this_thread
            try:
                while self._callbacks:
                    self._run_callback(self._callbacks.popleft())
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
        """Run one turn of the background thread.

        Returns for how many milliseconds it may sleep; None means until it is woken.
        """
        with self.lock:
            now = now_ms()
            if self.is_stopped:
                return _STOPPED
            if self._accumulator.is_empty:
                if now - self._last_busy_ms < _AWAKE_MS:
                    return self._nap_ms
                self._is_asleep = True
                return None
            self._last_busy_ms = now
            if self._blocked_callers or now - self._last_round_ms < self._nap_ms:
                return self._nap_ms
            self._sender.run_once()
            is_waiting = not self._accumulator.is_empty and not self._callbacks
            if is_waiting and not self._has_network_waiter:
                self._wait_for_network(_MAX_WAIT_MS, flushing=False)
                self._sender.run_once()
        self.run_callbacks()
        return 0.0

    def _wait_for_network(self, max_wait_ms: float, *, flushing: bool) -> None:
        """Wait for responses with the lock released."""
        descriptors, wait_ms = self._sender.next_wait(flushing=flushing)
        wait_ms = min(wait_ms, max_wait_ms)
        try:
            self._has_network_waiter = True
            self._waiter_descriptors = frozenset(descriptors)
            self._waiter_until_ms = now_ms() + wait_ms
            self._run_unlocked(lambda: self._network_wakeup.wait(wait_ms, descriptors))
        finally:
            self._has_network_waiter = False
            self._changed.notify_all()

    def _wake_network_waiter(self, *, flushing: bool) -> None:
        """Wake the waiting thread if it waits too long or not for all connections."""
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
        driver = weakref.ref(self, lambda _: wakeup.signal())
        self._last_busy_ms = now_ms()
        self._thread = threading.Thread(
            target=_run_thread, args=(driver, wakeup), name="sawlog-producer", daemon=True
        )
        self._thread.start()

    def _run_callback(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception:  # an error of the application; the next callback still has to run
            _logger.exception("a callback of a delivery failed")


def _run_thread(reference: "weakref.ref[IoDriver]", wakeup: Wakeup) -> None:
    """Refer to the producer only during a turn, so that an unused one can be collected."""
    while (driver := reference()) is not None:
        wait_ms = driver.run_thread_turn()
        del driver
        if wait_ms == _STOPPED:
            return
        wakeup.wait(wait_ms)
