"""Memory for frames: taken before it exists, waited for in line, given back."""

from sawlog.server.budget import ByteBudget


class Line:
    """Who was granted bytes, in order."""

    def __init__(self) -> None:
        self.granted: list[str] = []

    def joins(self, budget: ByteBudget, name: str, count: int) -> None:
        budget.take_later(count, lambda: self.granted.append(name))


def test_bytes_are_had_while_there_are_any() -> None:
    budget = ByteBudget(100)
    assert budget.take(60)
    assert not budget.take(41)
    assert budget.take(40)
    assert budget.taken == 100


def test_a_frame_larger_than_the_whole_budget_is_taken_when_it_is_alone() -> None:
    budget = ByteBudget(100)
    assert budget.take(1000)
    assert not budget.take(1)
    budget.give_back(1000)
    assert budget.take(1)
    assert not budget.take(1000)


def test_waiting_is_in_line_and_a_large_frame_is_not_overtaken() -> None:
    budget = ByteBudget(100)
    line = Line()
    assert budget.take(100)
    line.joins(budget, "large", 90)
    line.joins(budget, "small", 10)
    budget.give_back(50)
    assert line.granted == []
    assert not budget.take(1)
    budget.give_back(50)
    assert line.granted == ["large", "small"]
    assert budget.taken == 100


def test_who_gives_up_lets_the_next_one_pass() -> None:
    budget = ByteBudget(100)
    line = Line()
    assert budget.take(50)

    def large() -> None:
        line.granted.append("large")

    budget.take_later(90, large)
    line.joins(budget, "small", 10)
    budget.give_up(large)
    assert line.granted == ["small"]
    assert (budget.taken, budget.waiting) == (60, 0)
