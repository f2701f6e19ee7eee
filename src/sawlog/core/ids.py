"""The vocabulary of ids.

Every domain id has its own type, so that a checker tells a node id from a partition number.
"""

import base64
from collections.abc import Callable
from typing import NamedTuple, NewType

NodeId = NewType("NodeId", int)
TopicName = NewType("TopicName", str)
TopicId = NewType("TopicId", bytes)  # 16 bytes, as on the wire
PartitionIndex = NewType("PartitionIndex", int)
LeaderEpoch = NewType("LeaderEpoch", int)
Offset = NewType("Offset", int)
ProducerId = NewType("ProducerId", int)

NO_TOPIC_ID = TopicId(bytes(16))


class TopicPartition(NamedTuple):
    """One partition of one topic; its string form is also its directory's name."""

    topic: TopicName
    partition: PartitionIndex

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def format_topic_id(topic_id: bytes) -> str:
    """The text that Kafka's tools print for an id: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode("ascii")


def random_id_text(random_bytes: Callable[[int], bytes]) -> str:
    """A random id (version 4) as Kafka makes them: no tool that is given one takes it for an
    option."""
    while True:
        data = bytearray(random_bytes(16))
        data[6] = data[6] & 0x0F | 0x40
        data[8] = data[8] & 0x3F | 0x80
        text = format_topic_id(bytes(data))
        if not text.startswith("-"):
            return text


def parse_topic_id(text: str) -> TopicId:
    """The id behind its text form; ValueError where it is not 16 bytes."""
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(raw) != 16:
        raise ValueError(f"a topic id is 16 bytes in base64, not {text!r}")
    return TopicId(raw)
