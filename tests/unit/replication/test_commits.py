"""Rounds of flushes: who goes with which, and when the next begins."""

from sawlog.replication.commits import CommitRounds


class Dirty:
    """Something to flush; the test says when it is done."""

    def __init__(self, rounds: CommitRounds) -> None:
        self._rounds = rounds
        self.starts = 0

    def start_flush(self) -> None:
        self.starts += 1

    def finish(self) -> None:
        self._rounds.settled()


def test_the_first_who_waits_starts_a_round_at_once() -> None:
    commit = CommitRounds()
    log = Dirty(commit)
    commit.want(log)
    assert log.starts == 1


def test_those_who_come_during_a_round_go_together_with_the_next() -> None:
    commit = CommitRounds()
    first, second, third = Dirty(commit), Dirty(commit), Dirty(commit)
    commit.want(first)
    commit.want(second)
    commit.want(third)
    commit.want(third)
    assert (second.starts, third.starts) == (0, 0)
    first.finish()
    assert (second.starts, third.starts) == (1, 1)


def test_a_round_is_over_when_its_last_flush_is() -> None:
    commit = CommitRounds()
    first, second, third, late = Dirty(commit), Dirty(commit), Dirty(commit), Dirty(commit)
    commit.want(first)
    commit.want(second)
    commit.want(third)
    first.finish()
    commit.want(late)
    second.finish()
    assert late.starts == 0
    third.finish()
    assert late.starts == 1


def test_after_an_idle_time_a_round_begins_at_once_again() -> None:
    commit = CommitRounds()
    first, second = Dirty(commit), Dirty(commit)
    commit.want(first)
    first.finish()
    commit.want(second)
    assert second.starts == 1
