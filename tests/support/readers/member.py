"""One member of a group, whatever library it reads by: a thread that reads until it may leave."""

import threading
import traceback
from abc import ABC, abstractmethod

from support.readers.journal import COMMITTED, FAILED, Tell, Teller

POLL_MS = 50
MOST_AT_ONCE = 100


class Member(ABC):
    def __init__(self, name: str, tell: Tell) -> None:
        self.name = name
        self.teller = Teller(name, tell, self.stamp)
        self.leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def leave(self) -> None:
        """Asks it to leave the group; its CLOSED tells that it did."""
        self.leaving.set()

    def wait(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)
        assert not self._thread.is_alive(), f"{self.name} does not end"

    @abstractmethod
    def stamp(self) -> tuple[str, int]:
        """The member's id and its generation or epoch, where the library knows them."""

    @abstractmethod
    def read(self) -> None:
        """Joins, reads and commits until `leaving` is set, and leaves."""

    def _run(self) -> None:
        try:
            self.read()
        except Exception as failure:  # the test has to hear of it, whatever it is
            self.teller.say(FAILED, words="".join(traceback.format_exception(failure)))

    def committed(self, positions: dict[int, int], since: float) -> None:
        for each, at in positions.items():  # the next commit need not tell it again
            if self.teller.positions.get(each) == at:
                del self.teller.positions[each]
        self.teller.say(COMMITTED, positions, since)

    def uncommitted(self, partitions: list[int]) -> dict[int, int]:
        positions = self.teller.positions
        return {each: positions[each] for each in partitions if each in positions}
