"""The memory budget for large request frames of all connections.

A frame takes its share step by step as its bytes arrive, not when its length is announced. When the
budget is used up, frames wait in a queue and their connections are not read. The oldest frame never
waits, because several incomplete frames could otherwise wait for each other.
"""

from collections import deque
from collections.abc import Callable


class ByteBudget:
    """Invariant: `taken` is the sum of all shares. It exceeds `limit` by at most one frame, the
    oldest.
    """

    __slots__ = ("_by_age", "_waiting", "limit", "taken")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0
        self._by_age: dict[BudgetShare, None] = {}  # shares that have bytes or wait for some
        self._waiting: deque[BudgetShare] = deque()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def is_ample(self) -> bool:
        """Whether less than half of the budget is taken."""
        return self.taken * 2 < self.limit

    def take(self, share: "BudgetShare", count: int) -> bool:
        """Called by the share: take bytes, or queue the share and return False."""
        self._by_age.setdefault(share)
        is_oldest = next(iter(self._by_age)) is share
        if is_oldest or (not self._waiting and self.taken + count <= self.limit):
            self._grant_bytes(share, count)
            return True
        share.wanted = count
        self._waiting.append(share)
        return False

    def give_back(self, share: "BudgetShare") -> None:
        """Called by the share: return all its bytes and remove it from the queue."""
        if share not in self._by_age:
            return
        del self._by_age[share]
        self.taken -= share.taken
        share.taken = 0
        if share.wanted:
            share.wanted = 0
            self._waiting.remove(share)
        if self._waiting:
            self._grant_next()

    def _grant_next(self) -> None:
        oldest = next(iter(self._by_age))
        if oldest.wanted:
            self._waiting.remove(oldest)
            self._grant_waiting(oldest)
        while self._waiting and self.taken + self._waiting[0].wanted <= self.limit:
            self._grant_waiting(self._waiting.popleft())

    def _grant_bytes(self, share: "BudgetShare", count: int) -> None:
        self.taken += count
        share.taken += count

    def _grant_waiting(self, share: "BudgetShare") -> None:
        count = share.wanted
        share.wanted = 0
        self._grant_bytes(share, count)
        share.granted()


class BudgetShare:
    """The part of the budget that one connection's current frame has.

    `granted` is called when a waiting share gets its bytes, from inside another share's
    `give_back`; it must neither take nor give back.
    """

    __slots__ = ("_budget", "granted", "taken", "wanted")

    def __init__(self, budget: ByteBudget, granted: Callable[[], None]) -> None:
        self._budget = budget
        self.granted = granted
        self.taken = 0
        self.wanted = 0  # nonzero while in the queue

    def take(self, count: int) -> bool:
        """Take bytes; return False if the share must wait, behind those that wait already."""
        return self._budget.take(self, count)

    def give_back(self) -> None:
        """Return all bytes, and leave the queue."""
        self._budget.give_back(self)
