"""The rebalance of a classic group from one generation to the next, and the timeouts in it.

A rebalance begins when a member joins, leaves or changes. All members rejoin; when they have, or
after the longest of their rebalance timeouts, a generation begins with those that did. The first
rebalance of a group is delayed for further members, and again whenever one joins. Then each member
has to send SyncGroup within the same timeout, or it is removed.
"""

from functools import partial
from typing import TYPE_CHECKING

from sawlog.coordinator.plan import Plan
from sawlog.core.event_logger import EventLogger
from sawlog.groups.classic.classic_group import ClassicGroup
from sawlog.groups.classic.classic_responses import join_response, sync_error
from sawlog.groups.classic.classic_states import COMPLETING, EMPTY, PREPARING, STABLE, Event
from sawlog.groups.classic.group_change import (
    REBALANCE_IN_PROGRESS,
    GroupChange,
    join_key,
    session_key,
    sync_key,
)

if TYPE_CHECKING:
    from sawlog.groups.classic.classic_member import ClassicMember
    from sawlog.groups.context import GroupContext
    from sawlog.groups.group import Group

logger = EventLogger(__name__)

NEW_MEMBER_TIMEOUT_MS = 300_000
"""The session timeout of a member during its first join, as in Kafka. A client that gave up and
joined again with another id must not leave a member behind for ever."""

MIN_JOIN_TIMEOUT_MS = 1_000
"""Interval of the checks in a group of static members none of which has rejoined."""


class Rebalancer:
    """The steps extend a change in progress; each timeout is an operation of its own."""

    def __init__(self, context: "GroupContext", groups: "dict[str, Group]") -> None:
        self._context = context
        self._groups = groups

    def find(self, group_id: str) -> ClassicGroup | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def change(self, group: ClassicGroup) -> GroupChange:
        return GroupChange(self._groups, self._context.timers, group)

    # Steps

    def begin(self, change: GroupChange, reason: str) -> None:
        """Begin a rebalance: all members have to rejoin, those that wait to sync too."""
        group = change.group
        logger.info("rebalance begins", group=group.id, generation=group.generation, reason=reason)
        if group.state is COMPLETING:
            group.assign({})
        self.answer_syncs(change, REBALANCE_IN_PROGRESS)
        group.clear_unsynced()
        change.cancel_timer(sync_key(group.id))
        group.move(Event.REBALANCE, self._context.clock.now_ms())
        if group.is_first_rebalance:
            delay_ms: int = self._context.config["group.initial.rebalance.delay.ms"]
            self._delay_first(change, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        elif group.has_all_joined:
            self.complete(change)
        else:
            self._wait_for_joins(change)

    def begin_or_complete(self, change: GroupChange, reason: str) -> None:
        """Begin a rebalance after a change of the members, or continue the one in progress."""
        if change.group.state is PREPARING:
            self.try_complete(change)
        else:
            self.begin(change, reason)

    def try_complete(self, change: GroupChange) -> None:
        """Begin a generation if all members have rejoined; the first rebalance always waits for its
        delay."""
        group = change.group
        if group.state is PREPARING and not group.is_first_rebalance and group.has_all_joined:
            self.complete(change)

    def complete(self, change: GroupChange) -> None:
        """Begin a generation with the members that rejoined and all static members."""
        group = change.group
        change.cancel_timer(join_key(group.id))
        for member in tuple(group.members.values()):
            if member.id not in group.waiting_joins and member.instance_id is None:
                _log_removal(group, member.id, "did not rejoin in time")
                change.remove(member.id)
        if group.members and not group.elect_joined_leader():
            logger.warning("no member rejoined", group=group.id, members=len(group.members))
            self._wait_for_joins(change, MIN_JOIN_TIMEOUT_MS)
            return
        group.begin_generation(self._context.clock.now_ms())
        logger.info(
            "generation begins",
            group=group.id,
            generation=group.generation,
            members=len(group.members),
        )
        if group.state is EMPTY:
            change.write()
            return
        for member in group.members.values():
            change.answer_join(member.id, join_response(group, member.id))
            self.renew_session(change, member)
        change.set_timer(
            sync_key(group.id),
            group.rebalance_timeout_ms,
            partial(self.sync_timed_out, group.id, group.generation),
        )

    def renew_session_now(self, group: ClassicGroup, member: "ClassicMember") -> None:
        """Restart the session of a member after a request that changes nothing else."""
        self._context.timers.set(
            session_key(group.id, member.id),
            member.session_timeout_ms,
            partial(self.session_timed_out, group.id, member.id),
        )

    def renew_session(self, change: GroupChange, member: "ClassicMember") -> None:
        """Restart the session of a member as part of a change."""
        self.set_session(change, member.id, member.session_timeout_ms)

    def set_session(self, change: GroupChange, member_id: str, timeout_ms: int) -> None:
        group_id = change.group.id
        change.set_timer(
            session_key(group_id, member_id),
            timeout_ms,
            partial(self.session_timed_out, group_id, member_id),
        )

    def answer_syncs(self, change: GroupChange, code: int) -> None:
        """Answer all parked SyncGroup requests with an error and restart the members' sessions."""
        group = change.group
        for member_id in tuple(group.waiting_syncs):
            change.answer_sync(member_id, sync_error(code))
            self.renew_session(change, group.members[member_id])

    def _wait_for_joins(self, change: GroupChange, min_timeout_ms: int = 0) -> None:
        group = change.group
        change.set_timer(
            join_key(group.id),
            max(group.rebalance_timeout_ms, min_timeout_ms),
            partial(self.join_timed_out, group.id),
        )

    def _delay_first(self, change: GroupChange, delay_ms: int, remaining_ms: int) -> None:
        group_id = change.group.id
        change.set_timer(
            join_key(group_id),
            delay_ms,
            partial(self.first_delay_over, group_id, delay_ms, remaining_ms),
        )

    # Timeouts

    def session_timed_out(self, group_id: str, member_id: str) -> Plan[None]:
        """Remove a member that sent no request in time, unless one of its requests is parked. A new
        member is removed in any case."""
        group = self.find(group_id)
        if group is None:
            return Plan()
        if member_id not in group.pending:
            if member_id not in group.members:
                return Plan()
            is_waiting = member_id in group.waiting_joins or member_id in group.waiting_syncs
            if is_waiting and member_id not in group.new_members:
                return Plan()
        _log_removal(group, member_id, "session timed out")
        was_pending = member_id in group.pending
        change = self.change(group)
        group = change.group
        change.remove(member_id)
        if group.state is PREPARING:
            if group.has_all_joined:
                self.complete(change)
        elif not was_pending and group.state in (STABLE, COMPLETING):
            self.begin(change, "a session timed out")
        return change.plan()

    def join_timed_out(self, group_id: str) -> Plan[None]:
        group = self.find(group_id)
        if group is None or group.state is not PREPARING:
            return Plan()
        change = self.change(group)
        self.complete(change)
        return change.plan()

    def first_delay_over(self, group_id: str, delay_ms: int, remaining_ms: int) -> Plan[None]:
        group = self.find(group_id)
        if group is None or group.state is not PREPARING:
            return Plan()
        change = self.change(group)
        if group.has_late_newcomer and remaining_ms:
            change.group.delay_first_rebalance()
            max_delay_ms: int = self._context.config["group.initial.rebalance.delay.ms"]
            self._delay_first(
                change, min(max_delay_ms, remaining_ms), max(remaining_ms - delay_ms, 0)
            )
        else:
            self.complete(change)
        return change.plan()

    def sync_timed_out(self, group_id: str, generation: int) -> Plan[None]:
        group = self.find(group_id)
        if (
            group is None
            or group.generation != generation
            or group.state not in (COMPLETING, STABLE)
            or not group.unsynced
        ):
            return Plan()
        change = self.change(group)
        for member_id in sorted(group.unsynced):
            _log_removal(group, member_id, "did not send SyncGroup in time")
            change.remove(member_id)
        self.begin(change, "members did not sync")
        return change.plan()


def _log_removal(group: ClassicGroup, member_id: str, reason: str) -> None:
    logger.info(
        "member removed",
        group=group.id,
        member=member_id,
        generation=group.generation,
        reason=reason,
    )
