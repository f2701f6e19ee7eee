"""The log cleaner's process: its throttle, and the messages that it exchanges with the broker."""

import pytest

from sawlog.server.cleaner_main import Throttle
from sawlog.server.cleaner_messages import (
    Request,
    Result,
    decode_request,
    decode_result,
    encode_request,
    encode_result,
)
from sawlog.storage.cleaner.batch_filter import CleanerStats
from sawlog.storage.cleaner.cleaner_worker import CleanerFailure
from sawlog.storage.cleaner.segment_cleaner import CleanRequest, CleanResult, MapRequest, MapResult
from sawlog.storage.open_transactions import AbortedTransaction

RATE = 1_000.0


class Seconds:
    """A clock that only sleeping moves, and the work that a test lets take time."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept = 0.0
        self.longest = 0.0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.slept += seconds
        self.longest = max(self.longest, seconds)
        self.now += seconds

    def throttle(self, bytes_per_second: float = RATE) -> Throttle:
        return Throttle(bytes_per_second, clock=self.clock, sleep=self.sleep)


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


def test_bytes_take_the_time_of_their_rate(seconds: Seconds) -> None:
    throttle = seconds.throttle()
    for _ in range(10):
        throttle.take(250)
    assert seconds.slept == pytest.approx(2.5)


def test_the_time_of_the_work_itself_counts(seconds: Seconds) -> None:
    throttle = seconds.throttle()
    for _ in range(10):
        seconds.now += 0.2
        throttle.take(250)
    assert seconds.slept == pytest.approx(0.5)


def test_work_that_is_slower_than_the_rate_is_not_delayed(seconds: Seconds) -> None:
    throttle = seconds.throttle()
    for _ in range(10):
        seconds.now += 0.5
        throttle.take(250)
    assert seconds.slept == 0


def test_a_pause_is_not_made_up_for(seconds: Seconds) -> None:
    throttle = seconds.throttle()
    throttle.take(1_000)
    seconds.now += 3_600
    began = seconds.now
    for _ in range(100):
        throttle.take(100)
    assert seconds.now - began == pytest.approx(9), (
        "ten seconds of bytes, of which one was saved up"
    )


def test_no_single_sleep_is_long(seconds: Seconds) -> None:
    seconds.throttle().take(60_000)
    assert seconds.slept == pytest.approx(60)
    assert seconds.longest <= 1


def test_without_a_limit_nothing_is_delayed(seconds: Seconds) -> None:
    throttle = seconds.throttle(float("inf"))
    for _ in range(100):
        throttle.take(1 << 40)
    assert seconds.slept == 0


@pytest.mark.parametrize(
    "request_",
    [
        MapRequest("topic-0", (0, 10), 5, 20, 1 << 27, 4_096),
        CleanRequest("t\u00f6pic \n-0", (0, 10), 20, 30, 1, 2, {1: 5, 1 << 62: 1 << 61}, 4_096, 1),
        CleanRequest("topic-0", (), 0, 0, 0, 0, {}, 0, 0),
        MapRequest("topic-0", (0,), 0, 9, 1, 1, (AbortedTransaction(1, 2, 3, 4),)),
        CleanRequest(
            "t-0", (0,), 9, 9, 1, 1, {}, 1, 1, {7: 2}, (AbortedTransaction(1, 2, 3, 1 << 62),)
        ),
    ],
)
def test_requests_survive_the_pipe(request_: Request) -> None:
    line = encode_request(request_)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1, "one line"
    assert decode_request(line) == request_


@pytest.mark.parametrize(
    "result",
    [
        MapResult(1 << 62, 3, 4, True),
        CleanResult(CleanerStats(1, 2, 3, 4, 5, 6)),
        CleanerFailure("two\nlines", is_damage=True, path="t-0/0.log"),
    ],
)
def test_results_survive_the_pipe(result: Result) -> None:
    line = encode_result(result)
    assert line.count(b"\n") == 1, "one line"
    assert decode_result(line) == result
