"""Assignments of classic members, translated between topic names and topic ids.

Classic members know topics by name, consumer groups by id. Topics that the metadata image does not
have (they were deleted) are left out.
"""

from typing import TYPE_CHECKING

from sawlog.core.ids import TopicId, TopicName
from sawlog.protocol import consumer_protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from sawlog.cluster.metadata_image import MetadataImage


def write_assignment(
    assignment: "Mapping[TopicId, Collection[int]]", version: int, image: "MetadataImage"
) -> bytes:
    """Encode an assignment by topic id as the assignment of a classic member."""
    by_name = {
        image.names[topic_id]: partitions
        for topic_id, partitions in assignment.items()
        if topic_id in image.names
    }
    return consumer_protocol.write_assignment(by_name, version)


def by_topic_id(
    partitions: "Iterable[tuple[str, Iterable[int]]]", image: "MetadataImage"
) -> dict[TopicId, frozenset[int]]:
    """Group partition indexes of named topics by topic id."""
    found: dict[TopicId, frozenset[int]] = {}
    for name, indexes in partitions:
        topic = image.topics.get(TopicName(name))
        if topic is not None:
            found[topic.id] = found.get(topic.id, frozenset()).union(indexes)
    return {topic_id: indexes for topic_id, indexes in found.items() if indexes}
