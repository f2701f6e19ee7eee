"""The quota of throttled replication in one direction (KIP-73, Kafka's ReplicationQuotaManager).

The rate is measured over a few windows of fixed length: the bytes in them, divided by the time
since the oldest one began, which counts as one window at least. With 2 windows of 1 s and a quota
of 100 bytes/s, 300 bytes at 0 ms exceed it until 2,000 ms, when their window is forgotten; 150
bytes until 1,500 ms.
"""

from collections import deque
from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sawlog.core.ports import Clock

UNLIMITED = 2**63 - 1
"""The rate of a quota that is not set."""


class ReplicationQuota:
    """The throttled partitions, and the rate at which their records move.

    Invariants: `_windows` are in the order of their start, and those that `window_count` windows
    do not reach back to are forgotten; `_size` is the sum of their bytes.
    """

    def __init__(self, clock: "Clock", *, window_ms: int = 1_000, window_count: int = 11) -> None:
        self._clock = clock
        self._window_ms = window_ms
        self._kept_ms = window_ms * window_count
        self._bytes_per_s = UNLIMITED
        self._throttled: dict[str, Collection[int] | None] = {}
        self._windows: deque[tuple[int, int]] = deque()  # start in milliseconds, bytes
        self._size = 0
        self.total_bytes = 0
        """The bytes of throttled partitions since the start of the broker."""

    # Configuration

    def set_rate(self, bytes_per_s: int) -> None:
        self._bytes_per_s = bytes_per_s

    def throttle(self, topic: str, indexes: Collection[int] | None) -> None:
        """Throttle these partitions of a topic and no others; None means all of them."""
        if indexes is None or indexes:
            self._throttled[topic] = indexes
        else:
            self._throttled.pop(topic, None)

    def throttles(self, topic: str, index: int) -> bool:
        """Whether a partition counts, and may be held back while the quota is exceeded."""
        if topic not in self._throttled:
            return False
        indexes = self._throttled[topic]
        return indexes is None or index in indexes

    @property
    def is_used(self) -> bool:
        """Whether any partition is throttled."""
        return bool(self._throttled)

    # The rate

    def record(self, size: int) -> None:
        """Count bytes of a throttled partition, even if the quota is exceeded."""
        now_ms = self._clock.monotonic_ms()
        self._forget(now_ms)
        self.total_bytes += size
        self._size += size
        if self._windows and now_ms - self._windows[-1][0] < self._window_ms:
            began_ms, before = self._windows.pop()
            self._windows.append((began_ms, before + size))
        else:
            self._windows.append((now_ms, size))

    def wait_ms(self) -> int:
        """The time until the quota is not exceeded any more, if nothing else moves; 0 if it is not
        exceeded."""
        now_ms = self._clock.monotonic_ms()
        self._forget(now_ms)
        size, end_ms = self._size, now_ms
        for began_ms, recorded in self._windows:
            if size <= 0 or self._bytes_per_s == UNLIMITED:
                break
            span_ms = max(end_ms - began_ms, self._window_ms)
            if size * 1_000 <= self._bytes_per_s * span_ms:
                break
            expires_ms = began_ms + self._kept_ms
            if self._bytes_per_s:
                slow_enough_ms = began_ms + -(-size * 1_000 // self._bytes_per_s)
                if slow_enough_ms <= expires_ms:
                    return slow_enough_ms - now_ms
            end_ms = expires_ms
            size -= recorded
        return end_ms - now_ms

    def _forget(self, now_ms: int) -> None:
        while self._windows and now_ms - self._windows[0][0] >= self._kept_ms:
            self._size -= self._windows.popleft()[1]
