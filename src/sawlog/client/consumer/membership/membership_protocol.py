"""What both protocols of groups have in common: what a member is, asks for and has to carry out.

A machine is pure: it says what to ask next and takes the answers, `now_ms` is passed in, and no
socket or thread is in sight. Two threads use it, under a lock that is not its own: the one that
speaks with the coordinator, and the reader's, which alone lets go of partitions and takes them.
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
    """How a consumer is a member of its group; the defaults are those of Kafka's own clients.

    `protocol`: "consumer" (KIP-848: the broker assigns and sets the times, members keep what they
    keep while others come and go), "classic", or None: the first where the broker offers it.
    `instance_id` makes a static member: it may come back within its session without a rebalance.
    `max_poll_interval_ms`: who does not poll for so long is taken to be stuck, and leaves.
    `assignors`, `session_timeout_ms` and `heartbeat_interval_ms` are for classic groups alone,
    `server_assignor` is for the others.
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
            raise ValueError("a group needs a name")
        if self.protocol not in (None, CLASSIC, CONSUMER):
            raise ValueError(f"protocol is 'classic', 'consumer' or None, not {self.protocol!r}")
        unknown = [name for name in self.assignors if name not in ASSIGNORS]
        if unknown or not self.assignors:
            raise ValueError(f"assignors are some of {sorted(ASSIGNORS)}, not {self.assignors!r}")
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ValueError("heartbeat_interval_ms has to be less than session_timeout_ms")


@dataclass(frozen=True, slots=True)
class Subscription:
    """Topics by name, or all that a pattern (RE2, for the whole name) matches."""

    topics: frozenset[str] = frozenset()
    pattern: str | None = None


class Change(NamedTuple):
    """What the reader has to do, in this order. Lost is what others may have already."""

    lost: frozenset[TopicPartition] = NOTHING
    revoked: frozenset[TopicPartition] = NOTHING
    assigned: frozenset[TopicPartition] = NOTHING


class CoordinatorRequest(NamedTuple):
    """A request for the coordinator; `timeout_ms` None: as long as any."""

    request: Message
    response_class: type[Message]
    timeout_ms: float | None = None


class TopicLookup(NamedTuple):
    """A question to any broker: topics by name, by id, or all of them."""

    names: frozenset[str] = frozenset()
    ids: frozenset[bytes] = frozenset()
    everything: bool = False


class Membership(ABC):
    """`owned` is what the reader has, and changes only by what it says it has carried out."""

    def __init__(self, settings: GroupSettings, subscription: Subscription) -> None:
        self.settings = settings
        self.subscription = subscription
        self.owned: frozenset[TopicPartition] = NOTHING
        self.change_in_progress: Change | None = None
        self.is_fenced = False  # the group goes on without us: all that is owned is lost

    @property
    @abstractmethod
    def identity(self) -> Identity: ...

    @property
    @abstractmethod
    def is_member(self) -> bool:
        """In the group as far as is known: only then a commit may be tried."""

    @abstractmethod
    def heartbeat_now(self) -> None:
        """Has the next heartbeat sent at once: the group seems to have gone on."""

    @abstractmethod
    def next_request(self, now_ms: float) -> CoordinatorRequest | TopicLookup | None:
        """What to ask now; None: nothing before `wake_ms`, unless something changes."""

    @abstractmethod
    def next_wakeup_ms(self) -> float: ...

    @abstractmethod
    def on_response(self, answer: Any, now_ms: float) -> None:
        """Takes the answer to what was asked; KafkaError where there is no way on."""

    @abstractmethod
    def on_topics(self, topics: Sequence[Topic], now_ms: float) -> None:
        """Takes what a Lookup found; what is missing is not there."""

    @abstractmethod
    def on_no_response(self) -> None:
        """What was asked may or may not have been heard."""

    @abstractmethod
    def subscribe(self, subscription: Subscription) -> None: ...

    @abstractmethod
    def leave_request(self) -> CoordinatorRequest | None:
        """The last request of a member; None where it is none."""

    @abstractmethod
    def _next_change(self) -> Change | None:
        """What the reader should do now, where nothing is lost."""

    @abstractmethod
    def _on_change_applied(self, change: Change) -> None: ...

    def fence(self) -> None:
        """Out of the group: what is owned is lost, and the next thing is to join again."""
        self.is_fenced = True

    def take_change(self) -> Change | None:
        """For the reader, who calls `carried_out` when it is done."""
        change = Change(lost=self.owned) if self.is_fenced else self._next_change()
        self.change_in_progress = change
        return change

    @property
    def has_change(self) -> bool:
        return self.change_in_progress is None and (
            self.is_fenced or self._next_change() is not None
        )

    def change_applied(self, change: Change) -> None:
        self.change_in_progress = None
        self.owned = self.owned - change.lost - change.revoked | change.assigned
        if self.is_fenced and not self.owned:
            self.is_fenced = False
        self._on_change_applied(change)


def new_member_id() -> str:
    """As the members of a consumer group name themselves (KIP-1082)."""
    return random_id_text(os.urandom)


def fatal(error_code: int, message: str | None, group: str) -> KafkaError:
    """A refusal that joining again would not change, with what to do about it."""
    found = kafka_error(error_code, message)
    advice = _ADVICE.get(found.code.name, "")
    text = f"the group {group!r} refused this member: {message or found.code.name}{advice}"
    return KafkaError(found.code, text)


_ADVICE = {
    "FENCED_INSTANCE_ID": "; another member has the same instance_id now: give each its own",
    "UNRELEASED_INSTANCE_ID": "; another member has the same instance_id, or died and its session"
    " is not over: give each its own, or wait",
    "INCONSISTENT_GROUP_PROTOCOL": "; the group's members speak another protocol or have no"
    " assignor in common with this one: set `protocol` or `assignors`",
    "GROUP_MAX_SIZE_REACHED": "; group.max.size of the broker says how many it takes",
    "INVALID_SESSION_TIMEOUT": "; group.min and group.max.session.timeout.ms of the broker say"
    " what it takes",
    "UNSUPPORTED_ASSIGNOR": "; group.consumer.assignors of the broker says which there are",
}
