"""The base class of group members: a thread that polls and commits until it has to leave."""

import threading
import traceback
from abc import ABC, abstractmethod

from support.group_consumers.event_journal import COMMITTED, FAILED, EventRecorder, EventSink

POLL_MS = 50
MAX_POLL_RECORDS = 100


class GroupConsumer(ABC):
    """A member of a group; subclasses use one client library each."""

    def __init__(self, name: str, sink: EventSink) -> None:
        self.name = name
        self.events = EventRecorder(name, sink, self.identity)
        self.leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def leave(self) -> None:
        """Make it leave the group; a CLOSED event follows."""
        self.leaving.set()

    def wait(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)
        assert not self._thread.is_alive(), f"{self.name} did not end within {timeout_s} s"

    @abstractmethod
    def identity(self) -> tuple[str, int]:
        """The member id and the generation or epoch, if the library exposes them."""

    @abstractmethod
    def run(self) -> None:
        """Join, poll and commit until `leaving` is set, then leave."""

    def _run(self) -> None:
        try:
            self.run()
        except Exception as failure:  # any failure must reach the test
            self.events.record(FAILED, message="".join(traceback.format_exception(failure)))

    def committed(self, positions: dict[int, int], since: float) -> None:
        for each, at in positions.items():  # not part of the next commit
            if self.events.positions.get(each) == at:
                del self.events.positions[each]
        self.events.record(COMMITTED, positions, since)

    def uncommitted(self, partitions: list[int]) -> dict[int, int]:
        positions = self.events.positions
        return {each: positions[each] for each in partitions if each in positions}
