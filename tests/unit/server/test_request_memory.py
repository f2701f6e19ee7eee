"""The memory budget for request frames: granting, waiting and giving back."""

from sawlog.server.request_memory import BudgetShare, ByteBudget


class Shares:
    """Named shares of one budget; `granted` has those that waited, in order."""

    def __init__(self, limit: int) -> None:
        self.budget = ByteBudget(limit)
        self.granted: list[str] = []

    def share(self, name: str = "") -> BudgetShare:
        return BudgetShare(self.budget, lambda: self.granted.append(name))


def test_bytes_are_granted_up_to_the_limit() -> None:
    shares = Shares(100)
    assert shares.share().take(60)
    assert not shares.share().take(41)
    assert shares.budget.taken == 60


def test_the_oldest_frame_may_exceed_the_budget() -> None:
    shares = Shares(100)
    large, small = shares.share("large"), shares.share("small")
    assert large.take(1000)
    assert not small.take(1)
    large.give_back()
    assert shares.granted == ["small"]
    assert not large.take(1000)


def test_waiting_shares_are_served_in_order() -> None:
    shares = Shares(100)
    first, second = shares.share(), shares.share()
    assert first.take(50)
    assert second.take(50)
    assert not shares.share("large").take(90)
    assert not shares.share("small").take(10)
    first.give_back()
    assert shares.granted == []
    assert not shares.share("late").take(1)
    second.give_back()
    assert shares.granted == ["large", "small"]
    assert shares.budget.taken == 100


def test_a_share_that_leaves_the_queue_unblocks_the_next() -> None:
    shares = Shares(100)
    large = shares.share("large")
    assert shares.share().take(50)
    assert not large.take(90)
    assert not shares.share("small").take(10)
    large.give_back()
    assert shares.granted == ["small"]
    assert (shares.budget.taken, shares.budget.waiting) == (60, 0)


def test_incomplete_frames_do_not_deadlock() -> None:
    shares = Shares(100)
    first, second, third = (shares.share(name) for name in ("first", "second", "third"))
    assert all(share.take(30) for share in (first, second, third))
    assert not third.take(30)
    assert not second.take(30)
    assert first.take(30)
    first.give_back()
    assert shares.granted == ["second"]
    second.give_back()
    assert shares.granted == ["second", "third"]
    third.give_back()
    assert shares.budget.taken == 0


def test_giving_back_is_idempotent() -> None:
    shares = Shares(100)
    one, other = shares.share(), shares.share()
    assert one.take(10)
    assert other.take(20)
    one.give_back()
    one.give_back()
    assert shares.budget.taken == 20
