"""One member of a classic group, and the protocols that it offers.

A protocol is a name and bytes that only the members understand; for consumers the name is that of
an assignor and the bytes are the subscription.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sawlog.core.errors import MalformedFrame
from sawlog.protocol.codec import decoder
from sawlog.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

CONSUMER_PROTOCOL = "consumer"
"""The protocol type of groups whose members read topics."""

NO_ASSIGNMENT = b""

_VERSION_BYTES = 2


class Protocol(NamedTuple):
    name: str
    metadata: bytes


class Member(NamedTuple):
    """`protocols` are in the member's order of preference; `instance_id` is that of a static member
    (KIP-345)."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes = NO_ASSIGNMENT

    @property
    def protocol_names(self) -> frozenset[str]:
        return frozenset(protocol.name for protocol in self.protocols)

    def metadata(self, protocol: str | None) -> bytes:
        """What the member says under this protocol; nothing where it does not offer it."""
        for offered in self.protocols:
            if offered.name == protocol:
                return offered.metadata
        return b""

    def vote(self, candidates: frozenset[str]) -> str | None:
        """Its favourite among the candidates."""
        for offered in self.protocols:
            if offered.name in candidates:
                return offered.name
        return None


def elect(votes: Iterable[str | None]) -> str | None:
    """The protocol with the most votes; among equals the one that was named first."""
    counts: dict[str, int] = {}
    for vote in votes:
        if vote is not None:
            counts[vote] = counts.get(vote, 0) + 1
    return max(counts, key=counts.__getitem__, default=None)


class Subscriptions:
    """The topics that consumers subscribed to in one generation, read only if somebody asks."""

    __slots__ = ("_metadata", "_topics")

    def __init__(self, metadata: Sequence[bytes]) -> None:
        self._metadata: Sequence[bytes] | None = metadata
        self._topics: frozenset[str] | None = None

    @property
    def topics(self) -> frozenset[str] | None:
        """None: one cannot know, because a member's bytes are no subscription."""
        if self._metadata is not None:
            self._topics = _topics_in(self._metadata)
            self._metadata = None
        return self._topics


def _topics_in(subscriptions: Sequence[bytes]) -> frozenset[str] | None:
    """Every version begins with the fields of version 0, so that one is enough to read."""
    decode = decoder(ConsumerProtocolSubscription, 0)
    topics: set[str] = set()
    for metadata in subscriptions:
        try:
            topics.update(decode(memoryview(metadata), _VERSION_BYTES)[0].topics)
        except MalformedFrame:
            return None
    return frozenset(topics)
