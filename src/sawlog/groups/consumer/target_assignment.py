"""Computes the target assignment of a group with the assignor that most members ask for."""

from typing import TYPE_CHECKING

from sawlog.core.ids import TopicId, TopicName
from sawlog.groups.consumer.assignor import MemberSpec
from sawlog.groups.consumer.consumer_group import NO_TARGET, ConsumerGroup

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sawlog.cluster.metadata_image import MetadataImage
    from sawlog.groups.consumer.assignor import Assignor
    from sawlog.groups.consumer.consumer_member import Assignment, ConsumerMember, ResolvedRegex


_new = tuple.__new__


def names_of(member: "ConsumerMember", resolved: "Mapping[str, ResolvedRegex]") -> frozenset[str]:
    """The topics that a member subscribes to, by name or by a resolved regular expression."""
    matched = resolved.get(member.regex) if member.regex else None
    return member.topics if matched is None else member.topics | matched.topics


def compute(
    group: ConsumerGroup, member: "ConsumerMember", image: "MetadataImage", assign: "Assignor"
) -> "dict[str, Assignment]":
    """Compute the target of all members; `member` is the sender with its new subscription, in place
    of what the group has."""
    members = dict(group.members)
    current = group.targets.get(member.id, NO_TARGET)
    if member.instance_id is not None:
        replaced = group.static_ids.get(member.instance_id)
        if replaced is not None and replaced != member.id:
            current = group.targets.get(replaced, NO_TARGET)
            members.pop(replaced, None)
    members[member.id] = member
    partitions: dict[TopicId, int] = {}
    topics: dict[tuple[frozenset[str], str | None], frozenset[TopicId]] = {}
    specs: dict[str, MemberSpec] = {}
    targets = group.targets
    for member_id, other in members.items():
        subscription = (other.topics, other.regex)
        wanted = topics.get(subscription)
        if wanted is None:
            names = names_of(other, group.resolved)
            wanted = topics[subscription] = _topic_ids(names, image, partitions)
        target = targets.get(member_id, NO_TARGET)
        specs[member_id] = _new(MemberSpec, (wanted, target, other.instance_id, other.rack_id))
    specs[member.id] = specs[member.id]._replace(current=current)
    assigned = assign(specs, partitions)
    return {member_id: assigned.get(member_id, NO_TARGET) for member_id in specs}


def _topic_ids(
    names: frozenset[str], image: "MetadataImage", partitions: dict[TopicId, int]
) -> frozenset[TopicId]:
    """The ids of the topics that exist; their partition counts are added to `partitions`."""
    found = []
    for name in names:
        topic = image.topics.get(TopicName(name))
        if topic is not None:
            partitions[topic.id] = len(topic.partitions)
            found.append(topic.id)
    return frozenset(found)
