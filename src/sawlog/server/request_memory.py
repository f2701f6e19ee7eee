"""The memory that request frames may take, all connections together.

A large frame takes its share step by step, as its bytes arrive: what a client announces costs
nothing. Who comes when nothing is left waits in line, and his connection is not read meanwhile.
The oldest frame under way never waits, or several that are half there could wait for each other.
"""

from collections import deque
from collections.abc import Callable


class ByteBudget:
    """Invariant: `taken` is the sum of all shares, and exceeds `limit` by one frame at most: the
    oldest under way.
    """

    __slots__ = ("_by_age", "_waiting", "limit", "taken")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0
        self._by_age: dict[Share, None] = {}  # every share that has bytes or waits for some
        self._waiting: deque[Share] = deque()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def is_ample(self) -> bool:
        """Whether less than half is taken."""
        return self.taken * 2 < self.limit

    def take(self, share: "Share", count: int) -> bool:
        """For `Share`: whether it has the bytes; else it is in line, and will be told."""
        self._by_age.setdefault(share)
        is_oldest = next(iter(self._by_age)) is share
        if is_oldest or (not self._waiting and self.taken + count <= self.limit):
            self._hand_out(share, count)
            return True
        share.wanted = count
        self._waiting.append(share)
        return False

    def give_back(self, share: "Share") -> None:
        """For `Share`: it is over, and whatever it had or waited for is the others'."""
        if share not in self._by_age:
            return
        del self._by_age[share]
        self.taken -= share.taken
        share.taken = 0
        if share.wanted:
            share.wanted = 0
            self._waiting.remove(share)
        if self._waiting:
            self._grant()

    def _grant(self) -> None:
        oldest = next(iter(self._by_age))
        if oldest.wanted:
            self._waiting.remove(oldest)
            self._hand_out_late(oldest)
        while self._waiting and self.taken + self._waiting[0].wanted <= self.limit:
            self._hand_out_late(self._waiting.popleft())

    def _hand_out(self, share: "Share", count: int) -> None:
        self.taken += count
        share.taken += count

    def _hand_out_late(self, share: "Share") -> None:
        count = share.wanted
        share.wanted = 0
        self._hand_out(share, count)
        share.granted()


class Share:
    """What the frame under way on one connection has of the budget.

    `granted` is called, from somebody else's `give_back`, when bytes came that were waited for;
    it must neither take nor give back.
    """

    __slots__ = ("_budget", "granted", "taken", "wanted")

    def __init__(self, budget: ByteBudget, granted: Callable[[], None]) -> None:
        self._budget = budget
        self.granted = granted
        self.taken = 0
        self.wanted = 0  # while in line

    def take(self, count: int) -> bool:
        """Whether the bytes could be had at once; never past those who wait already."""
        return self._budget.take(self, count)

    def give_back(self) -> None:
        """Everything, a place in the line included."""
        self._budget.give_back(self)
