"""The interface of both rebalance protocols of a group member.

A membership is a pure state machine: it returns the next request and takes responses, and `now_ms`
is passed in. Two threads use it under a lock of the heartbeat thread: the heartbeat thread, and the
polling thread, which alone gives up and takes over partitions.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sawlog.client.admin.group_offsets import Identity
from sawlog.client.consumer.membership.client_assignors import ASSIGNORS, COOPERATIVE_STICKY, RANGE
from sawlog.client.errors import kafka_error
from sawlog.client.net.metadata import Topic
from sawlog.core.errors import KafkaError
from sawlog.core.ids import TopicPartition, random_id_text
from sawlog.protocol.schema import Message

CLASSIC, CONSUMER = "classic", "consumer"
NOTHING: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Settings of a group member; the defaults are those of Kafka's own clients.

    `protocol`: "consumer" (KIP-848: the broker assigns, and members keep reading through a
    rebalance), "classic", or None: "consumer" if the broker offers it.
    `instance_id` makes a static member, which may rejoin within its session without a rebalance.
    `max_poll_interval_ms`: a member that does not poll for so long leaves the group.
    `assignors`, `session_timeout_ms` and `heartbeat_interval_ms` are for classic groups only,
    `server_assignor` for consumer groups only.
    """

    group: str
    protocol: str | None = None
    instance_id: str | None = None
    rack: str | None = None
    max_poll_interval_ms: int = 300_000
    assignors: Sequence[str] = (RANGE, COOPERATIVE_STICKY)
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    metadata_interval_ms: int = 30_000
    server_assignor: str | None = None

    def __post_init__(self) -> None:
        if not self.group:
            raise ValueError("the name of a group must not be empty")
        if self.protocol not in (None, CLASSIC, CONSUMER):
            raise ValueError(
                f"protocol must be 'classic', 'consumer' or None, not {self.protocol!r}"
            )
        unknown = [name for name in self.assignors if name not in ASSIGNORS]
        if unknown or not self.assignors:
            raise ValueError(
                f"assignors must be some of {sorted(ASSIGNORS)}, not {self.assignors!r}"
            )
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ValueError("heartbeat_interval_ms must be less than session_timeout_ms")


@dataclass(frozen=True, slots=True)
class Subscription:
    """Topics by name, and those whose whole name an RE2 pattern matches."""

    topics: frozenset[str] = frozenset()
    pattern: str | None = None


class Change(NamedTuple):
    """A change of the assignment for the polling thread, applied in this order.

    Lost partitions may belong to other members already.
    """

    lost: frozenset[TopicPartition] = NOTHING
    revoked: frozenset[TopicPartition] = NOTHING
    assigned: frozenset[TopicPartition] = NOTHING


class CoordinatorRequest(NamedTuple):
    """A request to the coordinator; `timeout_ms` None is the default request timeout."""

    request: Message
    response_class: type[Message]
    timeout_ms: float | None = None


class TopicLookup(NamedTuple):
    """A metadata request to any broker: topics by name, by id, or all."""

    names: frozenset[str] = frozenset()
    ids: frozenset[bytes] = frozenset()
    all_topics: bool = False


class Membership(ABC):
    """`owned` is what the polling thread reads; only `change_applied` changes it."""

    def __init__(self, settings: GroupSettings, subscription: Subscription) -> None:
        self.settings = settings
        self.subscription = subscription
        self.owned: frozenset[TopicPartition] = NOTHING
        self.change_in_progress: Change | None = None
        self.is_fenced = False  # not a member any more: all owned partitions are lost

    @property
    @abstractmethod
    def identity(self) -> Identity: ...

    @property
    @abstractmethod
    def is_member(self) -> bool:
        """Whether this is a member as far as known; only members may commit."""

    @abstractmethod
    def heartbeat_now(self) -> None:
        """Make the next heartbeat due now, because the group seems to have rebalanced."""

    @abstractmethod
    def next_request(self, now_ms: float) -> CoordinatorRequest | TopicLookup | None:
        """Return the request that is due, or None until `next_wakeup_ms` or a change."""

    @abstractmethod
    def next_wakeup_ms(self) -> float: ...

    @abstractmethod
    def on_response(self, response: Any, now_ms: float) -> None:
        """Take the response to `next_request`; KafkaError if the membership cannot go on."""

    @abstractmethod
    def on_topics(self, topics: Sequence[Topic], now_ms: float) -> None:
        """Take the topics that a TopicLookup found; the others do not exist."""

    @abstractmethod
    def on_no_response(self) -> None:
        """The last request failed; the coordinator may or may not have received it."""

    @abstractmethod
    def subscribe(self, subscription: Subscription) -> None: ...

    @abstractmethod
    def leave_request(self) -> CoordinatorRequest | None:
        """Return the request that leaves the group; None if there is nothing to send."""

    @abstractmethod
    def _next_change(self) -> Change | None:
        """Return the change that is due, if this member is not fenced."""

    @abstractmethod
    def _on_change_applied(self, change: Change) -> None: ...

    def fence(self) -> None:
        """Mark all owned partitions as lost; the member joins again after that."""
        self.is_fenced = True

    def take_change(self) -> Change | None:
        """Return the change to apply; the polling thread calls `change_applied` after it."""
        change = Change(lost=self.owned) if self.is_fenced else self._next_change()
        self.change_in_progress = change
        return change

    @property
    def has_change(self) -> bool:
        is_due = self.is_fenced or self._next_change() is not None
        return is_due and self.change_in_progress is None

    def change_applied(self, change: Change) -> None:
        self.change_in_progress = None
        self.owned = self.owned - change.lost - change.revoked | change.assigned
        if self.is_fenced and not self.owned:
            self.is_fenced = False
        self._on_change_applied(change)


def new_member_id() -> str:
    """Return a random id, as members of consumer groups choose (KIP-1082)."""
    return random_id_text(os.urandom)


def fatal(error_code: int, message: str | None, group: str) -> KafkaError:
    """Make an error that joining again would not change, with advice."""
    found = kafka_error(error_code, message)
    advice = _ADVICE.get(found.code.name, "")
    text = f"the group {group!r} refused this member: {message or found.code.name}{advice}"
    return KafkaError(found.code, text)


_ADVICE = {
    "FENCED_INSTANCE_ID": "; another member uses the same instance_id now: give each its own",
    "UNRELEASED_INSTANCE_ID": "; another member uses the same instance_id, or was killed and its"
    " session is not over: give each its own, or wait",
    "INCONSISTENT_GROUP_PROTOCOL": "; the group's members use another protocol or have no"
    " assignor in common with this one: set `protocol` or `assignors`",
    "GROUP_MAX_SIZE_REACHED": "; the broker's limit is group.max.size",
    "INVALID_SESSION_TIMEOUT": "; the broker's limits are group.min.session.timeout.ms and"
    " group.max.session.timeout.ms",
    "UNSUPPORTED_ASSIGNOR": "; the broker's assignors are in group.consumer.assignors",
}
