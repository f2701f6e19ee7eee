"""Topics as intents: checked against the image, written into the store, done when the image shows.

Any broker takes one. The controller turns the intent into partition states; see `controller.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sawlog.cluster.image import TopicImage
from sawlog.core.errors import KafkaError
from sawlog.core.ids import NodeId

Answered = Callable[[KafkaError | None], None]
"""None: it is in the store and in this broker's image."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """What CreateTopics asks for; -1 means the broker's default."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlannedTopic:
    """A topic that passed all checks, with its replicas placed."""

    name: str
    id: bytes
    replicas: tuple[tuple[NodeId, ...], ...]
    configs: Mapping[str, str]


class Topics(Protocol):
    """Checks raise KafkaError with Kafka's own codes and words; the rest is answered later."""

    def plan(self, new: NewTopic) -> PlannedTopic:
        """All checks of a creation, and the placement; nothing is written."""
        ...

    def create(self, planned: PlannedTopic, timeout_ms: int, done: Answered) -> None: ...

    def delete(self, topic: TopicImage, timeout_ms: int, done: Answered) -> None: ...
