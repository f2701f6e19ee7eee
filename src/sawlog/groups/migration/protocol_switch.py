"""A group goes over to the other protocol: the records that say so, the clocks and the answers.

Whoever waited for an answer under the old protocol is told to come again; nobody else notices.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

from sawlog.core.errors import KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.groups.classic.classic_group import ClassicGroup
from sawlog.groups.classic.classic_states import STABLE
from sawlog.groups.migration.downgrade import (
    classic_group_of,
    may_downgrade,
    may_downgrade_by_replacement,
)
from sawlog.groups.migration.upgrade import check_upgrade, consumer_group_of, entries_of
from sawlog.protocol.messages.join_group_response import JoinGroupResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sawlog.coordinator.coordinator_records import Entry
    from sawlog.coordinator.plan import Plan
    from sawlog.groups.classic.classic_group import Respond
    from sawlog.groups.classic.group_change import Change
    from sawlog.groups.classic.rebalance import Rebalancing
    from sawlog.groups.consumer.consumer_group import ConsumerGroup
    from sawlog.groups.consumer.consumer_member import Member
    from sawlog.groups.consumer.metadata_hash import MetadataHashes
    from sawlog.groups.consumer.timeouts import MemberClocks
    from sawlog.groups.context import GroupContext

logger = EventLogger(__name__)


class ProtocolSwitch:
    def __init__(
        self,
        context: "GroupContext",
        rebalancing: "Rebalancing",
        hashes: "MetadataHashes",
        clocks: "MemberClocks",
    ) -> None:
        self._context = context
        self._rebalancing = rebalancing
        self._hashes = hashes
        self._clocks = clocks

    # To the consumer protocol

    def upgraded(self, group: ClassicGroup) -> "tuple[ConsumerGroup, list[Entry]]":
        """The group that takes the place of a classic one with members, and the records of that;
        GROUP_ID_NOT_FOUND where it may not."""
        image = self._context.image
        try:
            check_upgrade(group, self._context.config)
            upgraded = consumer_group_of(group, image)
        except KafkaError as error:
            logger.info("classic group stays one", group=group.id, reason=error.message)
            raise
        if group.state is STABLE:
            upgraded.metadata_hash = self._hashes.of(upgraded.subscribed, image)
        # Else not everybody was told what it has. A hash that does not fit makes a new target,
        # also where a static member takes its old place and changes nothing.
        for member in group.members.values():
            # If nothing comes of it, these clocks find no member when they ring.
            self._clocks.hear(group.id, member.id, member.session_timeout_ms)
        logger.info("classic group becomes a consumer group", group=group.id)
        return upgraded, [*group.tombstones(), *entries_of(upgraded)]

    # To the classic protocol

    def is_due(self, group: "ConsumerGroup", leaving: "Sequence[Member]") -> bool:
        """Does the group go back to the classic protocol when these leave?"""
        return may_downgrade(group, leaving, self._context.config)

    def downgrade(self, group: "ConsumerGroup", leaving: "Sequence[Member]", reply: Any) -> "Plan":
        """These leave; those who stay share among themselves what is free now."""
        change = self._downgraded(group, leaving)
        self._rebalance(change, "members of the consumer protocol left")
        return self._plan(group, change, reply)

    def is_due_for(self, group: "ConsumerGroup", replaced: "Member") -> bool:
        """Does the group go back when a classic member takes the place of this static one?"""
        return may_downgrade_by_replacement(group, replaced, self._context.config)

    def downgrade_for(
        self, group: "ConsumerGroup", replaced: "Member", joining: "Member", respond: "Respond"
    ) -> "Plan":
        """A classic member takes the place of the last that was not. If all is in order, everybody
        goes on with what it has; else all of them, this one too, join anew."""
        change = self._downgraded(group, [replaced], joining)
        classic = change.group
        if not _is_settled(group, replaced, joining):
            change.park_join(joining.id, respond)
            self._rebalance(change, "members were still on the move")
            return self._plan(group, change, None)
        change.write()
        reply = JoinGroupResponse(
            generation_id=classic.generation,
            protocol_type=classic.protocol_type,
            protocol_name=classic.protocol,
            member_id=joining.id,
        )
        return self._plan(group, change, reply)

    def _downgraded(
        self,
        group: "ConsumerGroup",
        leaving: "Sequence[Member]",
        joining: "Member | None" = None,
    ) -> "Change":
        context, rebalancing = self._context, self._rebalancing
        now_ms = context.clock.now_ms()
        classic = classic_group_of(group, leaving, context.image, now_ms, joining)
        change = rebalancing.change(classic)
        change.entries += group.tombstones()
        for member in classic.members.values():
            rebalancing.renew(change, member)
        logger.info("consumer group becomes a classic group", group=group.id)
        return change

    def _rebalance(self, change: "Change", reason: str) -> None:
        """What is written is already the next generation: if the rebalance is lost in a restart,
        nobody takes the target, which it may never have been told, for what it has."""
        change.group.generation += 1
        change.write()
        change.group.generation -= 1
        self._rebalancing.begin(change, reason)

    def _plan(self, group: "ConsumerGroup", change: "Change", reply: Any) -> "Plan":
        plan = change.plan(reply)
        assert plan.apply is not None
        return plan._replace(apply=partial(self._apply, group, plan))

    def _apply(self, group: "ConsumerGroup", plan: "Plan") -> None:
        for member_id in group.members:
            self._clocks.stop(group.id, member_id)
        if plan.apply is not None:
            plan.apply()


def _is_settled(group: "ConsumerGroup", replaced: "Member", joining: "Member") -> bool:
    """Everybody has what it should have, so that the target can be their assignment as it is."""
    epoch = group.target_epoch
    return (
        epoch == group.epoch
        and joining.topics == replaced.topics
        and joining.regex == replaced.regex
        and all(member.is_at(epoch) for member in group.members.values() if member is not replaced)
    )
