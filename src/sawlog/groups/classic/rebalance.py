"""How a classic group gets from one generation to the next, and what time does to it.

A rebalance begins when somebody comes, goes or changes. All members join anew; when they have, or
the longest of their rebalance time-outs is over, a generation begins with those who did. The first
rebalance of a group waits a moment for more members, and a little longer whenever one comes. Then
every member asks for its assignment; one that does not within the same time-out is out.
"""

from functools import partial
from typing import TYPE_CHECKING

from sawlog.coordinator.plan import Plan
from sawlog.core.event_logger import EventLogger
from sawlog.groups.classic.classic_group import ClassicGroup
from sawlog.groups.classic.classic_responses import joined, sync_error
from sawlog.groups.classic.classic_states import COMPLETING, EMPTY, PREPARING, STABLE, Event
from sawlog.groups.classic.group_change import (
    REBALANCE_IN_PROGRESS,
    Change,
    join_key,
    session_key,
    sync_key,
)

if TYPE_CHECKING:
    from sawlog.groups.classic.classic_member import Member
    from sawlog.groups.context import GroupContext
    from sawlog.groups.group import Group

logger = EventLogger(__name__)

NEWCOMER_TIMEOUT_MS = 300_000
"""So long a new member may wait in its first join. It has no session yet, and one whose client gave
up and came back under another id must not stay for ever."""


LEAST_PATIENCE_MS = 1_000
"""Between two looks whether any of the static members joined again that nobody waits for."""


class Rebalancing:
    """Steps take a change that is under way; what time does is an operation of its own."""

    def __init__(self, context: "GroupContext", groups: "dict[str, Group]") -> None:
        self._context = context
        self._groups = groups

    def find(self, group_id: str) -> ClassicGroup | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def change(self, group: ClassicGroup) -> Change:
        return Change(self._groups, self._context.timers, group)

    # Steps

    def begin(self, change: Change, reason: str) -> None:
        """Everybody has to join anew; those who wait for an assignment too."""
        group = change.group
        logger.info("rebalance begins", group=group.id, generation=group.generation, reason=reason)
        if group.state is COMPLETING:
            change.drop_assignments()
        self.answer_syncs(change, REBALANCE_IN_PROGRESS)
        group.unsynced.clear()
        change.cancel_timer(sync_key(group.id))
        group.move(Event.REBALANCE, self._context.clock.now_ms())
        if group.is_first_rebalance:
            delay_ms: int = self._context.config["group.initial.rebalance.delay.ms"]
            group.has_late_newcomer = False
            self._wait_for_more(change, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        elif group.has_all_joined:
            self.complete(change)
        else:
            self._wait_for_joins(change)

    def begin_or_complete(self, change: Change, reason: str) -> None:
        """After a change of the members: a rebalance, or a step in the one under way."""
        if change.group.state is PREPARING:
            self.try_complete(change)
        else:
            self.begin(change, reason)

    def try_complete(self, change: Change) -> None:
        """A generation, if the last has joined that was waited for. The first rebalance waits for
        its time in any case."""
        group = change.group
        if group.state is PREPARING and not group.is_first_rebalance and group.has_all_joined:
            self.complete(change)

    def complete(self, change: Change) -> None:
        """A generation of those who joined; static members may be late."""
        group = change.group
        change.cancel_timer(join_key(group.id))
        for member in tuple(group.members.values()):
            if member.id not in group.waiting_joins and member.instance_id is None:
                _tell_of(group, member.id, "did not join again in time")
                change.remove(member.id)
        if group.members and not _has_leader_joined(group):
            logger.warning("nobody joined again", group=group.id, members=len(group.members))
            self._wait_for_joins(change, LEAST_PATIENCE_MS)
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
            change.answer_join(member.id, joined(group, member.id))
            self.renew(change, member)
        change.set_timer(
            sync_key(group.id),
            group.rebalance_timeout_ms,
            partial(self.sync_time_over, group.id, group.generation),
        )

    def heard_of(self, group: ClassicGroup, member: "Member") -> None:
        """A sign of life, and nothing else: the session begins anew."""
        self._context.timers.set(
            session_key(group.id, member.id),
            member.session_timeout_ms,
            partial(self.session_over, group.id, member.id),
        )

    def renew(self, change: Change, member: "Member") -> None:
        """The session of the member begins anew with this change."""
        self.expect(change, member.id, member.session_timeout_ms)

    def expect(self, change: Change, member_id: str, within_ms: int) -> None:
        """Somebody has to be heard of in this time."""
        group_id = change.group.id
        change.set_timer(
            session_key(group_id, member_id),
            within_ms,
            partial(self.session_over, group_id, member_id),
        )

    def answer_syncs(self, change: Change, code: int) -> None:
        """Whoever waits for an assignment gets none; its session begins anew, which a parked
        request stood in for."""
        group = change.group
        for member_id in tuple(group.waiting_syncs):
            change.answer_sync(member_id, sync_error(code))
            self.renew(change, group.members[member_id])

    def _wait_for_joins(self, change: Change, least_ms: int = 0) -> None:
        group = change.group
        change.set_timer(
            join_key(group.id),
            max(group.rebalance_timeout_ms, least_ms),
            partial(self.join_time_over, group.id),
        )

    def _wait_for_more(self, change: Change, delay_ms: int, remaining_ms: int) -> None:
        group_id = change.group.id
        change.set_timer(
            join_key(group_id),
            delay_ms,
            partial(self.first_delay_over, group_id, delay_ms, remaining_ms),
        )

    # Time

    def session_over(self, group_id: str, member_id: str) -> Plan:
        """A member was not heard of. One that waits for an answer of ours is not to blame, unless
        it is new."""
        group = self.find(group_id)
        if group is None:
            return Plan()
        if member_id not in group.pending:
            if member_id not in group.members:
                return Plan()
            is_waiting = member_id in group.waiting_joins or member_id in group.waiting_syncs
            if is_waiting and member_id not in group.newcomers:
                return Plan()
        _tell_of(group, member_id, "not heard of in time")
        was_pending = member_id in group.pending
        change = self.change(group)
        group = change.group
        change.remove(member_id)
        if group.state is PREPARING:
            if group.has_all_joined:
                self.complete(change)
        elif not was_pending and group.state in (STABLE, COMPLETING):
            self.begin(change, "a session is over")
        return change.plan()

    def join_time_over(self, group_id: str) -> Plan:
        group = self.find(group_id)
        if group is None or group.state is not PREPARING:
            return Plan()
        change = self.change(group)
        self.complete(change)
        return change.plan()

    def first_delay_over(self, group_id: str, delay_ms: int, remaining_ms: int) -> Plan:
        group = self.find(group_id)
        if group is None or group.state is not PREPARING:
            return Plan()
        change = self.change(group)
        if group.has_late_newcomer and remaining_ms:
            change.group.has_late_newcomer = False
            longest_ms: int = self._context.config["group.initial.rebalance.delay.ms"]
            self._wait_for_more(
                change, min(longest_ms, remaining_ms), max(remaining_ms - delay_ms, 0)
            )
        else:
            self.complete(change)
        return change.plan()

    def sync_time_over(self, group_id: str, generation: int) -> Plan:
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
            _tell_of(group, member_id, "did not ask for its assignment in time")
            change.remove(member_id)
        self.begin(change, "members did not sync")
        return change.plan()


def _has_leader_joined(group: ClassicGroup) -> bool:
    """Another leader is taken where the last one did not join; there is none if nobody did."""
    waiting = group.waiting_joins
    if group.leader not in waiting:
        found = next((member_id for member_id in group.members if member_id in waiting), None)
        if found is None:
            return False
        group.leader = found
    return True


def _tell_of(group: ClassicGroup, member_id: str, reason: str) -> None:
    logger.info(
        "member put out",
        group=group.id,
        member=member_id,
        generation=group.generation,
        reason=reason,
    )
