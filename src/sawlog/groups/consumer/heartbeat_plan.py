"""One heartbeat on its way through a group: subscribe, look at the topics, compute the target,
bring the member on. Nothing changes but the list of records that will."""

from typing import TYPE_CHECKING, NamedTuple

from sawlog.core.event_logger import EventLogger
from sawlog.groups.consumer import consumer_records, target_assignment
from sawlog.groups.consumer.consumer_group import (
    NO_TARGET,
    ConsumerGroup,
    count,
    discount,
    most_wanted,
)
from sawlog.groups.consumer.reconciliation import Owned, Situation, reconcile
from sawlog.groups.consumer.regex_subscriptions import NO_CHANGE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sawlog.coordinator.coordinator_records import Entry
    from sawlog.core.ids import TopicId
    from sawlog.groups.consumer.assignor import Assignor
    from sawlog.groups.consumer.consumer_member import Assignment, Member
    from sawlog.groups.consumer.metadata_hash import MetadataHashes
    from sawlog.groups.consumer.regex_subscriptions import Patterns
    from sawlog.groups.context import GroupContext

logger = EventLogger(__name__)


class Rules(NamedTuple):
    """What the rounds of all groups have in common."""

    context: "GroupContext"
    hashes: "MetadataHashes"
    patterns: "Patterns"
    assignors: "Mapping[str, Assignor]"
    default_assignor: str
    interval_ms: int

    def may_compute(self, group: ConsumerGroup) -> bool:
        """Targets keep a distance in time (KIP-1263), but for the first."""
        if group.target_ms == 0 or self.interval_ms == 0:
            return True
        return self.context.clock.now_ms() >= group.target_ms + self.interval_ms


class HeartbeatPlan:
    """`member` is the member as it asks to be, then as it becomes; `planned` are the records."""

    __slots__ = ("_before", "_group", "_image", "_rules", "member", "planned")

    def __init__(
        self,
        rules: Rules,
        group: ConsumerGroup,
        before: "Member",
        member: "Member",
        planned: "list[Entry]",
    ) -> None:
        self._rules = rules
        self._group = group
        self._image = rules.context.image
        self._before = before
        self.member = member
        self.planned = planned

    def run(self, owned: Owned | None) -> bool:
        """Whether the member's own epoch, state or partitions change."""
        member, group = self.member, self._group
        epoch, changed = self.subscribe()
        target_epoch, target = group.target_epoch, group.target_of(member)
        if target_epoch < epoch and self._rules.may_compute(group):
            target_epoch, target = epoch, self._compute(epoch)
        if not changed and member.is_at(target_epoch):
            return False
        return self._reconcile(target_epoch, target, owned, changed=changed)

    def subscribe(self) -> tuple[int, bool]:
        """The group's epoch then, and whether what the member reads has changed."""
        before, member, group = self._before, self.member, self._group
        names_changed, pattern = False, NO_CHANGE
        if member is not before:
            self.planned.append(consumer_records.subscription(group.id, member))
            names_changed = member.topics != before.topics
        if group.regexes or member.regex != before.regex:
            pattern = self._rules.patterns.subscribe(group, before, member, self.planned)
        epoch = group.epoch
        bump = names_changed or pattern.is_resolved
        if bump or group.checked_topics is not self._image.topics:
            epoch = self._refresh(bump=bump)
        return epoch, names_changed or pattern.changed

    def _refresh(self, *, bump: bool) -> int:
        """The group's epoch after a look at the topics that it reads now."""
        group, before, member = self._group, self._before, self.member
        subscribed = dict(group.subscribed)
        discount(subscribed, before.topics)
        count(subscribed, member.topics)
        if before.regex and before.regex != member.regex and group.regexes.get(before.regex) == 1:
            left = group.resolved.get(before.regex)
            discount(subscribed, () if left is None else left.topics)
        metadata_hash = self._rules.hashes.of(subscribed, self._image)
        epoch = group.epoch
        if bump or metadata_hash != group.metadata_hash:
            epoch += 1
            self.planned.append(consumer_records.group_epoch(group.id, epoch, metadata_hash))
        else:
            group.checked_topics = self._image.topics
        if group.has_partition_metadata:
            self.planned.append(consumer_records.no_partition_metadata(group.id))
        return epoch

    def _compute(self, epoch: int) -> "Assignment":
        group, member, rules = self._group, self.member, self._rules
        votes = dict(group.votes)
        discount(votes, () if self._before.assignor is None else [self._before.assignor])
        count(votes, () if member.assignor is None else [member.assignor])
        name = most_wanted(votes, rules.default_assignor)
        assign = rules.assignors.get(name) or rules.assignors[rules.default_assignor]
        computed = target_assignment.compute(group, member, self._image, assign)
        for member_id, target in computed.items():
            if target != group.targets.get(member_id):
                self.planned.append(consumer_records.target(group.id, member_id, target))
        logger.info(
            "target begins", group=group.id, epoch=epoch, members=len(computed), assignor=name
        )
        now_ms = rules.context.clock.now_ms()
        self.planned.append(consumer_records.target_epoch(group.id, epoch, now_ms))
        return computed.get(member.id, NO_TARGET)

    def _reconcile(
        self, target_epoch: int, target: "Assignment", owned: Owned | None, *, changed: bool
    ) -> bool:
        group, names = self._group, self._image.names
        wanted = target_assignment.names_of(self.member, group.resolved)

        def reads(topic_id: "TopicId") -> bool:
            return names.get(topic_id) in wanted

        now = Situation(target_epoch, target, changed, owned, group.owners_of, reads)
        member = reconcile(self.member, now)
        if member == self.member:
            return False
        self.planned.append(consumer_records.current(group.id, member))
        self.member = member
        return True
