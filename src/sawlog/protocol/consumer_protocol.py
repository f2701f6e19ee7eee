"""The consumer protocol: the subscriptions and assignments embedded in JoinGroup and SyncGroup.

The group coordinator passes these bytes on without reading them, except while it migrates a group
between protocols. Each is a version (two bytes) followed by a message. Fields are only ever added,
so a version above NEWEST_VERSION is read as NEWEST_VERSION. Reading raises MalformedFrame only.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import TypeVar

from sawlog.core.errors import MalformedFrame
from sawlog.core.ids import TopicName
from sawlog.protocol.codec import decoder, encode
from sawlog.protocol.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from sawlog.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from sawlog.protocol.schema import Message

M = TypeVar("M", bound=Message)

PROTOCOL_TYPE = "consumer"
NEWEST_VERSION = 3

_VERSION = struct.Struct(">h")


def version_of(data: bytes) -> int:
    """Return the version to read `data` as."""
    if len(data) < _VERSION.size:
        raise MalformedFrame("a consumer protocol message has no version")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise MalformedFrame(f"a consumer protocol message has version {version}")
    return min(int(version), NEWEST_VERSION)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    return _read(ConsumerProtocolSubscription, data)


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    return _read(ConsumerProtocolAssignment, data)


def write_subscription(
    message: ConsumerProtocolSubscription, version: int = NEWEST_VERSION
) -> bytes:
    return _VERSION.pack(version) + encode(message, version)


def write_assignment(
    partitions: Mapping[TopicName, Iterable[int]], version: int = NEWEST_VERSION
) -> bytes:
    """Encode partition indexes by topic name; topics and indexes are sorted."""
    message = ConsumerProtocolAssignment(
        [TopicPartition(topic, sorted(indexes)) for topic, indexes in sorted(partitions.items())]
    )
    return _VERSION.pack(version) + encode(message, version)


def _read(message_class: type[M], data: bytes) -> M:
    return decoder(message_class, version_of(data))(memoryview(data), _VERSION.size)[0]
