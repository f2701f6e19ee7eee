"""Who reads what, worked out by the coordinator: the assignors that a member may ask for by name.

An assignor is a function of the members and of the topics' sizes, nothing else. It gives every
partition that somebody subscribes to, exactly once, to one of its subscribers. Members and topics
are taken in the order in which Kafka's tables hold them, so that it decides as Kafka does where
several have an equal claim.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicId, format_topic_id
from sawlog.groups.consumer.uniform_assignor import spread, spread_unlike


class MemberSpec(NamedTuple):
    """What an assignor knows of a member; `current` is its part of the last assignment."""

    topics: frozenset[TopicId]
    current: Mapping[TopicId, frozenset[int]]
    instance_id: str | None
    rack_id: str | None


Assignment = dict[TopicId, frozenset[int]]
"""A topic of which a member has nothing is left out."""

Assignor = Callable[[Mapping[str, MemberSpec], Mapping[TopicId, int]], dict[str, Assignment]]


def uniform(
    members: Mapping[str, MemberSpec], partitions: Mapping[TopicId, int]
) -> dict[str, Assignment]:
    """Everybody has as many partitions as the others, give or take one, and keeps what it had.

    Where members subscribe to different topics, no partition could go to a subscriber that has two
    fewer than its owner.
    """
    _check_topics(members, partitions)
    if len({spec.topics for spec in members.values()}) > 1:
        return spread_unlike(members, partitions)
    return spread(members, partitions)


def range_(
    members: Mapping[str, MemberSpec], partitions: Mapping[TopicId, int]
) -> dict[str, Assignment]:
    """Of each topic everybody has one run of partitions, and the same run of topics that have the
    same size and the same subscribers.

    Static members come first, by their instance's name: they keep their run while others come and
    go, and when they come back under a new id.
    """
    _check_topics(members, partitions)

    def place(member: str) -> tuple[bool, str, str]:
        instance_id = members[member].instance_id
        return instance_id is None, instance_id or "", member

    subscribers: dict[TopicId, list[str]] = {}
    for member in sorted(members, key=place):
        for topic in sorted(members[member].topics):
            subscribers.setdefault(topic, []).append(member)
    assignments: dict[str, Assignment] = {member: {} for member in members}
    for topic, readers in subscribers.items():
        size, longer = divmod(partitions[topic], len(readers))
        start = 0
        for position, member in enumerate(readers):
            end = start + size + (position < longer)
            if start == end:
                break
            assignments[member][topic] = frozenset(range(start, end))
            start = end
    return assignments


def _check_topics(members: Mapping[str, MemberSpec], partitions: Mapping[TopicId, int]) -> None:
    for topics in {spec.topics for spec in members.values()}:
        for topic in topics:
            if topic not in partitions:
                raise KafkaError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    f"a member subscribes to topic {format_topic_id(topic)}, which is not there",
                )


ASSIGNORS: Mapping[str, Assignor] = MappingProxyType({"uniform": uniform, "range": range_})
