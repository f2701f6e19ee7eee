"""What every member should have: the target, computed by the assignor that most members ask for."""

from typing import TYPE_CHECKING

from sawlog.core.ids import TopicId, TopicName
from sawlog.groups.consumer.assignor import MemberSpec
from sawlog.groups.consumer.consumer_group import NO_TARGET, ConsumerGroup

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sawlog.cluster.metadata_image import MetadataImage
    from sawlog.groups.consumer.assignor import Assignor
    from sawlog.groups.consumer.consumer_member import Assignment, Member, ResolvedRegex


_new = tuple.__new__


def names_of(member: "Member", resolved: "Mapping[str, ResolvedRegex]") -> frozenset[str]:
    """The topics that a member asks for, by name or by pattern; an unmatched pattern means none."""
    matched = resolved.get(member.regex) if member.regex else None
    return member.topics if matched is None else member.topics | matched.topics


def compute(
    group: ConsumerGroup, member: "Member", image: "MetadataImage", assign: "Assignor"
) -> "dict[str, Assignment]":
    """The target of all members, of whom `member` is as it says and not as the group has it."""
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
        wish = (other.topics, other.regex)
        wanted = topics.get(wish)
        if wanted is None:
            wanted = topics[wish] = _topic_ids(names_of(other, group.resolved), image, partitions)
        target = targets.get(member_id, NO_TARGET)
        specs[member_id] = _new(MemberSpec, (wanted, target, other.instance_id, other.rack_id))
    specs[member.id] = specs[member.id]._replace(current=current)
    assigned = assign(specs, partitions)
    return {member_id: assigned.get(member_id, NO_TARGET) for member_id in specs}


def _topic_ids(
    names: frozenset[str], image: "MetadataImage", partitions: dict[TopicId, int]
) -> frozenset[TopicId]:
    """The ids of those that exist; their sizes go into `partitions`."""
    found = []
    for name in names:
        topic = image.topics.get(TopicName(name))
        if topic is not None:
            partitions[topic.id] = len(topic.partitions)
            found.append(topic.id)
    return frozenset(found)
