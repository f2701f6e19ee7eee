"""A member of a classic group: join, sync, heartbeat, rejoin.

Eager (all assignors but the cooperative one): the member gives up all partitions before it rejoins.
Cooperative (KIP-429): it joins with its partitions, gives up those that it was not assigned, and
rejoins. In both it never joins while the polling thread applies a change, since the owned
partitions in its subscription must be true until its next assignment.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

from sawlog.client.admin.group_offsets import Identity
from sawlog.client.consumer.membership.client_assignors import ASSIGNORS, COOPERATIVE, Subscriber
from sawlog.client.consumer.membership.membership_protocol import (
    NOTHING,
    Change,
    CoordinatorRequest,
    GroupSettings,
    Membership,
    Subscription,
    TopicLookup,
    fatal,
)
from sawlog.client.net.leader_requests import group_by_topic, partition_of
from sawlog.client.net.metadata import Topic
from sawlog.core.errors import ErrorCode, KafkaError, MalformedFrame
from sawlog.core.ids import TopicPartition
from sawlog.protocol import consumer_protocol
from sawlog.protocol.messages import consumer_protocol_subscription as subscription_message
from sawlog.protocol.messages.heartbeat_request import HeartbeatRequest
from sawlog.protocol.messages.heartbeat_response import HeartbeatResponse
from sawlog.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from sawlog.protocol.messages.join_group_response import JoinGroupResponse
from sawlog.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from sawlog.protocol.messages.leave_group_response import LeaveGroupResponse
from sawlog.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from sawlog.protocol.messages.sync_group_response import SyncGroupResponse

_NO_GENERATION = -1
_GRACE_MS = 5_000  # so that the coordinator's rebalance timeout ends before ours


class State(Enum):
    LOOKING = "the topics of the subscription are looked up"
    REJOINING = "JoinGroup is next, after partitions are given up"
    JOINING = "JoinGroup is in flight"
    LEADING = "the topics of all members are looked up, to assign them"
    SYNCING = "SyncGroup is next or in flight"
    STABLE = "assigned, with heartbeats"


class ClassicMembership(Membership):
    """The state of a classic member; see `State`."""

    def __init__(self, settings: GroupSettings, subscription: Subscription) -> None:
        super().__init__(settings, subscription)
        self._is_cooperative = COOPERATIVE.issuperset(settings.assignors)
        self._state = State.LOOKING
        self._member_id = ""
        self._generation = _NO_GENERATION
        self._protocol = ""
        self._assignment: frozenset[TopicPartition] | None = None
        self._next_heartbeat_ms = 0.0
        self._next_lookup_ms = 0.0
        self._topics: frozenset[str] = subscription.topics
        # Of a leader
        self._members: dict[str, Subscriber] = {}
        self._partition_counts: dict[str, int] | None = None
        self._assignments: list[SyncGroupRequestAssignment] = []

    @property
    def identity(self) -> Identity:
        return Identity(self._member_id, self._generation, self.settings.instance_id)

    @property
    def is_member(self) -> bool:
        return not self.is_fenced and self._generation != _NO_GENERATION

    def heartbeat_now(self) -> None:
        self._next_heartbeat_ms = 0.0

    def next_request(self, now_ms: float) -> CoordinatorRequest | TopicLookup | None:
        if self.is_fenced:
            return None  # joins again after the polling thread gave up all partitions
        if self._state is State.LOOKING:
            return self._lookup(self.subscription.topics)
        if self._state is State.LEADING:
            return TopicLookup(names=self._all_members_topics())
        if self._state is State.SYNCING:
            return self._sync()
        if self._state is State.REJOINING and self._can_join:
            return self._join()
        if self._state is State.STABLE and now_ms >= self._next_lookup_ms:
            return self._lookup(self.subscription.topics | self._all_members_topics())
        if now_ms >= self._next_heartbeat_ms and self._generation != _NO_GENERATION:
            self._next_heartbeat_ms = now_ms + self.settings.heartbeat_interval_ms
            return self._heartbeat()
        return None

    def next_wakeup_ms(self) -> float:
        if self.is_fenced or self._generation == _NO_GENERATION:
            return float("inf")
        if self._state is State.STABLE:
            return min(self._next_heartbeat_ms, self._next_lookup_ms)
        return self._next_heartbeat_ms

    def on_response(self, response: Any, now_ms: float) -> None:
        try:
            if isinstance(response, JoinGroupResponse):
                self._on_joined(response)
            elif isinstance(response, SyncGroupResponse):
                self._on_synced(response)
                self._next_heartbeat_ms = now_ms + self.settings.heartbeat_interval_ms
            else:
                self._is_member_after(response.error_code)
        except KafkaError:
            self.on_no_response()
            raise

    def on_topics(self, topics: Sequence[Topic], now_ms: float) -> None:
        """Take the topics of the subscription or, as the leader, of all members."""
        self._next_lookup_ms = now_ms + self.settings.metadata_interval_ms
        sizes = {str(topic.name): len(topic.partitions) for topic in topics}
        if self._state is State.LEADING:
            self._assign(sizes)
            return
        matched = self._matched(topics)
        if self._partition_counts is None:  # a leader with skip_assignment, or not the leader
            self._partition_counts = self._all_members_partition_counts(sizes)
        have_grown = self._all_members_partition_counts(sizes) != self._partition_counts
        if self._state is State.LOOKING or matched != self._topics or have_grown:
            self._topics = matched
            self._state = State.REJOINING

    def on_no_response(self) -> None:
        """Rejoin after a lost JoinGroup or SyncGroup; a heartbeat is simply repeated."""
        if self._state in (State.JOINING, State.SYNCING, State.LEADING):
            self._state = State.REJOINING
        self._next_heartbeat_ms = 0.0

    def subscribe(self, subscription: Subscription) -> None:
        self.subscription = subscription
        if self._state in (State.STABLE, State.REJOINING):
            self._state = State.LOOKING
        else:
            self._next_lookup_ms = 0.0  # the request in flight has the former subscription

    def leave_request(self) -> CoordinatorRequest | None:
        """Leave the group; a static member stays until its session ends."""
        member_id, self._member_id = self._member_id, ""
        self._forget_generation()
        if not member_id or self.settings.instance_id is not None:
            return None
        request = LeaveGroupRequest(
            group_id=self.settings.group,
            members=[MemberIdentity(member_id=member_id, reason="the consumer is being closed")],
        )
        return CoordinatorRequest(request, LeaveGroupResponse)

    # Topics

    def _lookup(self, names: frozenset[str]) -> TopicLookup:
        return TopicLookup(names=names, all_topics=self.subscription.pattern is not None)

    def _matched(self, topics: Sequence[Topic]) -> frozenset[str]:
        pattern = self.subscription.pattern
        if pattern is None:
            return self.subscription.topics
        names = [str(topic.name) for topic in topics if not topic.is_internal]
        return self.subscription.topics | matching_topics(pattern, names)

    def _all_members_topics(self) -> frozenset[str]:
        """Return the topics of all members, if this one is the leader."""
        return frozenset[str]().union(*(each.topics for each in self._members.values()))

    def _all_members_partition_counts(self, sizes: Mapping[str, int]) -> dict[str, int]:
        return {name: sizes[name] for name in sorted(self._all_members_topics()) if name in sizes}

    # Joining

    @property
    def _can_join(self) -> bool:
        return self.change_in_progress is None and (self._is_cooperative or not self.owned)

    def _join(self) -> CoordinatorRequest:
        self._state = State.JOINING
        settings = self.settings
        owned = self.owned if self._is_cooperative else NOTHING
        subscriber = Subscriber(self._topics, owned, self._generation)
        metadata = encode_subscription(subscriber, settings.rack)
        request = JoinGroupRequest(
            group_id=settings.group,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            member_id=self._member_id,
            group_instance_id=settings.instance_id,
            protocol_type=consumer_protocol.PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name in settings.assignors
            ],
        )
        timeout_ms = max(settings.max_poll_interval_ms, settings.session_timeout_ms) + _GRACE_MS
        return CoordinatorRequest(request, JoinGroupResponse, timeout_ms)

    def _on_joined(self, response: JoinGroupResponse) -> None:
        code = response.error_code
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = response.member_id
            self._state = State.REJOINING
            return
        if not self._is_member_after(code):
            return
        self._member_id = response.member_id
        self._generation = response.generation_id
        self._protocol = response.protocol_name or ""
        self._assignment = None
        self._members = {
            member.member_id: decode_subscriber(member.metadata, member.group_instance_id)
            for member in response.members
        }
        self._partition_counts = None  # partition counts of their topics, once known
        self._assignments = []
        leads = response.leader == response.member_id
        self._state = State.LEADING if leads and not response.skip_assignment else State.SYNCING

    def _assign(self, sizes: dict[str, int]) -> None:
        assignor = ASSIGNORS.get(self._protocol)
        if assignor is None:
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"the group {self.settings.group!r} chose the assignor {self._protocol!r}, which"
                " this client does not have",
            )
        self._partition_counts = self._all_members_partition_counts(sizes)
        self._assignments = [
            SyncGroupRequestAssignment(member_id=member, assignment=encode_assignment(partitions))
            for member, partitions in assignor(self._members, self._partition_counts).items()
        ]
        self._state = State.SYNCING

    def _sync(self) -> CoordinatorRequest:
        settings = self.settings
        request = SyncGroupRequest(
            group_id=settings.group,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=settings.instance_id,
            protocol_type=consumer_protocol.PROTOCOL_TYPE,
            protocol_name=self._protocol,
            assignments=self._assignments,
        )
        timeout_ms = max(settings.max_poll_interval_ms, settings.session_timeout_ms) + _GRACE_MS
        return CoordinatorRequest(request, SyncGroupResponse, timeout_ms)

    def _on_synced(self, response: SyncGroupResponse) -> None:
        if self._is_member_after(response.error_code):
            self._assignment = decode_assignment(response.assignment)
            self._state = State.STABLE

    def _heartbeat(self) -> CoordinatorRequest:
        request = HeartbeatRequest(
            group_id=self.settings.group,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self.settings.instance_id,
        )
        return CoordinatorRequest(request, HeartbeatResponse)

    def _is_member_after(self, code: int) -> bool:
        """Whether the member still is one; otherwise set the next state or raise KafkaError."""
        if not code:
            return True
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._state = State.REJOINING
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self._member_id = ""
            self._forget_generation()
            self.fence()
            if not self.owned and self.change_in_progress is None:
                self.change_applied(Change())
        else:
            raise fatal(code, None, self.settings.group)
        return False

    def _forget_generation(self) -> None:
        self._generation = _NO_GENERATION
        self._assignment = None
        self._state = State.REJOINING

    # Changes

    def _next_change(self) -> Change | None:
        if self._state is State.REJOINING and not self._is_cooperative and self.owned:
            return Change(revoked=self.owned)
        if (
            self._state is State.STABLE
            and self._assignment is not None
            and self._assignment != self.owned
        ):
            return Change(
                revoked=self.owned - self._assignment, assigned=self._assignment - self.owned
            )
        return None

    def _on_change_applied(self, change: Change) -> None:
        if change.revoked and self._state is State.STABLE:
            self._state = State.REJOINING  # so that others are assigned the revoked partitions


def encode_subscription(subscriber: Subscriber, rack: str | None) -> bytes:
    message = subscription_message.ConsumerProtocolSubscription(
        topics=sorted(subscriber.topics),
        owned_partitions=[
            subscription_message.TopicPartition(topic=topic, partitions=list(indexes))
            for topic, indexes in group_by_topic(subscriber.owned).items()
        ],
        generation_id=subscriber.generation,
        rack_id=rack,
    )
    return consumer_protocol.write_subscription(message)


def decode_subscriber(data: bytes, instance_id: str | None) -> Subscriber:
    """Read another member's subscription; INCONSISTENT_GROUP_PROTOCOL if it is malformed."""
    try:
        message = consumer_protocol.read_subscription(data)
    except MalformedFrame as error:
        raise _malformed("subscription", error) from error
    owned = frozenset(
        partition_of(topic.topic, index)
        for topic in message.owned_partitions
        for index in topic.partitions
    )
    return Subscriber(frozenset(message.topics), owned, message.generation_id, instance_id)


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    return consumer_protocol.write_assignment(group_by_topic(partitions))


def decode_assignment(data: bytes) -> frozenset[TopicPartition]:
    """Read this member's assignment; INCONSISTENT_GROUP_PROTOCOL if it is malformed.

    Empty bytes are an empty assignment: the leader did not know this member.
    """
    if not data:
        return frozenset()
    try:
        message = consumer_protocol.read_assignment(data)
    except MalformedFrame as error:
        raise _malformed("assignment", error) from error
    return frozenset(
        partition_of(topic.topic, index)
        for topic in message.assigned_partitions
        for index in topic.partitions
    )


def _malformed(what: str, error: MalformedFrame) -> KafkaError:
    return KafkaError(
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        f"a member of the group sent a malformed {what}: {error}",
    )


def matching_topics(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """Return the names that an RE2 pattern matches as a whole, as a broker would.

    INVALID_REGULAR_EXPRESSION if RE2 cannot compile the pattern.
    """
    import re2  # here: only pattern subscriptions of classic members need it

    options = re2.Options()
    options.log_errors = False
    try:
        matches = re2.compile(pattern, options).fullmatch
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        words = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"{pattern!r} is not a regular expression that RE2 accepts: {words}",
        ) from error
    return frozenset(name for name in names if matches(name))
