"""Retries, backoff and deadlines on a fake clock."""

from collections.abc import Callable

import pytest

from sawlog.client.errors import ConnectionLost, UnsupportedRequest
from sawlog.client.net.retries import Backoff, Deadline, retry
from sawlog.core.errors import ErrorCode, KafkaError

RETRIABLE = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
FINAL = KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0
        self.waits_s: list[float] = []

    def monotonic_s(self) -> float:
        return self.now_s

    def sleep_s(self, seconds: float) -> None:
        self.waits_s.append(seconds)
        self.now_s += seconds


def failing(*errors: Exception) -> Callable[[], str]:
    """An attempt that raises these errors and then succeeds."""
    rest = list(errors)

    def attempt() -> str:
        if rest:
            raise rest.pop(0)
        return "done"

    return attempt


def run(attempt: Callable[[], str], timeout_ms: float = 10_000) -> tuple[str, Clock]:
    clock = Clock()
    deadline = Deadline(timeout_ms, clock.monotonic_s)
    return retry(attempt, deadline, sleep_s=clock.sleep_s), clock


def test_a_first_success_does_not_wait() -> None:
    result, clock = run(failing())
    assert (result, clock.waits_s) == ("done", [])


@pytest.mark.parametrize("error", [RETRIABLE, ConnectionLost("gone")])
def test_a_retriable_error_is_tried_again(error: Exception) -> None:
    result, clock = run(failing(error, error, error))
    assert result == "done"
    assert len(clock.waits_s) == 3


@pytest.mark.parametrize("error", [FINAL, UnsupportedRequest("no"), ZeroDivisionError()])
def test_a_fatal_error_is_raised_at_once(error: Exception) -> None:
    with pytest.raises(type(error)):
        run(failing(error))


def test_the_last_error_is_raised_after_the_deadline() -> None:
    last = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
    with pytest.raises(KafkaError) as raised:
        run(failing(RETRIABLE, last, RETRIABLE), timeout_ms=75)
    assert raised.value is last


def test_before_retry_gets_the_error() -> None:
    heard: list[Exception] = []
    clock = Clock()
    deadline = Deadline(10_000, clock.monotonic_s)
    retry(failing(RETRIABLE), deadline, before_retry=heard.append, sleep_s=clock.sleep_s)
    assert heard == [RETRIABLE]


def test_backoff_doubles_up_to_a_maximum_with_jitter() -> None:
    longest = Backoff(first_ms=50, max_ms=300, uniform=lambda _, high: high)
    assert [longest.next_ms() for _ in range(5)] == [50, 100, 200, 300, 300]
    shortest = Backoff(first_ms=50, max_ms=300, uniform=lambda low, _: low)
    assert [shortest.next_ms() for _ in range(3)] == [25, 50, 100]


def test_a_deadline_counts_down_to_zero_and_stays_there() -> None:
    clock = Clock()
    deadline = Deadline(500, clock.monotonic_s)
    clock.now_s += 0.2
    assert deadline.remaining_ms == pytest.approx(300)
    assert not deadline.has_passed
    clock.now_s += 1
    assert deadline.remaining_ms == 0
    assert deadline.has_passed
