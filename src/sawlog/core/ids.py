"""Domain ids. Each has a type of its own, so that the type checker tells them apart."""

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
    """A partition of a topic; `str` gives the name of its log directory."""

    topic: TopicName
    partition: PartitionIndex

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def format_topic_id(topic_id: bytes) -> str:
    """Format an id as Kafka's tools do: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode("ascii")


def random_id_text(random_bytes: Callable[[int], bytes]) -> str:
    """Return a random UUID (version 4) in text form. As in Kafka it does not begin with `-`, so
    command-line tools do not take it for an option."""
    while True:
        data = bytearray(random_bytes(16))
        data[6] = data[6] & 0x0F | 0x40
        data[8] = data[8] & 0x3F | 0x80
        text = format_topic_id(bytes(data))
        if not text.startswith("-"):
            return text


def parse_topic_id(text: str) -> TopicId:
    """Parse the text form of an id; ValueError unless it is 16 bytes."""
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(raw) != 16:
        raise ValueError(f"invalid topic id {text!r}: expected 16 bytes in URL-safe base64")
    return TopicId(raw)
