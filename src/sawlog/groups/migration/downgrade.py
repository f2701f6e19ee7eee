"""Downgrade: a consumer group becomes a classic group when its last non-classic member leaves.

The remaining members keep their target as their assignment; the generation is the group epoch.
"""

from typing import TYPE_CHECKING

from sawlog.core.errors import ErrorCode, KafkaError, MalformedFrame
from sawlog.groups.classic.classic_group import ClassicGroup
from sawlog.groups.classic.classic_member import (
    CONSUMER_PROTOCOL,
    ClassicMember,
    Protocol,
    elect_protocol,
)
from sawlog.groups.consumer.consumer_group import NO_TARGET
from sawlog.groups.migration.member_assignments import write_assignment
from sawlog.protocol.consumer_protocol import version_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from sawlog.cluster.metadata_image import MetadataImage
    from sawlog.core.config import BrokerConfig
    from sawlog.groups.consumer.consumer_group import ConsumerGroup
    from sawlog.groups.consumer.consumer_member import Assignment, ConsumerMember

POLICIES = frozenset({"downgrade", "bidirectional"})
"""Values of group.consumer.migration.policy that allow it."""


def may_downgrade(
    group: "ConsumerGroup", leaving: "Collection[ConsumerMember]", config: "BrokerConfig"
) -> bool:
    """Whether all remaining members are classic, and not more than group.max.size."""
    staying = len(group.members) - len(leaving)
    classic = group.classic_members - sum(member.is_classic for member in leaving)
    return (
        0 < staying == classic
        and staying <= config["group.max.size"]
        and config["group.consumer.migration.policy"].lower() in POLICIES
    )


def may_downgrade_by_replacement(
    group: "ConsumerGroup", replaced: "ConsumerMember", config: "BrokerConfig"
) -> bool:
    """Whether all members are classic once a classic member has replaced this one."""
    return (
        not replaced.is_classic
        and group.classic_members == len(group.members) - 1
        and len(group.members) <= config["group.max.size"]
        and config["group.consumer.migration.policy"].lower() in POLICIES
    )


def classic_group_of(
    group: "ConsumerGroup",
    leaving: "Collection[ConsumerMember]",
    image: "MetadataImage",
    now_ms: int,
    joining: "ConsumerMember | None" = None,
) -> ClassicGroup:
    """The classic group of the remaining members, and of `joining`, a replaced static member."""
    left = {member.id for member in leaving}
    staying = {member.id: member for member in group.members.values() if member.id not in left}
    targets = {member_id: group.targets.get(member_id, NO_TARGET) for member_id in staying}
    if joining is not None:
        staying[joining.id] = joining
        targets[joining.id] = group.target_of(joining)
    members = [_classic_member(member) for member in staying.values()]
    protocol = elect_protocol(members)
    return ClassicGroup.of_generation(
        group.id,
        [
            member._replace(
                assignment=_assignment(group.id, member, protocol, targets[member.id], image)
            )
            for member in members
        ],
        generation=group.epoch,
        protocol_type=CONSUMER_PROTOCOL,
        protocol=protocol,
        state_since_ms=now_ms,
    )


def _classic_member(member: "ConsumerMember") -> ClassicMember:
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


def _assignment(
    group_id: str,
    member: ClassicMember,
    protocol: str | None,
    target: "Assignment",
    image: "MetadataImage",
) -> bytes:
    """Encode the target in the version of the member's subscription."""
    try:
        version = version_of(member.metadata(protocol))
    except MalformedFrame as error:
        raise KafkaError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Consumer group {group_id} cannot become a classic group: {error}.",
        ) from error
    return write_assignment(target, version, image)
