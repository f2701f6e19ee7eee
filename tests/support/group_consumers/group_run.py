"""A group that consumes while brokers fail: members of several clients, and what must hold.

Members come and go between faults, so that committed offsets are read again after each one.
"""

import itertools
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import ConsumerGroupTopicPartitions

from support.client_libraries.confluent_library import Confluent
from support.group_consumers.consumer_kinds import start_consumer
from support.group_consumers.event_journal import COMMITTED, EventJournal, owned_partitions
from support.group_consumers.group_checks import (
    decreasing_commits,
    failures,
    fenced_commits,
    overlaps,
    reads_below_commits,
    removals,
    unread,
)
from support.group_consumers.java_consumer import CLOCK_S, JavaConsumer
from support.process import wait_until

if TYPE_CHECKING:
    from support.group_consumers.group_consumer import GroupConsumer

MEMBERS = 2
END_S = 120
READ_ALL_S = 240
JAVA = {"confluent-range": "classic", "confluent-consumer": "consumer"}
"""The protocol of a Java member beside members of a kind."""


class GroupRun:
    """Members of one kind, and a Java consumer if `java_directory` is given."""

    def __init__(
        self, bootstrap: str, topic: str, kind: str, *, java_directory: Path | None = None
    ) -> None:
        self.name = f"group-of-{kind}"
        self.journal = EventJournal()
        self._place = (bootstrap, self.name, topic)
        self._kind = kind
        self._names = itertools.count()
        self._members: deque[GroupConsumer] = deque()
        self._left: list[GroupConsumer] = []
        self._java: JavaConsumer | None = None
        for _ in range(MEMBERS):
            self._join()
        if java_directory is not None:
            name = f"{kind} java"
            self._java = JavaConsumer(self.journal, *self._place, name, java_directory, JAVA[kind])

    def _join(self) -> None:
        name = f"{self._kind} {next(self._names)}"
        member = start_consumer(self._kind, *self._place, name, self.journal.record)
        self._members.append(member)

    def replace_member(self) -> None:
        """The oldest member leaves, and a new one joins."""
        member = self._members.popleft()
        member.leave()
        self._left.append(member)
        self._join()

    def wait_until_all_own(self) -> None:
        """Wait until each present member has partitions and has committed."""
        names = {member.name for member in self._members}
        if self._java is not None:
            names.add(self._java.name)
        self.journal.wait_until(
            lambda events: (
                all(owned_partitions(events).get(name) for name in names)
                and names <= {event.member for event in events if event.kind == COMMITTED}
            )
        )

    def settle(self, ends: dict[int, int]) -> None:
        """Wait until the group has read and committed everything, and let all members leave."""
        self.journal.wait_until(lambda events: not unread(events, ends), READ_ALL_S)
        library = Confluent(self._place[0])
        wait_until(lambda: committed_offsets(library, self.name) == ends, patience_s=READ_ALL_S)
        self.stop()

    def stop(self) -> None:
        members = [*self._left, *self._members]
        for member in members:
            member.leave()
        if self._java is not None:
            self._java.stop()
            self._java = None
        for member in members:
            member.wait(END_S)

    def abandon(self) -> None:
        """Let all members go without waiting for them."""
        for member in self._members:
            member.leave()
        if self._java is not None:
            self._java.kill()

    def check(self, ends: dict[int, int], offset_partitions: int, lines: Sequence[str]) -> None:
        """AssertionError if the group broke a promise; `lines` are what the brokers logged."""
        library = Confluent(self._place[0])
        events = [*self.journal.events]
        events += removals(events, self.name, lines)
        assert failures(events) == []
        assert unread(events, ends) == {}
        assert overlaps(events, CLOCK_S) == []
        assert fenced_commits(events) == []
        assert reads_below_commits(events, CLOCK_S) == []
        topic = self._place[2]
        assert decreasing_commits(library, self.name, topic, events, offset_partitions) == []
        assert committed_offsets(library, self.name) == ends


def committed_offsets(library: Confluent, group: str) -> dict[int, int]:
    """The committed offset of each partition, from the group's coordinator."""
    admin = library.admin()  # a future of a client that is collected never ends
    [future] = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return {each.partition: each.offset for each in future.result(END_S).topic_partitions}
