"""How long a consumer may deliver records without a word from ZooKeeper."""

import time
from collections.abc import Callable

_DELIVERY_SHARE = 2 / 3
_RENEWAL_SHARE = 1 / 3


def boot_time_s() -> float:
    """A clock that also counts the time in which the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class DeliveryLease:
    """Measures from the sending of the last answered request.

    The session lives for its timeout after ZooKeeper has received a request, which is not before it
    was sent. The lease ends after two thirds of that; a process that was stopped meanwhile finds
    that it has ended. From a third on, a request is due that renews it.
    """

    def __init__(self, timeout_ms: float, now_s: Callable[[], float] = boot_time_s) -> None:
        self.now_s = now_s
        self._timeout_s = timeout_ms / 1_000
        self._sent_s = float("-inf")

    def answered(self, sent_s: float) -> None:
        """Note that a request sent at `sent_s` was answered."""
        self._sent_s = max(self._sent_s, sent_s)

    @property
    def is_valid(self) -> bool:
        return self.now_s() - self._sent_s < self._timeout_s * _DELIVERY_SHARE

    @property
    def is_renewal_due(self) -> bool:
        return self.renewal_ms <= 0

    @property
    def renewal_ms(self) -> float:
        """The time until a renewal is due."""
        return max(0.0, (self._sent_s + self._timeout_s * _RENEWAL_SHARE - self.now_s()) * 1_000)
