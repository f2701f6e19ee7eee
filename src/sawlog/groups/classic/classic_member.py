"""A member of a classic group and the protocols that it supports.

A protocol is a name and metadata that only the members understand; for consumers the name is that
of an assignor and the metadata is the subscription.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from sawlog.core.errors import MalformedFrame
from sawlog.protocol.codec import decoder
from sawlog.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from sawlog.protocol.messages.group_metadata_value import MemberMetadata

CONSUMER_PROTOCOL = "consumer"
"""The protocol type of groups of consumers."""

NO_ASSIGNMENT = b""

_VERSION_BYTES = 2


class Protocol(NamedTuple):
    name: str
    metadata: bytes


class ClassicMember(NamedTuple):
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

    @classmethod
    def from_record(cls, written: MemberMetadata, protocol: str) -> "ClassicMember":
        """In version 0 the session timeout was the rebalance timeout, too."""
        rebalance_ms = written.rebalance_timeout
        return cls(
            written.member_id,
            written.group_instance_id,
            written.client_id,
            written.client_host,
            written.session_timeout if rebalance_ms == -1 else rebalance_ms,
            written.session_timeout,
            (Protocol(protocol, written.subscription),),
            written.assignment,
        )

    def record(self, protocol: str | None) -> MemberMetadata:
        """The member's part of the group's record."""
        return MemberMetadata(
            member_id=self.id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.metadata(protocol),
            assignment=self.assignment,
        )

    @property
    def protocol_names(self) -> frozenset[str]:
        return frozenset(protocol.name for protocol in self.protocols)

    def metadata(self, protocol: str | None) -> bytes:
        """The member's metadata for a protocol; empty if the member does not support it."""
        for offered in self.protocols:
            if offered.name == protocol:
                return offered.metadata
        return b""

    def vote(self, candidates: frozenset[str]) -> str | None:
        """The protocol that the member prefers among the candidates."""
        for offered in self.protocols:
            if offered.name in candidates:
                return offered.name
        return None


def elect_protocol(members: Collection[ClassicMember]) -> str | None:
    """Elect the protocol with the most votes among those that all members support; with equal votes
    the one that was voted for first."""
    if not members:
        return None
    common = frozenset.intersection(*(member.protocol_names for member in members))
    votes: dict[str, int] = {}
    for member in members:
        vote = member.vote(common)
        if vote is not None:
            votes[vote] = votes.get(vote, 0) + 1
    return max(votes, key=votes.__getitem__, default=None)


class Subscriptions:
    """The topics that consumers subscribe to in one generation, decoded on first use."""

    __slots__ = ("_metadata", "_topics")

    def __init__(self, metadata: Sequence[bytes]) -> None:
        self._metadata: Sequence[bytes] | None = metadata
        self._topics: frozenset[str] | None = None

    @property
    def topics(self) -> frozenset[str] | None:
        """None: unknown, because the metadata of a member is not a subscription."""
        if self._metadata is not None:
            self._topics = _topics_in(self._metadata)
            self._metadata = None
        return self._topics


def _topics_in(subscriptions: Sequence[bytes]) -> frozenset[str] | None:
    """Every version starts with the fields of version 0, so decoding that one is enough."""
    decode = decoder(ConsumerProtocolSubscription, 0)
    topics: set[str] = set()
    for metadata in subscriptions:
        try:
            topics.update(decode(memoryview(metadata), _VERSION_BYTES)[0].topics)
        except MalformedFrame:
            return None
    return frozenset(topics)
