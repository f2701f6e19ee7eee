"""Idle and stalled connections, told by a clock that is passed in."""

from sawlog.server.connection_limits import Limits
from sawlog.server.idle_timeout import Watch

LIMITS = Limits(idle_ms=1000, stall_ms=300, stall_bytes=100)


def test_silence_is_idleness_after_its_time() -> None:
    watch = Watch(0)
    assert not watch.is_idle(999, LIMITS, is_awaited=False)
    assert watch.is_idle(1000, LIMITS, is_awaited=False)


def test_a_sign_of_life_begins_the_time_anew() -> None:
    watch = Watch(0)
    watch.is_active = True
    assert not watch.is_idle(1500, LIMITS, is_awaited=False)
    assert not watch.is_idle(2499, LIMITS, is_awaited=False)
    assert watch.is_idle(2500, LIMITS, is_awaited=False)


def test_idleness_may_be_allowed_for_ever() -> None:
    assert not Watch(0).is_idle(10**12, Limits(idle_ms=-1), is_awaited=False)


def test_who_waits_for_us_is_not_idle() -> None:
    watch = Watch(0)
    assert not watch.is_idle(5000, LIMITS, is_awaited=True)
    assert not watch.is_idle(5999, LIMITS, is_awaited=False)


def test_a_frame_that_does_not_grow_is_stalled() -> None:
    watch = Watch(0)
    assert not watch.is_stalled(0, LIMITS, completed=5, unfinished=3)
    assert not watch.is_stalled(299, LIMITS, completed=5, unfinished=3)
    assert watch.is_stalled(300, LIMITS, completed=5, unfinished=3)


def test_a_frame_that_drips_is_stalled_too() -> None:
    watch = Watch(0)
    verdicts = [watch.is_stalled(t, LIMITS, 0, unfinished=1 + t // 10) for t in range(0, 600, 50)]
    assert any(verdicts)


def test_a_frame_that_grows_in_time_is_not_stalled() -> None:
    watch = Watch(0)
    for t in range(0, 3000, 50):
        assert not watch.is_stalled(t, LIMITS, completed=0, unfinished=1 + t)


def test_another_frame_begins_the_time_anew() -> None:
    watch = Watch(0)
    for completed in range(20):
        assert not watch.is_stalled(completed * 200, LIMITS, completed, unfinished=3)
    assert not watch.is_stalled(4000, LIMITS, 19, unfinished=0)
    assert not watch.is_stalled(8000, LIMITS, 19, unfinished=3)


def test_time_in_which_nothing_is_read_does_not_count() -> None:
    watch = Watch(0)
    assert not watch.is_stalled(0, LIMITS, completed=0, unfinished=3)
    for t in range(100, 5000, 100):
        watch.does_not_count(t)
    assert not watch.is_stalled(5100, LIMITS, completed=0, unfinished=3)
    assert not watch.is_stalled(5150, LIMITS, completed=0, unfinished=3)
    assert watch.is_stalled(5300, LIMITS, completed=0, unfinished=3)


def test_a_large_frame_has_no_days_to_arrive() -> None:
    limits = Limits()
    watch = Watch(0)
    seconds, rate = 0, 4096
    while not watch.is_stalled(seconds * 1000, limits, completed=0, unfinished=4 + seconds * rate):
        seconds += 5
    assert seconds <= 60
