"""A consumer group becomes a classic group when the last member leaves that is not classic.

Its members stay, with the target as their assignment, in a generation that is the group's epoch.
"""

from typing import TYPE_CHECKING

from sawlog.core.errors import ErrorCode, KafkaError, MalformedFrame
from sawlog.groups.classic.classic_group import ClassicGroup
from sawlog.groups.classic.classic_member import CONSUMER_PROTOCOL, Protocol
from sawlog.groups.classic.classic_member import Member as ClassicMember
from sawlog.groups.classic.classic_states import STABLE
from sawlog.groups.consumer.consumer_group import NO_TARGET
from sawlog.groups.migration.subscription_codec import version_of, write_assignment

if TYPE_CHECKING:
    from collections.abc import Collection

    from sawlog.cluster.metadata_image import MetadataImage
    from sawlog.core.config import BrokerConfig
    from sawlog.groups.consumer.consumer_group import ConsumerGroup
    from sawlog.groups.consumer.consumer_member import Assignment, Member

POLICIES = frozenset({"downgrade", "bidirectional"})
"""The migration policies that allow it."""


def may_downgrade(
    group: "ConsumerGroup", leaving: "Collection[Member]", config: "BrokerConfig"
) -> bool:
    """When these have left, are there members, all of them classic, and not too many?"""
    staying = len(group.members) - len(leaving)
    classic = group.classic_members - sum(member.is_classic for member in leaving)
    return (
        0 < staying == classic
        and staying <= config["group.max.size"]
        and config["group.consumer.migration.policy"].lower() in POLICIES
    )


def may_downgrade_by_replacement(
    group: "ConsumerGroup", replaced: "Member", config: "BrokerConfig"
) -> bool:
    """When a classic member takes the place of this one, are all of them classic?"""
    return (
        not replaced.is_classic
        and group.classic_members == len(group.members) - 1
        and len(group.members) <= config["group.max.size"]
        and config["group.consumer.migration.policy"].lower() in POLICIES
    )


def classic_group_of(
    group: "ConsumerGroup",
    leaving: "Collection[Member]",
    image: "MetadataImage",
    now_ms: int,
    joining: "Member | None" = None,
) -> ClassicGroup:
    """Those who stay, and one who takes the place of a static member that does not."""
    gone = {member.id for member in leaving}
    staying = {member.id: member for member in group.members.values() if member.id not in gone}
    targets = {member_id: group.targets.get(member_id, NO_TARGET) for member_id in staying}
    if joining is not None:
        staying[joining.id] = joining
        targets[joining.id] = group.target_of(joining)
    downgraded = ClassicGroup(group.id, now_ms)
    downgraded.state = STABLE
    downgraded.generation = group.epoch
    for member in staying.values():
        downgraded.add(_downgraded(member), CONSUMER_PROTOCOL)
    downgraded.protocol = downgraded.elect_protocol()
    for classic in list(downgraded.members.values()):
        downgraded.update(_assigned(classic, downgraded, targets[classic.id], image))
    downgraded.read_subscriptions()
    return downgraded


def _downgraded(member: "Member") -> ClassicMember:
    assert member.classic is not None
    return ClassicMember(
        member.id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.classic.session_timeout_ms,
        tuple(Protocol(offer.name, offer.metadata) for offer in member.classic.supported_protocols),
    )


def _assigned(
    member: ClassicMember, group: ClassicGroup, target: "Assignment", image: "MetadataImage"
) -> ClassicMember:
    """It is told in the version that it speaks itself."""
    try:
        version = version_of(member.metadata(group.protocol))
    except MalformedFrame as error:
        raise KafkaError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Consumer group {group.id} cannot become a classic group: {error}.",
        ) from error
    return member._replace(assignment=write_assignment(target, version, image))
