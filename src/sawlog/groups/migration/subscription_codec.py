"""Encodes and decodes the consumers' subscriptions and assignments inside the classic protocol.

Both are a version (two bytes) and a message in that version; an unknown newer version is decoded as
the newest known one. Decoding raises MalformedFrame only.
"""

import struct
from typing import TYPE_CHECKING, TypeVar

from sawlog.core.errors import MalformedFrame
from sawlog.core.ids import TopicId, TopicName
from sawlog.protocol.codec import decoder, encoder
from sawlog.protocol.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from sawlog.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from sawlog.cluster.metadata_image import MetadataImage
    from sawlog.protocol.schema import Message

M = TypeVar("M", bound="Message")

NEWEST_VERSION = 3

_SHORT = struct.Struct(">h")


def version_of(data: bytes) -> int:
    if len(data) < _SHORT.size:
        raise MalformedFrame("a consumer protocol message has no version")
    (version,) = _SHORT.unpack_from(data)
    if version < 0:
        raise MalformedFrame(f"a consumer protocol message has version {version}")
    return min(int(version), NEWEST_VERSION)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    return _read(ConsumerProtocolSubscription, data)


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    return _read(ConsumerProtocolAssignment, data)


def _read(cls: type[M], data: bytes) -> M:
    return decoder(cls, version_of(data))(memoryview(data), _SHORT.size)[0]


def write_assignment(
    assignment: "Mapping[TopicId, Collection[int]]", version: int, image: "MetadataImage"
) -> bytes:
    """Encode an assignment with the topic names of the image; deleted topics are left out."""
    topics = [
        TopicPartition(image.names[topic_id], sorted(partitions))
        for topic_id, partitions in assignment.items()
        if topic_id in image.names
    ]
    message = ConsumerProtocolAssignment(sorted(topics, key=lambda topic: topic.topic))
    return _SHORT.pack(version) + encoder(ConsumerProtocolAssignment, version)(message)


def by_topic_id(
    partitions: "Iterable[tuple[str, Iterable[int]]]", image: "MetadataImage"
) -> dict[TopicId, frozenset[int]]:
    """Map partitions by topic name to partitions by topic id; deleted topics are left out."""
    found: dict[TopicId, frozenset[int]] = {}
    for name, indexes in partitions:
        topic = image.topics.get(TopicName(name))
        if topic is not None:
            found[topic.id] = found.get(topic.id, frozenset()).union(indexes)
    return {topic_id: indexes for topic_id, indexes in found.items() if indexes}
