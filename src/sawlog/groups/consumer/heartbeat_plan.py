"""Plans the effect of one heartbeat on a group: update the subscription, compare the topics,
compute the target assignment and reconcile the member. The plan is a list of records."""

from typing import TYPE_CHECKING, NamedTuple

from sawlog.core.event_logger import EventLogger
from sawlog.groups.consumer import consumer_records, target_assignment
from sawlog.groups.consumer.consumer_group import (
    NO_TARGET,
    ConsumerGroup,
    count,
    elect_assignor,
    uncount,
)
from sawlog.groups.consumer.reconciliation import Heartbeat, Owned, reconcile
from sawlog.groups.consumer.regex_subscriptions import NO_CHANGE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sawlog.coordinator.coordinator_records import Entry
    from sawlog.core.ids import TopicId
    from sawlog.groups.consumer.assignor import Assignor
    from sawlog.groups.consumer.consumer_member import Assignment, ConsumerMember
    from sawlog.groups.consumer.metadata_hash import MetadataHashes
    from sawlog.groups.consumer.regex_subscriptions import RegexSubscriptions
    from sawlog.groups.context import GroupContext

logger = EventLogger(__name__)


class HeartbeatRules(NamedTuple):
    """The settings and services that the heartbeats of all groups share."""

    context: "GroupContext"
    hashes: "MetadataHashes"
    regexes: "RegexSubscriptions"
    assignors: "Mapping[str, Assignor]"
    default_assignor: str

    def may_compute(self, group: ConsumerGroup) -> bool:
        """Whether a target may be computed: there is a minimum interval between two (KIP-1263)."""
        if group.target_ms == 0:
            return True
        interval_ms = self.context.group_setting(group.id, "consumer.assignment.interval.ms")
        return interval_ms == 0 or self.context.clock.now_ms() >= group.target_ms + interval_ms


class HeartbeatPlan:
    """`member` is the member with its new subscription, and after `run` with its new assignment;
    `planned` are the records."""

    __slots__ = ("_before", "_group", "_image", "_rules", "member", "planned")

    def __init__(
        self,
        rules: HeartbeatRules,
        group: ConsumerGroup,
        before: "ConsumerMember",
        member: "ConsumerMember",
        planned: "list[Entry]",
    ) -> None:
        self._rules = rules
        self._group = group
        self._image = rules.context.image
        self._before = before
        self.member = member
        self.planned = planned

    def run(self, owned: Owned | None) -> bool:
        """Plan everything; return whether the member's epoch, state or partitions change."""
        member, group = self.member, self._group
        epoch, changed = self.subscribe()
        target_epoch, target = group.target_epoch, group.target_of(member)
        if target_epoch < epoch and self._rules.may_compute(group):
            target_epoch, target = epoch, self._compute(epoch)
        if not changed and member.is_at(target_epoch):
            return False
        return self._reconcile(target_epoch, target, owned, changed=changed)

    def subscribe(self) -> tuple[int, bool]:
        """Plan the new subscription; return the new group epoch and whether the member's topics
        changed."""
        before, member, group = self._before, self.member, self._group
        names_changed, regex = False, NO_CHANGE
        if member is not before:
            self.planned.append(consumer_records.subscription(group.id, member))
            names_changed = member.topics != before.topics
        if group.regexes or member.regex != before.regex:
            regex = self._rules.regexes.subscribe(group, before, member, self.planned)
        epoch = group.epoch
        bump = names_changed or regex.is_resolved
        if bump or group.checked_topics is not self._image.topics:
            epoch = self._refresh(bump=bump)
        return epoch, names_changed or regex.changed

    def _refresh(self, *, bump: bool) -> int:
        """Compare the metadata hash of the subscribed topics; return the new group epoch."""
        group, before, member = self._group, self._before, self.member
        subscribed = dict(group.subscribed)
        uncount(subscribed, before.topics)
        count(subscribed, member.topics)
        if before.regex and before.regex != member.regex and group.regexes.get(before.regex) == 1:
            left = group.resolved.get(before.regex)
            uncount(subscribed, () if left is None else left.topics)
        metadata_hash = self._rules.hashes.of(subscribed, self._image)
        epoch = group.epoch
        if bump or metadata_hash != group.metadata_hash:
            epoch += 1
            self.planned.append(consumer_records.group_epoch(group.id, epoch, metadata_hash))
        else:
            group.set_checked_topics(self._image.topics)
        if group.has_partition_metadata:
            self.planned.append(consumer_records.partition_metadata_tombstone(group.id))
        return epoch

    def _compute(self, epoch: int) -> "Assignment":
        group, member, rules = self._group, self.member, self._rules
        votes = dict(group.assignor_votes)
        uncount(votes, () if self._before.assignor is None else [self._before.assignor])
        count(votes, () if member.assignor is None else [member.assignor])
        name = elect_assignor(votes, rules.default_assignor)
        assign = rules.assignors.get(name) or rules.assignors[rules.default_assignor]
        computed = target_assignment.compute(group, member, self._image, assign)
        for member_id, target in computed.items():
            if target != group.targets.get(member_id):
                self.planned.append(consumer_records.target(group.id, member_id, target))
        logger.info(
            "target assignment computed",
            group=group.id,
            epoch=epoch,
            members=len(computed),
            assignor=name,
        )
        now_ms = rules.context.clock.now_ms()
        self.planned.append(consumer_records.target_epoch(group.id, epoch, now_ms))
        return computed.get(member.id, NO_TARGET)

    def _reconcile(
        self, target_epoch: int, target: "Assignment", owned: Owned | None, *, changed: bool
    ) -> bool:
        group, names = self._group, self._image.names
        wanted = target_assignment.names_of(self.member, group.resolved)

        def is_subscribed(topic_id: "TopicId") -> bool:
            return names.get(topic_id) in wanted

        heartbeat = Heartbeat(target_epoch, target, changed, owned, group.owners_of, is_subscribed)
        member = reconcile(self.member, heartbeat)
        if member == self.member:
            return False
        self.planned.append(consumer_records.current(group.id, member))
        self.member = member
        return True
