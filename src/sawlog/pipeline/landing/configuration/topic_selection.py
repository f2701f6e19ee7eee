"""The topics of a landed table: one, a list, or all whose names match a pattern."""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from sawlog.client.consumer.membership.classic_protocol import matching_topics
from sawlog.core.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sawlog.client.net.metadata import Topic


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """Either names, or an RE2 pattern that matches whole names; it matches no internal topic."""

    names: tuple[str, ...] = ()
    pattern: str = ""

    def __str__(self) -> str:
        return ", ".join(self.names) if self.names else self.pattern

    @property
    def is_one(self) -> bool:
        return len(self.names) == 1

    def selects(self, name: str) -> bool:
        """Whether the table lands a topic of this name, or would if it is not internal."""
        return _matches(self.pattern, name) if self.pattern else name in self.names

    def among(self, topics: "Iterable[Topic]") -> "list[Topic]":
        """The selected ones of these topics."""
        return [
            topic
            for topic in topics
            if self.selects(topic.name) and not (self.pattern and topic.is_internal)
        ]

    def may_overlap(self, other: "TopicSelection") -> bool:
        """Whether both may have a topic in common; two patterns always may."""
        if self.pattern and other.pattern:
            return True
        return any(self.selects(name) for name in other.names) or any(
            other.selects(name) for name in self.names
        )


@lru_cache(maxsize=10_000)
def _matches(pattern: str, name: str) -> bool:
    return bool(matching_topics(pattern, [name]))


def check_pattern(pattern: str) -> None:
    """Raise ValueError if RE2 does not accept the pattern."""
    try:
        matching_topics(pattern, [])
    except KafkaError as error:
        raise ValueError(error.message) from None
