"""Switches a group to the other protocol: the records, the timeouts and the responses.

Parked requests of the old protocol are answered with an error that makes their members rejoin.
"""

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

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
    from sawlog.groups.classic.group_change import GroupChange
    from sawlog.groups.classic.rebalance import Rebalancer
    from sawlog.groups.consumer.consumer_group import ConsumerGroup
    from sawlog.groups.consumer.consumer_member import ConsumerMember
    from sawlog.groups.consumer.metadata_hash import MetadataHashes
    from sawlog.groups.consumer.timeouts import MemberTimeouts
    from sawlog.groups.context import GroupContext

logger = EventLogger(__name__)

R = TypeVar("R")


class ProtocolSwitch:
    """Upgrades classic groups and downgrades consumer groups."""

    def __init__(
        self,
        context: "GroupContext",
        rebalancer: "Rebalancer",
        hashes: "MetadataHashes",
        timeouts: "MemberTimeouts",
    ) -> None:
        self._context = context
        self._rebalancer = rebalancer
        self._hashes = hashes
        self._timeouts = timeouts

    # To the consumer protocol

    def upgraded(self, group: ClassicGroup) -> "tuple[ConsumerGroup, list[Entry]]":
        """Return the consumer group that replaces a classic group with members, and its records;
        GROUP_ID_NOT_FOUND if the group cannot be upgraded."""
        image = self._context.image
        try:
            check_upgrade(group, self._context.config)
            upgraded = consumer_group_of(group, image)
        except KafkaError as error:
            logger.info("classic group not upgraded", group=group.id, reason=error.message)
            raise
        if group.state is STABLE:
            metadata_hash = self._hashes.of(upgraded.subscribed, image)
            upgraded.set_epoch(upgraded.epoch, metadata_hash)
        # Else some members do not know their assignments yet. The hash 0 causes a new target, even
        # if a static member rejoins without a change.
        for member in group.members.values():
            # If the upgrade fails, these timeouts find no member and do nothing.
            self._timeouts.renew_session(group.id, member.id, member.session_timeout_ms)
        logger.info("classic group becomes a consumer group", group=group.id)
        return upgraded, [*group.tombstones(), *entries_of(upgraded)]

    # To the classic protocol

    def is_due(self, group: "ConsumerGroup", leaving: "Sequence[ConsumerMember]") -> bool:
        """Whether the group becomes a classic group when these members leave."""
        return may_downgrade(group, leaving, self._context.config)

    def downgrade(
        self, group: "ConsumerGroup", leaving: "Sequence[ConsumerMember]", reply: R | None
    ) -> "Plan[R]":
        """Remove members, downgrade the group and rebalance it."""
        change = self._downgraded(group, leaving)
        self._rebalance(change, "the last members of the consumer protocol left")
        return self._plan(group, change, reply)

    def is_due_for_replacement(self, group: "ConsumerGroup", replaced: "ConsumerMember") -> bool:
        """Whether the group becomes a classic group when a classic member replaces this one."""
        return may_downgrade_by_replacement(group, replaced, self._context.config)

    def downgrade_for_replacement(
        self,
        group: "ConsumerGroup",
        replaced: "ConsumerMember",
        joining: "ConsumerMember",
        respond: "Respond",
    ) -> "Plan[JoinGroupResponse]":
        """Downgrade the group because a classic member replaces the last non-classic one. If all
        members have reached their targets they keep them; else the group rebalances."""
        change = self._downgraded(group, [replaced], joining)
        classic = change.group
        if not _is_reconciled(group, replaced, joining):
            change.park_join(joining.id, respond)
            self._rebalance(change, "members had not reached their targets")
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
        leaving: "Sequence[ConsumerMember]",
        joining: "ConsumerMember | None" = None,
    ) -> "GroupChange":
        context, rebalancer = self._context, self._rebalancer
        now_ms = context.clock.now_ms()
        classic = classic_group_of(group, leaving, context.image, now_ms, joining)
        change = rebalancer.change(classic)
        change.add_entries(group.tombstones())
        for member in classic.members.values():
            rebalancer.renew_session(change, member)
        logger.info("consumer group becomes a classic group", group=group.id)
        return change

    def _rebalance(self, change: "GroupChange", reason: str) -> None:
        """Begin a rebalance. The record already has the next generation: after a restart no member
        takes its target, which it may not know, for its assignment."""
        change.write_as_next_generation()
        self._rebalancer.begin(change, reason)

    def _plan(self, group: "ConsumerGroup", change: "GroupChange", reply: R | None) -> "Plan[R]":
        plan = change.plan(reply)
        assert plan.apply is not None
        return plan._replace(apply=partial(self._apply, group, plan))

    def _apply(self, group: "ConsumerGroup", plan: "Plan[Any]") -> None:
        for member_id in group.members:
            self._timeouts.cancel_all(group.id, member_id)
        if plan.apply is not None:
            plan.apply()


def _is_reconciled(
    group: "ConsumerGroup", replaced: "ConsumerMember", joining: "ConsumerMember"
) -> bool:
    """Whether all other members have reached the target and the replacement subscribes to the same
    topics, so that the target can be the assignment."""
    epoch = group.target_epoch
    return (
        epoch == group.epoch
        and joining.topics == replaced.topics
        and joining.regex == replaced.regex
        and all(member.is_at(epoch) for member in group.members.values() if member is not replaced)
    )
