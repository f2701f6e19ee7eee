"""What one operation makes of a classic group: its next state, the answers and the timers that come
with it, and the records that must be written before any of it happens.

Everything is done to a copy. If a record is refused by the log, the copy is dropped and nothing has
changed.
"""

from typing import TYPE_CHECKING, Any

from sawlog.coordinator.plan import Plan
from sawlog.core.errors import ErrorCode
from sawlog.groups.classic.classic_member import NO_ASSIGNMENT
from sawlog.groups.classic.classic_responses import join_error, sync_error, tell
from sawlog.groups.classic.group_metadata_record import entry_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from sawlog.coordinator.coordinator_records import Entry
    from sawlog.coordinator.plan import Operation, Timers
    from sawlog.core.errors import KafkaError
    from sawlog.groups.classic.classic_group import ClassicGroup, Respond
    from sawlog.groups.group import Group

UNKNOWN_MEMBER_ID = int(ErrorCode.UNKNOWN_MEMBER_ID)
FENCED_INSTANCE_ID = int(ErrorCode.FENCED_INSTANCE_ID)
REBALANCE_IN_PROGRESS = int(ErrorCode.REBALANCE_IN_PROGRESS)


def session_key(group_id: str, member_id: str) -> object:
    return ("classic session", group_id, member_id)


def join_key(group_id: str) -> object:
    return ("classic join", group_id)


def sync_key(group_id: str) -> object:
    return ("classic sync", group_id)


class Change:
    """Nothing is done before `plan` or, where there is something to write, before it is written."""

    def __init__(self, groups: "dict[str, Group]", timers: "Timers", group: "ClassicGroup") -> None:
        self.group = group.copy()
        self.entries: list[Entry] = []
        self._groups = groups
        self._timers = timers
        self._answers: list[tuple[Respond, Any]] = []
        self._timer_changes: dict[object, tuple[int, Operation] | None] = {}

    def plan(
        self, reply: Any = None, settled: "Callable[[KafkaError | None], None] | None" = None
    ) -> Plan:
        if self.entries:
            return Plan(reply, self.entries, self._carry_out, settled)
        self._carry_out()
        return Plan(reply)

    def _carry_out(self) -> None:
        self._groups[self.group.id] = self.group
        for key, change in self._timer_changes.items():
            if change is None:
                self._timers.cancel(key)
            else:
                self._timers.set(key, *change)
        for respond, response in self._answers:
            tell(respond, response)

    # What belongs to it

    def write(self) -> None:
        """The group as it is now has to survive a restart."""
        self.entries.append(entry_of(self.group))

    def set_timer(self, key: object, delay_ms: int, operation: "Operation") -> None:
        self._timer_changes[key] = (delay_ms, operation)

    def cancel_timer(self, key: object) -> None:
        self._timer_changes[key] = None

    def answer_join(self, member_id: str, response: Any) -> None:
        """If the member waits for it."""
        respond = self.group.waiting_joins.pop(member_id, None)
        if respond is not None:
            self._answers.append((respond, response))

    def answer_sync(self, member_id: str, response: Any) -> None:
        respond = self.group.waiting_syncs.pop(member_id, None)
        if respond is not None:
            self._answers.append((respond, response))

    def park_join(self, member_id: str, respond: "Respond") -> None:
        """A request that the member sent before, on a connection it gave up maybe, ends here."""
        self.answer_join(member_id, join_error(REBALANCE_IN_PROGRESS, member_id))
        self.group.waiting_joins[member_id] = respond

    def park_sync(self, member_id: str, respond: "Respond") -> None:
        self.answer_sync(member_id, sync_error(REBALANCE_IN_PROGRESS))
        self.group.waiting_syncs[member_id] = respond

    def remove(self, member_id: str) -> None:
        """A member, pending or whole, is out; if it waits for something, it is told so."""
        self.answer_join(member_id, join_error(UNKNOWN_MEMBER_ID))
        self.answer_sync(member_id, sync_error(UNKNOWN_MEMBER_ID))
        self.cancel_timer(session_key(self.group.id, member_id))
        self.group.remove(member_id)

    def fence(self, member_id: str) -> None:
        """Another has taken the place of this static member."""
        self.answer_join(member_id, join_error(FENCED_INSTANCE_ID, member_id))
        self.answer_sync(member_id, sync_error(FENCED_INSTANCE_ID))
        self.cancel_timer(session_key(self.group.id, member_id))

    def drop_assignments(self) -> None:
        members = self.group.members
        for member in tuple(members.values()):
            if member.assignment:
                members[member.id] = member._replace(assignment=NO_ASSIGNMENT)
