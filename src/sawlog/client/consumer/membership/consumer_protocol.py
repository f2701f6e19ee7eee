"""A member of a consumer group (KIP-848): heartbeats only, and the broker assigns.

Fields that have not changed since the last heartbeat are left out; after a lost response, and when
joining, all are sent. The broker assigns a partition to no other member before its owner has
reported, with its next heartbeat, that it gave it up.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sawlog.client.admin.group_offsets import Identity
from sawlog.client.consumer.membership.membership_protocol import (
    Change,
    CoordinatorRequest,
    GroupSettings,
    Membership,
    Subscription,
    TopicLookup,
    fatal,
    new_member_id,
)
from sawlog.client.net.leader_requests import group_by_topic, partition_of
from sawlog.client.net.metadata import Topic
from sawlog.core.errors import ErrorCode
from sawlog.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from sawlog.protocol.messages.consumer_group_heartbeat_response import (
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from sawlog.core.ids import TopicPartition

_JOINING = 0
_LEAVING = -1
_LEAVING_STATIC = -2  # a static member, which may rejoin
_FENCING_ERRORS = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
_FIRST_INTERVAL_MS = 5_000
_FIRST_PAUSE_MS = 100.0
_UNKNOWN_TOPIC_WAIT_MS = 1_000


class ConsumerMembership(Membership):
    """The state of a member: its epoch, its target assignment, and what it has reported."""

    def __init__(self, settings: GroupSettings, subscription: Subscription) -> None:
        super().__init__(settings, subscription)
        self._member_id = new_member_id()
        self._epoch = _JOINING
        self._names: dict[bytes, str] = {}
        self._target: Mapping[bytes, Sequence[int]] | None = None  # by topic id
        self._reported_owned: frozenset[TopicPartition] | None = None
        self._is_subscription_sent = False
        self._has_sent_pattern = False
        self._interval_ms: float = _FIRST_INTERVAL_MS
        self._pause_ms = _FIRST_PAUSE_MS
        self._next_heartbeat_ms = 0.0
        self._next_lookup_ms = 0.0

    @property
    def identity(self) -> Identity:
        return Identity(self._member_id, self._epoch, self.settings.instance_id)

    @property
    def is_member(self) -> bool:
        return not self.is_fenced and self._epoch > _JOINING

    def heartbeat_now(self) -> None:
        self._next_heartbeat_ms = 0.0

    def next_request(self, now_ms: float) -> CoordinatorRequest | TopicLookup | None:
        if self.is_fenced:
            return None  # joins again after the polling thread gave up all partitions
        unknown = self._unknown_ids()
        if unknown and now_ms >= self._next_lookup_ms:
            return TopicLookup(ids=unknown)
        has_news = self.owned != self._reported_owned or not self._is_subscription_sent
        if now_ms < self._next_heartbeat_ms and not (has_news and self.change_in_progress is None):
            return None
        self._next_heartbeat_ms = now_ms + self._interval_ms
        return CoordinatorRequest(self._heartbeat(), ConsumerGroupHeartbeatResponse)

    def next_wakeup_ms(self) -> float:
        if self.is_fenced:
            return float("inf")
        if self._unknown_ids():
            return min(self._next_heartbeat_ms, self._next_lookup_ms)
        return self._next_heartbeat_ms

    def on_response(self, response: ConsumerGroupHeartbeatResponse, now_ms: float) -> None:
        code = response.error_code
        is_removed = code == ErrorCode.GROUP_ID_NOT_FOUND and self._epoch > _JOINING
        if code in _FENCING_ERRORS or is_removed:
            # After all members were fenced the group was removed; joining creates a new one.
            self._epoch = _JOINING
            self.fence()
            if not self.owned and self.change_in_progress is None:
                self.change_applied(Change())
            return
        if code:
            self.on_no_response()
            raise fatal(code, response.error_message, self.settings.group)
        if self._epoch == _JOINING:
            self._pause_ms = _FIRST_PAUSE_MS
        self._member_id = response.member_id or self._member_id
        self._epoch = response.member_epoch
        self._interval_ms = response.heartbeat_interval_ms
        if response.assignment is not None:
            self._target = {
                topic.topic_id: topic.partitions for topic in response.assignment.topic_partitions
            }
            self._next_lookup_ms = 0.0
        self._next_heartbeat_ms = now_ms + self._pause_before_heartbeat_ms()

    def _pause_before_heartbeat_ms(self) -> float:
        """Return the time to the next heartbeat: the interval, less for a new member.

        A coordinator computes no new target within group.consumer.assignment.interval.ms of the
        last (KIP-1263), and assigns no partition that another member still has to revoke. A member
        that joins meanwhile gets an empty assignment, and the rest with a later heartbeat. Until
        then its pauses double: with an interval of 5 s it sends heartbeats after 100, 300, 700,
        1,500 and 3,100 ms.
        """
        if any((self._target or {}).values()) or self._pause_ms >= self._interval_ms:
            self._pause_ms = self._interval_ms
            return self._interval_ms
        pause_ms, self._pause_ms = self._pause_ms, self._pause_ms * 2
        return pause_ms

    def on_topics(self, topics: Sequence[Topic], now_ms: float) -> None:
        self._names.update((topic.id, topic.name) for topic in topics)
        self._next_lookup_ms = now_ms + _UNKNOWN_TOPIC_WAIT_MS

    def on_no_response(self) -> None:
        self._reported_owned = None
        self._is_subscription_sent = False
        self._next_heartbeat_ms = 0.0

    def subscribe(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self._is_subscription_sent = False

    def leave_request(self) -> CoordinatorRequest | None:
        is_static = self.settings.instance_id is not None
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.settings.group,
            member_id=self._member_id,
            member_epoch=_LEAVING_STATIC if is_static else _LEAVING,
            instance_id=self.settings.instance_id,
        )
        self._epoch = _JOINING
        return CoordinatorRequest(request, ConsumerGroupHeartbeatResponse)

    def _heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        settings = self.settings
        request = ConsumerGroupHeartbeatRequest(
            group_id=settings.group,
            member_id=self._member_id,
            member_epoch=self._epoch,
            instance_id=settings.instance_id,
        )
        is_full = self._epoch == _JOINING or self._reported_owned is None
        if is_full:
            request.rack_id = settings.rack
            request.rebalance_timeout_ms = settings.max_poll_interval_ms
            request.server_assignor = settings.server_assignor
        if is_full or not self._is_subscription_sent:
            pattern = self.subscription.pattern
            request.subscribed_topic_names = sorted(self.subscription.topics)
            # '' removes a pattern; a broker without patterns must not get the field.
            request.subscribed_topic_regex = pattern or ("" if self._has_sent_pattern else None)
            self._has_sent_pattern = self._has_sent_pattern or pattern is not None
            self._is_subscription_sent = True
        if is_full or self.owned != self._reported_owned:
            request.topic_partitions = self._owned_by_id()
            self._reported_owned = self.owned
        return request

    def _owned_by_id(self) -> list[TopicPartitions]:
        if self._epoch == _JOINING:
            return []
        ids = {name: topic_id for topic_id, name in self._names.items()}
        ids |= {self._names[each]: each for each in self._target or () if each in self._names}
        return [
            TopicPartitions(topic_id=ids[name], partitions=list(indexes))
            for name, indexes in group_by_topic(self.owned).items()
        ]

    def _unknown_ids(self) -> frozenset[bytes]:
        return frozenset(self._target or ()) - self._names.keys()

    def _next_change(self) -> Change | None:
        """Topics whose name is unknown are left out: they were deleted or will be looked up."""
        if self._target is None or self._epoch == _JOINING:
            return None
        target = frozenset(
            partition_of(self._names[topic_id], index)
            for topic_id, indexes in self._target.items()
            if topic_id in self._names
            for index in indexes
        )
        if target == self.owned:
            return None
        return Change(revoked=self.owned - target, assigned=target - self.owned)

    def _on_change_applied(self, change: Change) -> None:
        if change.lost or (self._epoch == _JOINING and not self.owned):
            self._target = None
            self._reported_owned = None
            self._next_heartbeat_ms = 0.0
