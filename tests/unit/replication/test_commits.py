"""Rounds of flushes: who goes with which, and when the next begins."""

from collections.abc import Callable

from sawlog.replication.commits import BUSY_BYTES, BUSY_PAUSE_MS, CommitRounds
from sawlog.simulation.schedule import Schedule


class Dirty:
    """Something to flush; the test says when it is done."""

    def __init__(self, rounds: CommitRounds, size: int = 1) -> None:
        self._rounds = rounds
        self._size = size
        self.starts = 0

    def start_flush(self) -> int:
        self.starts += 1
        return self._size

    def finish(self) -> None:
        self._rounds.settled()


def rounds() -> tuple[Schedule, CommitRounds, Callable[[int], Dirty]]:
    schedule = Schedule(1)
    made = CommitRounds(schedule)
    return schedule, made, lambda size: Dirty(made, size)


def test_the_first_who_waits_starts_a_round_at_once() -> None:
    _, commit, dirty = rounds()
    log = dirty(1)
    commit.want(log)
    assert log.starts == 1


def test_those_who_come_during_a_round_go_together_with_the_next() -> None:
    _, commit, dirty = rounds()
    first, second, third = dirty(1), dirty(1), dirty(1)
    commit.want(first)
    commit.want(second)
    commit.want(third)
    commit.want(third)
    assert (second.starts, third.starts) == (0, 0)
    first.finish()
    assert (second.starts, third.starts) == (1, 1)


def test_a_round_is_over_when_its_last_flush_is() -> None:
    _, commit, dirty = rounds()
    first, second, third, late = dirty(1), dirty(1), dirty(1), dirty(1)
    commit.want(first)
    commit.want(second)
    commit.want(third)
    first.finish()
    commit.want(late)
    second.finish()
    assert late.starts == 0
    third.finish()
    assert late.starts == 1


def test_after_a_large_round_the_next_waits_a_moment() -> None:
    schedule, commit, dirty = rounds()
    large, next_ = dirty(BUSY_BYTES), dirty(1)
    commit.want(large)
    large.finish()
    commit.want(next_)
    schedule.run_for(BUSY_PAUSE_MS - 1)
    assert next_.starts == 0
    schedule.run_for(1)
    assert next_.starts == 1


def test_after_an_idle_pause_a_round_starts_at_once_again() -> None:
    schedule, commit, dirty = rounds()
    large, next_ = dirty(BUSY_BYTES), dirty(1)
    commit.want(large)
    large.finish()
    schedule.run_for(BUSY_PAUSE_MS)
    commit.want(next_)
    assert next_.starts == 1
