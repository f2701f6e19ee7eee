"""The contract of the server-side assignors.

An assignor is a pure function of the members and of the topics' partition counts. It assigns every
partition of a subscribed topic to exactly one of the topic's subscribers. Members and topics are
taken in the order of Kafka's hash tables, so that ties are broken as in Kafka.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicId, format_topic_id


class MemberSpec(NamedTuple):
    """A member as an assignor sees it; `current` is its part of the last target assignment."""

    topics: frozenset[TopicId]
    current: Mapping[TopicId, frozenset[int]]
    instance_id: str | None
    rack_id: str | None


MemberSpecs = Mapping[str, MemberSpec]

Assignment = dict[TopicId, frozenset[int]]
"""The partitions of one member; a topic without any is left out."""

Assignor = Callable[[MemberSpecs, Mapping[TopicId, int]], dict[str, Assignment]]
"""(members by id, partition counts by topic) to the assignments by member id."""


def check_topics(members: MemberSpecs, partitions: Mapping[TopicId, int]) -> None:
    """UNKNOWN_SERVER_ERROR if a member subscribes to a topic without a partition count."""
    for topics in {spec.topics for spec in members.values()}:
        for topic in topics:
            if topic not in partitions:
                raise KafkaError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    f"a member subscribes to topic {format_topic_id(topic)}, which does not exist",
                )
