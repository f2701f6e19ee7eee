"""Memory for frames: taken step by step, waited for in line, given back."""

from sawlog.server.request_memory import ByteBudget, Share


class Line:
    """Shares of one budget by name, and who was granted bytes late, in order."""

    def __init__(self, limit: int) -> None:
        self.budget = ByteBudget(limit)
        self.granted: list[str] = []

    def share(self, name: str = "") -> Share:
        return Share(self.budget, lambda: self.granted.append(name))


def test_bytes_are_had_while_there_are_any() -> None:
    line = Line(100)
    assert line.share().take(60)
    assert not line.share().take(41)
    assert line.budget.taken == 60


def test_a_frame_larger_than_the_whole_budget_is_taken_when_it_is_the_oldest() -> None:
    line = Line(100)
    large, small = line.share("large"), line.share("small")
    assert large.take(1000)
    assert not small.take(1)
    large.give_back()
    assert line.granted == ["small"]
    assert not large.take(1000)


def test_waiting_is_in_line_and_a_large_frame_is_not_overtaken() -> None:
    line = Line(100)
    first, second = line.share(), line.share()
    assert first.take(50)
    assert second.take(50)
    assert not line.share("large").take(90)
    assert not line.share("small").take(10)
    first.give_back()
    assert line.granted == []
    assert not line.share("late").take(1)
    second.give_back()
    assert line.granted == ["large", "small"]
    assert line.budget.taken == 100


def test_who_gives_up_lets_the_next_one_pass() -> None:
    line = Line(100)
    large = line.share("large")
    assert line.share().take(50)
    assert not large.take(90)
    assert not line.share("small").take(10)
    large.give_back()
    assert line.granted == ["small"]
    assert (line.budget.taken, line.budget.waiting) == (60, 0)


def test_frames_that_are_half_there_do_not_wait_for_each_other_for_ever() -> None:
    line = Line(100)
    first, second, third = (line.share(name) for name in ("first", "second", "third"))
    assert all(share.take(30) for share in (first, second, third))
    assert not third.take(30)
    assert not second.take(30)
    assert first.take(30)
    first.give_back()
    assert line.granted == ["second"]
    second.give_back()
    assert line.granted == ["second", "third"]
    third.give_back()
    assert line.budget.taken == 0


def test_giving_back_twice_gives_back_once() -> None:
    line = Line(100)
    one, other = line.share(), line.share()
    assert one.take(10)
    assert other.take(20)
    one.give_back()
    one.give_back()
    assert line.budget.taken == 20
