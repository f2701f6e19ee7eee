"""Events of group members: assignments, reads and commits, with their times.

Times are of the monotonic clock of the machine, so that events of several processes compare.
"""

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

GUARD_S = 180

ASSIGNED, REVOKED, LOST = "assigned", "revoked", "lost"
READ, COMMITTED, REFUSED = "read", "committed", "refused"
JOINED, CLOSED, FAILED = "joined", "closed", "failed"
DIED, PAUSED, RESUMED, REMOVED = "died", "paused", "resumed", "removed"


class Event(NamedTuple):
    """One event of one member.

    `partitions` maps each partition to its first and last offset (READ) or to its offset
    (COMMITTED, REFUSED). `since` is the start of the operation. `identity` is the member id and
    the generation or epoch, as the client knows them.
    """

    at: float
    member: str
    kind: str
    partitions: dict[int, Any]
    since: float = 0.0
    identity: tuple[str, int] = ("", -1)
    message: str = ""


EventSink = Callable[[Event], None]


class EventJournal:
    """Events in the order of their arrival; each one wakes the waiting threads."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._changed = threading.Condition()

    def record(self, event: Event) -> None:
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
                shown = [event for event in self._events if event.kind not in (READ, COMMITTED)]
                last = "\n".join(str(event) for event in shown[-30:])
                raise AssertionError(f"condition not met in {guard_s} s; last events:\n{last}")


def owned_partitions(events: list[Event]) -> dict[str, set[int]]:
    """The partitions of each member of the group, according to its own events."""
    owned: dict[str, set[int]] = {}
    for event in events:
        if event.kind == JOINED:
            owned[event.member] = set()
        elif event.kind == ASSIGNED:
            owned.setdefault(event.member, set()).update(event.partitions)
        elif event.kind in (REVOKED, LOST):
            owned.setdefault(event.member, set()).difference_update(event.partitions)
        elif event.kind in (CLOSED, DIED):
            owned.pop(event.member, None)
    return owned


def read_offsets(events: list[Event], member: str | None = None) -> dict[int, list[int]]:
    """The offsets of each partition in the order in which they were read."""
    found: dict[int, list[int]] = {}
    for event in events:
        if event.kind == READ and member in (None, event.member):
            for partition, (first, last) in event.partitions.items():
                found.setdefault(partition, []).extend(range(first, last + 1))
    return found


class EventRecorder:
    """Records the events of one member, and tracks its reads and uncommitted positions."""

    def __init__(self, name: str, sink: EventSink, identity: Callable[[], tuple[str, int]]) -> None:
        self.name = name
        self._sink = sink
        self._identity = identity
        self._read: dict[int, tuple[int, int]] = {}
        self.positions: dict[int, int] = {}

    def record(
        self,
        kind: str,
        partitions: dict[int, Any] | None = None,
        since: float = 0.0,
        message: str = "",
    ) -> None:
        identity = self._identity()
        event = Event(time.monotonic(), self.name, kind, partitions or {}, since, identity, message)
        self._sink(event)

    def assigned(self, partitions: list[int]) -> None:
        self.record(ASSIGNED, dict.fromkeys(partitions))

    def released(self, kind: str, partitions: list[int]) -> None:
        for each in partitions:
            self.positions.pop(each, None)
        self.record(kind, dict.fromkeys(partitions))

    def read(self, partition: int, offset: int) -> None:
        first, last = self._read.get(partition, (offset, offset - 1))
        if offset != last + 1:  # a gap or a seek back starts a new run
            self.record(READ, {partition: (first, last)})
            first = offset
        self._read[partition] = (first, offset)
        self.positions[partition] = offset + 1

    def flush_reads(self) -> None:
        """Record the reads since the last call; they count as processed from now on."""
        if self._read:
            self.record(READ, dict(self._read))
            self._read = {}
