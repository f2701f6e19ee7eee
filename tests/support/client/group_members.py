"""Group members on real connections: each joins, owns partitions, and leaves.

They send no periodic heartbeats, so they last for one session timeout.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from sawlog.client.consumer.membership.membership_protocol import new_member_id
from sawlog.client.errors import kafka_error
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.connection import Connection
from sawlog.client.net.coordinator_requests import Coordinators
from sawlog.client.net.metadata import Node
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.codec import encode
from sawlog.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from sawlog.protocol.messages.consumer_group_heartbeat_response import (
    ConsumerGroupHeartbeatResponse,
)
from sawlog.protocol.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from sawlog.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from sawlog.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from sawlog.protocol.messages.join_group_response import JoinGroupResponse
from sawlog.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from sawlog.protocol.messages.leave_group_response import LeaveGroupResponse
from sawlog.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from sawlog.protocol.messages.sync_group_response import SyncGroupResponse
from sawlog.protocol.schema import Message

SESSION_MS = 45_000
REBALANCE_MS = 60_000
LEAVING = -1
_FORMAT = (0).to_bytes(2, "big")  # the version of subscriptions and assignments
_TIMEOUT_S = 60.0  # an assignment takes Kafka a second, or many on a busy machine
_PAUSE_S = 0.02

Assignment = Mapping[str, Sequence[int]]


class Member(ABC):
    """A client of the coordinator of one group."""

    def __init__(self, bootstrap: str, group: str, client_id: str) -> None:
        self.group = group
        self.cluster = Cluster(bootstrap, client_id=client_id)
        self._coordinators = Coordinators(self.cluster)

    def request(self, request: Message, response_class: type[Message]) -> Any:
        """Send a request, with retries while the coordinator is not available."""

        def ask(connection: Connection, _: Node, __: list[str]) -> Iterator[tuple[str, Any]]:
            answer: Any = connection.request(request, response_class)
            error = kafka_error(answer.error_code, None)
            yield self.group, error if error.is_retriable else answer

        found, refused = self._coordinators.send([self.group], ask)
        for error in refused.values():
            raise error
        return found[self.group]

    @abstractmethod
    def leave(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()
        self.cluster.close()


class ClassicMember(Member):
    """The only member of its group; it assigns itself the given partitions."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        wanted: Assignment,
        *,
        client_id: str = "classic-client",
        instance_id: str | None = None,
        protocol_type: str = "consumer",
    ) -> None:
        super().__init__(bootstrap, group, client_id)
        subscription = ConsumerProtocolSubscription(topics=list(wanted))
        join = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol("range", _FORMAT + encode(subscription, 0))],
        )
        joined: JoinGroupResponse = self.request(join, JoinGroupResponse)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            join.member_id = joined.member_id
            joined = self.request(join, JoinGroupResponse)
        _check(joined)
        self.id = joined.member_id
        self.generation = joined.generation_id
        partitions = [TopicPartition(topic, list(each)) for topic, each in wanted.items()]
        assignment = ConsumerProtocolAssignment(assigned_partitions=partitions)
        sync = SyncGroupRequest(
            group_id=group,
            generation_id=self.generation,
            member_id=self.id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name="range",
            assignments=[SyncGroupRequestAssignment(self.id, _FORMAT + encode(assignment, 0))],
        )
        _check(self.request(sync, SyncGroupResponse))

    def leave(self) -> None:
        leaving = LeaveGroupRequest(group_id=self.group, members=[MemberIdentity(self.id)])
        _check(self.request(leaving, LeaveGroupResponse))


class ConsumerMember(Member):
    """Joins by the consumer protocol; `waits` until it is assigned partitions."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topics: Sequence[str],
        *,
        client_id: str = "consumer-client",
        member_id: str = "",
        instance_id: str | None = None,
        waits: bool = True,
    ) -> None:
        super().__init__(bootstrap, group, client_id)
        self.id = member_id or new_member_id()
        self.epoch = 0
        self._instance_id = instance_id
        answer = self._beat(
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=list(topics),
            topic_partitions=[],
        )
        if not waits:
            return
        deadline = time.monotonic() + _TIMEOUT_S
        while answer.assignment is None or not answer.assignment.topic_partitions:
            if time.monotonic() > deadline:
                self.cluster.close()
                raise AssertionError(f"{group} assigned no partition in {_TIMEOUT_S} s")
            time.sleep(_PAUSE_S)
            answer = self._beat()
        owned = [
            TopicPartitions(each.topic_id, each.partitions)
            for each in answer.assignment.topic_partitions
        ]
        self._beat(
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=list(topics),
            topic_partitions=owned,
        )

    def leave(self) -> None:
        self.epoch = LEAVING
        self._beat()

    def _beat(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.id,
            member_epoch=self.epoch,
            instance_id=self._instance_id,
            **fields,
        )
        answer: ConsumerGroupHeartbeatResponse = self.request(
            request, ConsumerGroupHeartbeatResponse
        )
        _check(answer)
        self.epoch = answer.member_epoch
        return answer


def _check(answer: Any) -> None:
    if answer.error_code:
        raise KafkaError(ErrorCode(answer.error_code))
