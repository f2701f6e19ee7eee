"""The requests of the consumer protocol (KIP-848): ConsumerGroupHeartbeat and its description.

A member joins with epoch 0 and leaves with -1; a static member leaves temporarily with -2. Each
heartbeat reports the owned partitions and returns the assignment. `heartbeat_plan.py` plans the
effect of a heartbeat; `reconciliation.py` has the states of a member.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from sawlog.cluster.metadata_image import changed_topics
from sawlog.coordinator.plan import Plan
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import random_id_text
from sawlog.groups.classic.classic_group import ClassicGroup
from sawlog.groups.consumer import consumer_records, heartbeat_checks
from sawlog.groups.consumer.consumer_group import ConsumerGroup, uncount
from sawlog.groups.consumer.consumer_member import (
    JOINING_EPOCH,
    NO_PARTITIONS,
    STATIC_LEAVING_EPOCH,
    UNREVOKED,
    ConsumerMember,
)
from sawlog.groups.consumer.describe_group import describe
from sawlog.groups.consumer.heartbeat_plan import HeartbeatPlan, HeartbeatRules
from sawlog.groups.consumer.metadata_hash import MetadataHashes
from sawlog.groups.consumer.regex_subscriptions import RegexSubscriptions
from sawlog.groups.consumer.replay import ConsumerReplay
from sawlog.groups.consumer.server_assignors import ASSIGNORS
from sawlog.groups.consumer.timeouts import MemberTimeouts
from sawlog.groups.migration.protocol_switch import ProtocolSwitch
from sawlog.protocol.messages.consumer_group_describe_response import DescribedGroup
from sawlog.protocol.messages.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from sawlog.cluster.metadata_image import MetadataImage
    from sawlog.coordinator.coordinator_records import Entry
    from sawlog.groups.classic.rebalance import Rebalancer
    from sawlog.groups.consumer.reconciliation import Owned
    from sawlog.groups.context import Caller, GroupContext
    from sawlog.groups.group import Group
    from sawlog.protocol.messages.consumer_group_heartbeat_request import (
        ConsumerGroupHeartbeatRequest,
    )

logger = EventLogger(__name__)

R = TypeVar("R")


class ConsumerMembership:
    """The consumer groups of one partition of `__consumer_offsets`."""

    def __init__(
        self, context: "GroupContext", groups: "dict[str, Group]", rebalancer: "Rebalancer"
    ) -> None:
        self._context = context
        self._groups = groups
        config = context.config
        offered = [name for name in config["group.consumer.assignors"] if name in ASSIGNORS]
        self._hashes = MetadataHashes()
        self._regexes = RegexSubscriptions(context, groups, self._hashes)
        self.rules = HeartbeatRules(
            context,
            self._hashes,
            self._regexes,
            assignors=ASSIGNORS,
            default_assignor=offered[0] if offered else next(iter(ASSIGNORS)),
        )
        self.timeouts = MemberTimeouts(context, self._expire)
        self._max_members: int = config["group.consumer.max.size"]
        self.replayers = ConsumerReplay(groups).replayers
        self.switch = ProtocolSwitch(context, rebalancer, self._hashes, self.timeouts)

    def activate(self) -> None:
        """Start the timeouts of all members when the log is loaded."""
        self._regexes.activate()
        for group in self._groups.values():
            if isinstance(group, ConsumerGroup):
                for member in group.members.values():
                    self.timeouts.renew_session(group.id, member.id)
                    if member.state is UNREVOKED:
                        self.timeouts.set_revocation(group.id, member)

    def image_changed(self, old: "MetadataImage", new: "MetadataImage") -> None:
        """Let the next heartbeat of each group compare its topics, and resolve regular expressions
        again if topics were created."""
        if old.topics is new.topics:
            return
        for group in self._groups.values():
            if isinstance(group, ConsumerGroup):
                group.set_checked_topics(None)  # it would keep the old image in memory
        if any(before is None for before, _ in changed_topics(old, new)):
            self._regexes.topics_created()

    # Heartbeats

    def heartbeat(
        self, caller: "Caller", message: "ConsumerGroupHeartbeatRequest"
    ) -> Plan[ConsumerGroupHeartbeatResponse]:
        if message.member_epoch < JOINING_EPOCH:
            return self._leave(message)
        is_joining = message.member_epoch == JOINING_EPOCH
        group, planned = self._group(message.group_id, is_joining=is_joining)
        self.check_room(group, message.member_id)
        before, owned = self._sender(group, message, planned)
        member = heartbeat_checks.updated_member(before, caller, message)
        if is_joining and member.id not in group.members:
            logger.info(
                "member joins",
                group=group.id,
                member=member.id,
                instance=member.instance_id,
                client=caller.client_id,
                host=caller.host,
            )
        plan = HeartbeatPlan(self.rules, group, before, member, planned)
        if heartbeat_checks.is_new(group, message):
            plan.subscribe()
            return Plan(entries=planned, run_again=True)
        has_moved = plan.run(owned)
        member = plan.member
        if has_moved:
            self.timeouts.set_revocation(group.id, member)
        self.timeouts.renew_session(group.id, member.id)
        reply = ConsumerGroupHeartbeatResponse(
            member_id=member.id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self._context.group_setting(
                group.id, "consumer.heartbeat.interval.ms"
            ),
        )
        if is_joining or member.assigned != before.assigned or heartbeat_checks.is_full(message):
            reply.assignment = _assignment(member)
        return Plan(reply, planned)

    def _sender(
        self,
        group: ConsumerGroup,
        message: "ConsumerGroupHeartbeatRequest",
        planned: "list[Entry]",
    ) -> "tuple[ConsumerMember, Owned | None]":
        member_id = message.member_id or self.new_member_id()
        owned = heartbeat_checks.owned_in(message)
        epoch, instance_id = message.member_epoch, message.instance_id
        if instance_id is None:
            return heartbeat_checks.dynamic_member(group, member_id, epoch, owned), owned
        return (
            heartbeat_checks.static_member(group, member_id, instance_id, epoch, owned, planned),
            owned,
        )

    def _group(self, group_id: str, *, is_joining: bool) -> "tuple[ConsumerGroup, list[Entry]]":
        """Return the group, which may be new, and the records that convert a classic group."""
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group, []
        if not is_joining:
            raise _not_found(group_id)
        if group is None:
            return ConsumerGroup(group_id), []
        if not isinstance(group, ClassicGroup):
            raise _not_found(group_id)
        if group.is_empty:
            return ConsumerGroup(group_id), group.tombstones()
        return self.switch.upgraded(group)

    def check_room(self, group: ConsumerGroup, member_id: str) -> None:
        if len(group.members) >= self._max_members and member_id not in group.members:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The group has reached its maximum of {self._max_members} members.",
            )

    def new_member_id(self) -> str:
        """Generate an id for a member that has none (version 0), in Kafka's format."""
        return random_id_text(self._context.random.bytes)

    # Leaving

    def _leave(
        self, message: "ConsumerGroupHeartbeatRequest"
    ) -> Plan[ConsumerGroupHeartbeatResponse]:
        group = self.consumer_group(message.group_id)
        reply = ConsumerGroupHeartbeatResponse(
            member_id=message.member_id, member_epoch=message.member_epoch
        )
        if message.instance_id is None:
            member = group.member(message.member_id)
        else:
            member = heartbeat_checks.known_instance(group, message.member_id, message.instance_id)
        is_permanent = message.instance_id is None or message.member_epoch != STATIC_LEAVING_EPOCH
        reason = "leave requested" if is_permanent else "static member left temporarily"
        logger.info("member leaves", group=group.id, member=member.id, reason=reason)
        if is_permanent:
            return self.fence(group, [member], reply)
        leaving = member._replace(
            epoch=STATIC_LEAVING_EPOCH,
            assigned={
                topic_id: dict.fromkeys(held, 0) for topic_id, held in member.assigned.items()
            },
            revoking=NO_PARTITIONS,
        )
        return Plan(reply, [consumer_records.current(group.id, leaving)])

    def fence(
        self, group: ConsumerGroup, members: Sequence[ConsumerMember], reply: R | None = None
    ) -> Plan[R]:
        """Remove members; the group continues in a new epoch, or as a classic group."""
        if not members:
            return Plan(reply)
        if self.switch.is_due(group, members):
            return self.switch.downgrade(group, members, reply)
        planned: list[Entry] = []
        subscribed, regexes = dict(group.subscribed), dict(group.regexes)
        for member in members:
            planned += consumer_records.member_tombstones(group.id, member.id)
            uncount(subscribed, member.topics)
            uncount(regexes, [member.regex] if member.regex else ())
        for pattern in sorted(group.regexes.keys() - regexes.keys()):
            planned.append(consumer_records.regex_tombstone(group.id, pattern))
            resolved = group.resolved.get(pattern)
            uncount(subscribed, () if resolved is None else resolved.topics)
        metadata_hash = self._hashes.of(subscribed, self._context.image)
        planned.append(consumer_records.group_epoch(group.id, group.epoch + 1, metadata_hash))
        removed = [member.id for member in members]
        return Plan(reply, planned, apply=partial(self._apply_fence, group.id, removed, planned))

    def _apply_fence(self, group_id: str, removed: list[str], planned: "list[Entry]") -> None:
        for entry in planned:
            self.replayers[type(entry.key)](entry.key, entry.value)
        for member_id in removed:
            self.timeouts.cancel_all(group_id, member_id)

    def _expire(self, group_id: str, member_id: str, epoch: int | None) -> Plan[None]:
        """Fence a member after its session timeout, or its revocation timeout in `epoch`."""
        group = self._groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
        if member is None or not isinstance(group, ConsumerGroup):
            return Plan()
        if epoch is not None and not (member.state is UNREVOKED and member.epoch == epoch):
            return Plan()
        reason = "session timed out" if epoch is None else "did not revoke its partitions in time"
        logger.info(
            "member removed", group=group_id, member=member_id, epoch=member.epoch, reason=reason
        )
        return self.fence(group, [member])

    # Look-ups

    def consumer_group(self, group_id: str) -> ConsumerGroup:
        group = self._groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            raise _not_found(group_id)
        return group

    def describe(self, group_id: str) -> Plan[DescribedGroup]:
        """Reply with a DescribedGroup."""
        return Plan(
            describe(
                self.consumer_group(group_id), self.rules.default_assignor, self._context.image
            )
        )


def _assignment(member: ConsumerMember) -> Assignment:
    assigned = member.assigned
    return Assignment(
        [TopicPartitions(topic_id, sorted(assigned[topic_id])) for topic_id in sorted(assigned)]
    )


def _not_found(group_id: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
