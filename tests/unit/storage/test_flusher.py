"""The flusher: rounds, the offsets that a flush covers, delayed flushes, and waiters."""

import pytest

from sawlog.core.ports import DiskError
from sawlog.simulation.schedule import Schedule
from sawlog.simulation.simulated_disk import SimulatedDisk
from sawlog.storage.flusher import Flusher, FlushScope


class ScriptedLog:
    """A log whose flush ends when the test calls `finish`."""

    def __init__(self, flusher: Flusher, end_offset: int = 10) -> None:
        self.end_offset = end_offset
        self.flushed_offset = 0
        self.targets: list[int] = []
        self.pending: list[object] = []
        self.path = "pending"
        self.size = 0
        self.flush = flusher.attach(self)

    def begin_flush(self) -> FlushScope:
        self.targets.append(self.end_offset)
        return FlushScope([self], [], None)  # type: ignore[list-item]

    def end_flush(self, target: int, error: DiskError | None) -> DiskError | None:
        if error is None:
            self.flushed_offset = target
        return error

    def sync_later(self, done: object) -> None:
        self.pending.append(done)

    def finish(self, error: DiskError | None = None) -> None:
        self.pending.pop(0)(error)  # type: ignore[operator]


class FlusherSetup:
    """A flusher on a simulated schedule, with logs attached to it."""

    def __init__(self) -> None:
        self.schedule = Schedule(1)
        self.flusher = Flusher(SimulatedDisk(self.schedule.soon), self.schedule)

    def log(self) -> ScriptedLog:
        return ScriptedLog(self.flusher)


def test_a_request_starts_a_round_if_none_is_in_flight() -> None:
    log = FlusherSetup().log()
    log.flush.request(10)
    assert log.targets == [10]


def test_logs_with_requests_during_a_round_share_the_next_one() -> None:
    setup = FlusherSetup()
    first, second, third = setup.log(), setup.log(), setup.log()
    first.flush.request(10)
    second.flush.request(10)
    third.flush.request(10)
    third.flush.request(10)
    assert (second.targets, third.targets) == ([], [])
    first.finish()
    assert (second.targets, third.targets) == ([10], [10])


def test_a_round_ends_with_its_last_flush() -> None:
    setup = FlusherSetup()
    first, second, third, late = setup.log(), setup.log(), setup.log(), setup.log()
    first.flush.request(10)
    second.flush.request(10)
    third.flush.request(10)
    first.finish()
    late.flush.request(10)
    second.finish()
    assert late.targets == []
    third.finish()
    assert late.targets == [10]


def test_a_request_after_the_last_round_starts_another() -> None:
    setup = FlusherSetup()
    first, second = setup.log(), setup.log()
    first.flush.request(10)
    first.finish()
    second.flush.request(10)
    assert second.targets == [10]


def test_an_offset_that_the_flush_in_flight_covers_needs_no_second_flush() -> None:
    log = FlusherSetup().log()
    log.flush.request(10)
    log.end_offset = 30
    log.flush.request(10)
    log.finish()
    assert log.targets == [10]
    log.flush.request(10)
    assert log.targets == [10]


def test_an_offset_beyond_the_flush_in_flight_waits_for_the_next_round() -> None:
    log = FlusherSetup().log()
    log.flush.request(10)
    log.end_offset = 30
    log.flush.request(25)
    log.end_offset = 40
    log.finish()
    assert log.targets == [10, 40]


def test_after_a_failed_flush_the_same_offset_is_requested_again() -> None:
    log = FlusherSetup().log()
    log.flush.request(10)
    log.finish(DiskError("f", "broken"))
    log.flush.request(10)
    assert log.targets == [10, 10]


def test_after_a_truncation_the_same_offset_is_requested_again() -> None:
    log = FlusherSetup().log()
    log.flush.request(10)
    log.finish()
    log.flush.truncated(5)
    log.flush.request(10)
    assert log.targets == [10, 10]


def test_a_delayed_flush_begins_when_its_time_is_up() -> None:
    setup = FlusherSetup()
    log = setup.log()
    log.flush.request_within(50)
    log.end_offset = 20
    log.flush.request_within(50)
    setup.schedule.run_for(49)
    assert log.targets == []
    setup.schedule.run_for(2)
    assert log.targets == [20]


def test_a_request_takes_the_place_of_a_delayed_flush() -> None:
    setup = FlusherSetup()
    log = setup.log()
    log.flush.request_within(50)
    log.flush.request(10)
    log.finish()
    setup.schedule.run_for(100)
    assert log.targets == [10]


def test_waiters_and_the_listener_are_called_once_for_their_flush() -> None:
    log = FlusherSetup().log()
    called: list[str] = []
    log.flush.listen(lambda error: called.append("listener"))
    log.flush.when_flushed(lambda error: called.append("first"))
    log.flush.when_flushed(lambda error: called.append("second"))
    assert called == []
    log.finish()
    assert called == ["first", "listener"]
    log.finish()
    assert called == ["first", "listener", "second", "listener"]


def test_a_waiter_that_raises_does_not_stop_the_others() -> None:
    setup = FlusherSetup()
    log, other = setup.log(), setup.log()
    called: list[str] = []

    def fail(_: DiskError | None) -> None:
        raise ValueError("a bug")

    log.flush.request(10)
    log.flush.when_flushed(fail)
    log.flush.when_flushed(lambda error: called.append("second"))
    log.finish()
    other.flush.request(10)
    log.finish()
    assert called == ["second"]
    assert other.targets == [10], "the next round has begun"


@pytest.mark.parametrize("failing", ["begin_flush", "sync_later"])
def test_a_flush_that_cannot_start_fails_and_does_not_stop_other_logs(
    failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = FlusherSetup()
    first, broken, other = setup.log(), setup.log(), setup.log()

    def fail(*_: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(broken, failing, fail)
    errors: list[DiskError | None] = []
    first.flush.request(10)
    broken.flush.when_flushed(errors.append)
    other.flush.request(10)
    first.finish()
    assert (other.targets, errors) == ([10], []), "waiters are never called from inside a call"
    setup.schedule.run_for(0)
    (error,) = errors
    assert isinstance(error, DiskError)
    other.finish()
    first.flush.request(20)
    assert first.targets == [10, 10], "the next round has begun"


def test_removing_the_listener_cancels_the_delayed_flush() -> None:
    setup = FlusherSetup()
    log = setup.log()
    log.flush.listen(lambda error: None)
    log.flush.request_within(50)
    log.flush.listen(None)
    setup.schedule.run_for(100)
    assert log.targets == []


def test_a_flush_that_cannot_end_fails_and_does_not_stop_other_logs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setup = FlusherSetup()
    broken, other = setup.log(), setup.log()

    def fail(*_: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(broken, "end_flush", fail)
    errors: list[DiskError | None] = []
    broken.flush.when_flushed(errors.append)
    other.flush.request(10)
    broken.finish()
    (error,) = errors
    assert isinstance(error, DiskError)
    assert other.targets == [10], "the next round has begun"
