"""Detection of idle and stalled connections."""

from sawlog.server.connection_limits import ConnectionLimits
from sawlog.server.idle_timeout import IdleTimeout

LIMITS = ConnectionLimits(idle_ms=1000, stall_ms=300, stall_bytes=100)


def test_a_connection_is_idle_after_the_timeout() -> None:
    timeout = IdleTimeout(0)
    assert not timeout.is_idle(999, LIMITS, is_our_turn=False)
    assert timeout.is_idle(1000, LIMITS, is_our_turn=False)


def test_activity_restarts_the_timeout() -> None:
    timeout = IdleTimeout(0)
    timeout.is_active = True
    assert not timeout.is_idle(1500, LIMITS, is_our_turn=False)
    assert not timeout.is_idle(2499, LIMITS, is_our_turn=False)
    assert timeout.is_idle(2500, LIMITS, is_our_turn=False)


def test_a_negative_timeout_disables_it() -> None:
    assert not IdleTimeout(0).is_idle(10**12, ConnectionLimits(idle_ms=-1), is_our_turn=False)


def test_a_client_that_waits_for_a_response_is_not_idle() -> None:
    timeout = IdleTimeout(0)
    assert not timeout.is_idle(5000, LIMITS, is_our_turn=True)
    assert not timeout.is_idle(5999, LIMITS, is_our_turn=False)


def test_a_frame_that_does_not_grow_is_stalled() -> None:
    timeout = IdleTimeout(0)
    assert not timeout.is_stalled(0, LIMITS, completed=5, unfinished=3)
    assert not timeout.is_stalled(299, LIMITS, completed=5, unfinished=3)
    assert timeout.is_stalled(300, LIMITS, completed=5, unfinished=3)


def test_a_frame_that_grows_too_slowly_is_stalled() -> None:
    timeout = IdleTimeout(0)
    verdicts = [timeout.is_stalled(t, LIMITS, 0, unfinished=1 + t // 10) for t in range(0, 600, 50)]
    assert any(verdicts)


def test_a_frame_that_grows_in_time_is_not_stalled() -> None:
    timeout = IdleTimeout(0)
    for t in range(0, 3000, 50):
        assert not timeout.is_stalled(t, LIMITS, completed=0, unfinished=1 + t)


def test_the_next_frame_restarts_the_time() -> None:
    timeout = IdleTimeout(0)
    for completed in range(20):
        assert not timeout.is_stalled(completed * 200, LIMITS, completed, unfinished=3)
    assert not timeout.is_stalled(4000, LIMITS, 19, unfinished=0)
    assert not timeout.is_stalled(8000, LIMITS, 19, unfinished=3)


def test_time_without_reads_pause() -> None:
    timeout = IdleTimeout(0)
    assert not timeout.is_stalled(0, LIMITS, completed=0, unfinished=3)
    for t in range(100, 5000, 100):
        timeout.pause(t)
    assert not timeout.is_stalled(5100, LIMITS, completed=0, unfinished=3)
    assert not timeout.is_stalled(5150, LIMITS, completed=0, unfinished=3)
    assert timeout.is_stalled(5300, LIMITS, completed=0, unfinished=3)


def test_a_large_frame_is_bounded_in_time() -> None:
    limits = ConnectionLimits()
    timeout = IdleTimeout(0)
    seconds, rate = 0, 4096
    while not timeout.is_stalled(
        seconds * 1000, limits, completed=0, unfinished=4 + seconds * rate
    ):
        seconds += 5
    assert seconds <= 60
