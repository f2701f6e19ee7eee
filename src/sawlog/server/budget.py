"""The memory that request frames may take, all connections together.

A large frame takes its bytes before its memory exists and gives them back once it was handled.
Who comes when nothing is left waits in line; his connection is not read meanwhile.
"""

from collections import deque
from collections.abc import Callable


class ByteBudget:
    """Invariant: `taken` is at most `limit`, or one frame alone that is larger than the limit."""

    __slots__ = ("_waiting", "limit", "taken")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def take(self, count: int) -> bool:
        """Whether the bytes could be had at once; never past those who wait already."""
        if self._waiting or not self._fits(count):
            return False
        self.taken += count
        return True

    def take_later(self, count: int, granted: Callable[[], None]) -> None:
        """Calls `granted` from a `give_back` once the bytes are taken; it must not take more."""
        self._waiting.append((count, granted))

    def give_up(self, granted: Callable[[], None]) -> None:
        """Leaves the line; for a connection that ends while it waits."""
        self._waiting = deque(entry for entry in self._waiting if entry[1] != granted)
        self._grant()

    def give_back(self, count: int) -> None:
        self.taken -= count
        if self._waiting:
            self._grant()

    def _fits(self, count: int) -> bool:
        return self.taken + count <= self.limit or self.taken == 0

    def _grant(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            count, granted = self._waiting.popleft()
            self.taken += count
            granted()
