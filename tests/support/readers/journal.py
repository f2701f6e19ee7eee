"""What members of a group tell of themselves: what they own, read and commit, and when.

The clock is the machine's monotonic one, so journals of several processes can be put together.
"""

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

GUARD_S = 60

ASSIGNED, REVOKED, LOST = "assigned", "revoked", "lost"
READ, COMMITTED, REFUSED = "read", "committed", "refused"
JOINED, CLOSED, FAILED = "joined", "closed", "failed"
DIED, PAUSED, RESUMED, PUT_OUT = "died", "paused", "resumed", "put out"


class Event(NamedTuple):
    """`partitions`: for READ the first and the last offset of each, for COMMITTED and REFUSED the
    offset of each; `since` is when what was tried began; `stamp` is the member's id and its
    generation or epoch, as the client knows them."""

    at: float
    member: str
    what: str
    partitions: dict[int, Any]
    since: float = 0.0
    stamp: tuple[str, int] = ("", -1)
    words: str = ""


Tell = Callable[[Event], None]


class Journal:
    """Events in the order in which they came; whoever waits for one is woken by it."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._changed = threading.Condition()

    def tell(self, event: Event) -> None:
        with self._changed:
            self._events.append(event)
            self._changed.notify_all()

    @property
    def events(self) -> list[Event]:
        with self._changed:
            return list(self._events)

    def wait_until(
        self, condition: Callable[[list[Event]], bool], guard_s: float = GUARD_S
    ) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: condition(self._events), guard_s):
                shown = [event for event in self._events if event.what not in (READ, COMMITTED)]
                last = "\n".join(str(event) for event in shown[-30:])
                raise AssertionError(f"what the test waits for does not come; the last:\n{last}")


def holdings(events: list[Event]) -> dict[str, set[int]]:
    """What each member that is in the group has, by its own account."""
    have: dict[str, set[int]] = {}
    for event in events:
        if event.what == JOINED:
            have[event.member] = set()
        elif event.what == ASSIGNED:
            have.setdefault(event.member, set()).update(event.partitions)
        elif event.what in (REVOKED, LOST):
            have.setdefault(event.member, set()).difference_update(event.partitions)
        elif event.what in (CLOSED, DIED):
            have.pop(event.member, None)
    return have


def read_offsets(events: list[Event], member: str | None = None) -> dict[int, list[int]]:
    """The offsets of each partition in the order in which they were read."""
    found: dict[int, list[int]] = {}
    for event in events:
        if event.what == READ and member in (None, event.member):
            for partition, (first, last) in event.partitions.items():
                found.setdefault(partition, []).extend(range(first, last + 1))
    return found


class Teller:
    """A member's pen: what it owns, what it has read and not committed yet."""

    def __init__(self, name: str, tell: Tell, stamp: Callable[[], tuple[str, int]]) -> None:
        self.name = name
        self._tell = tell
        self._stamp = stamp
        self._read: dict[int, tuple[int, int]] = {}
        self.positions: dict[int, int] = {}

    def say(
        self,
        what: str,
        partitions: dict[int, Any] | None = None,
        since: float = 0.0,
        words: str = "",
    ) -> None:
        stamp = self._stamp()
        event = Event(time.monotonic(), self.name, what, partitions or {}, since, stamp, words)
        self._tell(event)

    def assigned(self, partitions: list[int]) -> None:
        self.say(ASSIGNED, dict.fromkeys(partitions))

    def released(self, what: str, partitions: list[int]) -> None:
        for each in partitions:
            self.positions.pop(each, None)
        self.say(what, dict.fromkeys(partitions))

    def read(self, partition: int, offset: int) -> None:
        first, last = self._read.get(partition, (offset, offset - 1))
        if offset != last + 1:  # it went back, or over a gap: a run of its own
            self.say(READ, {partition: (first, last)})
            first = offset
        self._read[partition] = (first, offset)
        self.positions[partition] = offset + 1

    def all_read(self) -> None:
        """Tells what was read since the last time; it counts as processed from now on."""
        if self._read:
            self.say(READ, dict(self._read))
            self._read = {}
