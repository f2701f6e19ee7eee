"""The effect of one operation on a classic group: its next state, the responses, the timers, and
the records that must be written before any of them takes effect.

Everything is applied to a copy of the group. If the log refuses the records, the copy is dropped
and nothing has changed.
"""

from typing import TYPE_CHECKING, Any, TypeVar

from sawlog.coordinator.plan import Plan
from sawlog.core.errors import ErrorCode
from sawlog.groups.classic.classic_responses import join_error, respond_safely, sync_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sawlog.coordinator.coordinator_records import Entry
    from sawlog.coordinator.plan import Operation, Timers
    from sawlog.core.errors import KafkaError
    from sawlog.groups.classic.classic_group import ClassicGroup, Respond
    from sawlog.groups.group import Group

R = TypeVar("R")

UNKNOWN_MEMBER_ID = int(ErrorCode.UNKNOWN_MEMBER_ID)
FENCED_INSTANCE_ID = int(ErrorCode.FENCED_INSTANCE_ID)
REBALANCE_IN_PROGRESS = int(ErrorCode.REBALANCE_IN_PROGRESS)


def session_key(group_id: str, member_id: str) -> object:
    return ("classic session", group_id, member_id)


def join_key(group_id: str) -> object:
    return ("classic join", group_id)


def sync_key(group_id: str) -> object:
    return ("classic sync", group_id)


class GroupChange:
    """Takes effect in `plan` if there are no records, else when the records are written."""

    def __init__(self, groups: "dict[str, Group]", timers: "Timers", group: "ClassicGroup") -> None:
        self.group = group.copy()
        self._entries: list[Entry] = []
        self._groups = groups
        self._timers = timers
        self._responses: list[tuple[Respond, Any]] = []
        self._timer_changes: dict[object, tuple[int, Operation] | None] = {}

    def plan(
        self,
        reply: R | None = None,
        on_committed: "Callable[[KafkaError | None], None] | None" = None,
    ) -> Plan[R]:
        if self._entries:
            return Plan(reply, self._entries, self._apply, on_committed)
        self._apply()
        return Plan(reply)

    def _apply(self) -> None:
        self._groups[self.group.id] = self.group
        for key, change in self._timer_changes.items():
            if change is None:
                self._timers.cancel(key)
            else:
                self._timers.set(key, *change)
        for respond, response in self._responses:
            respond_safely(respond, response)

    # Records and timers

    def write(self) -> None:
        """Write the group as it is now."""
        self._entries.append(self.group.record())

    def write_as_next_generation(self) -> None:
        self._entries.append(self.group.record(self.group.generation + 1))

    def add_entries(self, entries: "Iterable[Entry]") -> None:
        self._entries += entries

    def set_timer(self, key: object, delay_ms: int, operation: "Operation") -> None:
        self._timer_changes[key] = (delay_ms, operation)

    def cancel_timer(self, key: object) -> None:
        self._timer_changes[key] = None

    # Requests

    def answer_join(self, member_id: str, response: Any) -> None:
        """Answer the member's parked JoinGroup, if there is one."""
        respond = self.group.waiting_joins.pop(member_id, None)
        if respond is not None:
            self._responses.append((respond, response))

    def answer_sync(self, member_id: str, response: Any) -> None:
        """Answer the member's parked SyncGroup, if there is one."""
        respond = self.group.waiting_syncs.pop(member_id, None)
        if respond is not None:
            self._responses.append((respond, response))

    def park_join(self, member_id: str, respond: "Respond") -> None:
        """Park a JoinGroup; an earlier one of the member, from an old connection, is answered."""
        self.answer_join(member_id, join_error(REBALANCE_IN_PROGRESS, member_id))
        self.group.waiting_joins[member_id] = respond

    def park_sync(self, member_id: str, respond: "Respond") -> None:
        self.answer_sync(member_id, sync_error(REBALANCE_IN_PROGRESS))
        self.group.waiting_syncs[member_id] = respond

    # Members

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending member; its parked requests get UNKNOWN_MEMBER_ID."""
        self.answer_join(member_id, join_error(UNKNOWN_MEMBER_ID))
        self.answer_sync(member_id, sync_error(UNKNOWN_MEMBER_ID))
        self.cancel_timer(session_key(self.group.id, member_id))
        self.group.remove(member_id)

    def fence(self, member_id: str) -> None:
        """Answer the parked requests of a static member that is replaced under a new id."""
        self.answer_join(member_id, join_error(FENCED_INSTANCE_ID, member_id))
        self.answer_sync(member_id, sync_error(FENCED_INSTANCE_ID))
        self.cancel_timer(session_key(self.group.id, member_id))
