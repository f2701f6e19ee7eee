"""The lease of a ZooKeeper session: begun, renewed by answers, run out."""

import time

import pytest

from sawlog.server.session_lease import CERTAIN_SHARE, SessionLease


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def lease_of(clock: Clock, timeout_s: float = 8.0) -> SessionLease:
    lease = SessionLease(clock)
    lease.begin(clock.now_s, timeout_s)
    return lease


def test_without_a_session_it_has_run_out() -> None:
    assert SessionLease(Clock()).may_have_ended()


def test_it_counts_from_the_sending_of_the_answered_request() -> None:
    clock = Clock()
    lease = lease_of(clock)
    clock.now_s = 105.0
    lease.renew(sent_s=102.0)
    clock.now_s = 102.0 + 8.0 * CERTAIN_SHARE - 0.001
    assert not lease.may_have_ended()
    clock.now_s = 102.0 + 8.0 * CERTAIN_SHARE
    assert lease.may_have_ended()


def test_an_answer_out_of_order_does_not_shorten_it() -> None:
    clock = Clock()
    lease = lease_of(clock)
    lease.renew(sent_s=104.0)
    lease.renew(sent_s=101.0)
    clock.now_s = 109.0
    assert not lease.may_have_ended()


def test_a_reconnection_may_negotiate_a_shorter_timeout() -> None:
    clock = Clock()
    lease = lease_of(clock)
    lease.begin(101.0, timeout_s=2.0)
    clock.now_s = 103.0
    assert lease.may_have_ended()


def test_a_late_answer_after_the_end_renews_it() -> None:
    clock = Clock()
    lease = lease_of(clock)
    clock.now_s = 120.0
    assert lease.may_have_ended()
    lease.renew(sent_s=119.0)
    assert not lease.may_have_ended(), "the answer proves that the session was alive"


def test_the_time_of_a_lease_goes_on_while_the_machine_sleeps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    now = SessionLease().clock()
    assert before <= now <= time.clock_gettime(time.CLOCK_BOOTTIME)
    asked: list[int] = []
    monkeypatch.setattr(time, "clock_gettime", lambda clock: asked.append(clock) or 0.0)
    SessionLease().clock()
    assert asked == [time.CLOCK_BOOTTIME], "not CLOCK_MONOTONIC, which stops in a suspended machine"
