"""Deadlines, and exponential backoff between retries.

The backoff doubles up to a maximum, and each wait is drawn from its upper half, so that many
clients that failed together do not retry together.
"""

import random
import time
from collections.abc import Callable
from typing import TypeVar

from sawlog.client.errors import UNANSWERED
from sawlog.core.errors import ErrorCode, KafkaError

Result = TypeVar("Result")


class Deadline:
    """A point in time after which to give up."""

    __slots__ = ("_at_s", "_monotonic_s", "timeout_ms")

    def __init__(
        self, timeout_ms: float, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self.timeout_ms = timeout_ms
        self._monotonic_s = monotonic_s
        self._at_s = monotonic_s() + timeout_ms / 1_000

    @property
    def remaining_ms(self) -> float:
        return max(0.0, (self._at_s - self._monotonic_s()) * 1_000)

    @property
    def has_passed(self) -> bool:
        return self._monotonic_s() >= self._at_s


class Backoff:
    """The waits between the tries of one operation."""

    __slots__ = ("_max_ms", "_next_ms", "_uniform")

    def __init__(
        self,
        first_ms: float = 50,
        max_ms: float = 1_000,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._next_ms = first_ms
        self._max_ms = max_ms
        self._uniform = uniform

    def next_ms(self) -> float:
        wait_ms = self._uniform(self._next_ms / 2, self._next_ms)
        self._next_ms = min(self._max_ms, self._next_ms * 2)
        return wait_ms


def is_retriable(error: Exception) -> bool:
    return isinstance(error, UNANSWERED) or (isinstance(error, KafkaError) and error.is_retriable)


def is_retriable_of_assigned(error: Exception) -> bool:
    """An assigned topic exists, so UNKNOWN_TOPIC_OR_PARTITION means old metadata."""
    is_unknown = (
        isinstance(error, KafkaError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    return is_unknown or is_retriable(error)


def retry(
    attempt: Callable[[], Result],
    deadline: Deadline,
    *,
    before_retry: Callable[[Exception], None] = lambda _: None,
    sleep_s: Callable[[float], None] = time.sleep,
) -> Result:
    """Call `attempt` until it returns; raise its last error when it is fatal or the time is up."""
    backoff = Backoff()
    while True:
        try:
            return attempt()
        except Exception as error:
            wait_ms = backoff.next_ms()
            if not is_retriable(error) or wait_ms >= deadline.remaining_ms:
                raise
            before_retry(error)
        sleep_s(wait_ms / 1_000)
