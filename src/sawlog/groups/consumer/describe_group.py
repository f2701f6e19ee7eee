"""The description of a consumer group for ConsumerGroupDescribe."""

from typing import TYPE_CHECKING

from sawlog.protocol.messages.consumer_group_describe_response import (
    Assignment,
    DescribedGroup,
    TopicPartitions,
)
from sawlog.protocol.messages.consumer_group_describe_response import Member as DescribedMember

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sawlog.cluster.metadata_image import MetadataImage
    from sawlog.core.ids import TopicId
    from sawlog.groups.consumer.consumer_group import ConsumerGroup
    from sawlog.groups.consumer.consumer_member import ConsumerMember

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


def describe(
    group: "ConsumerGroup", default_assignor: str, image: "MetadataImage"
) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.preferred_assignor(default_assignor),
        members=[
            _member(member, group.targets.get(member.id, {}), image)
            for member in group.members.values()
        ],
    )


def _member(
    member: "ConsumerMember", target: "Mapping[TopicId, Iterable[int]]", image: "MetadataImage"
) -> DescribedMember:
    """Partitions that the member is revoking still belong to its assignment."""
    return DescribedMember(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_named(image, member.assigned, member.revoking),
        target_assignment=_named(image, target),
        member_type=CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER,
    )


def _named(image: "MetadataImage", *assignments: "Mapping[TopicId, Iterable[int]]") -> Assignment:
    """Deleted topics are left out."""
    found: dict[TopicId, list[int]] = {}
    for assignment in assignments:
        for topic_id, partitions in assignment.items():
            found.setdefault(topic_id, []).extend(partitions)
    return Assignment(
        [
            TopicPartitions(topic_id, image.names[topic_id], sorted(found[topic_id]))
            for topic_id in sorted(found)
            if topic_id in image.names
        ]
    )
