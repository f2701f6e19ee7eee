"""Members of classic and consumer groups: the requests they send and the state they keep."""

from collections.abc import Mapping, Sequence
from typing import Any

from sawlog.protocol.messages.consumer_group_heartbeat_response import (
    ConsumerGroupHeartbeatResponse,
)
from sawlog.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from sawlog.protocol.messages.consumer_protocol_assignment import TopicPartition as Assigned
from sawlog.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from sawlog.protocol.messages.consumer_protocol_subscription import TopicPartition as Owned
from sawlog.protocol.messages.join_group_response import JoinGroupResponse
from transcripts.group_payloads import payload
from transcripts.transcript import Transcript

LONG_MS = 60_000
MEMBER_ID_REQUIRED = 79
LOST_MEMBER = (25, 82)  # UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID
CONSUMER = "consumer"
Partitions = Mapping[str, Sequence[int]]


def subscription(
    *topics: str, owned: Partitions | None = None, generation: int | None = None
) -> bytes:
    """Encode a subscription; `owned` makes it that of a cooperative consumer (KIP-429)."""
    message = ConsumerProtocolSubscription(list(topics))
    version = 0
    if owned is not None:
        version = 1
        message.owned_partitions = [Owned(topic, list(some)) for topic, some in owned.items()]
    if generation is not None:
        version = 2
        message.generation_id = generation
    return payload(message, version)


def assignment(partitions: Partitions, version: int = 0) -> bytes:
    """Encode an assignment."""
    assigned = [Assigned(topic, list(some)) for topic, some in partitions.items()]
    return payload(ConsumerProtocolAssignment(assigned), version)


class ClassicMember:
    """A member of a classic group; requests carry the ids of the last responses."""

    def __init__(
        self, transcript: Transcript, name: str, group: str, metadata: bytes = b"", **more: Any
    ) -> None:
        """`more`: protocols (names by preference), instance, session_ms, rebalance_ms, version."""
        self.name = name
        self.group = group
        self.metadata = metadata
        self.protocols: Sequence[str] = more.get("protocols", ("range",))
        self.instance: str | None = more.get("instance")
        self.session_ms: int = more.get("session_ms", LONG_MS)
        self.rebalance_ms: int = more.get("rebalance_ms", LONG_MS)
        self.version: int = more.get("version", 9)
        self.id = ""
        self.generation = -1
        self.protocol = ""
        self.others: list[str] = []
        self.client = transcript.open_client(name)

    def restarted(self, transcript: Transcript, name: str) -> "ClassicMember":
        """The same member after a restart, without a member id."""
        return ClassicMember(
            transcript,
            name,
            self.group,
            self.metadata,
            protocols=self.protocols,
            instance=self.instance,
            session_ms=self.session_ms,
            rebalance_ms=self.rebalance_ms,
            version=self.version,
        )

    def join_fields(self, **more: Any) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "group_id": self.group,
            "session_timeout_ms": self.session_ms,
            "rebalance_timeout_ms": self.rebalance_ms,
            "member_id": self.id,
            "protocol_type": CONSUMER,
            "protocols": [{"name": each, "metadata": self.metadata} for each in self.protocols],
        }
        if self.instance is not None:
            fields["group_instance_id"] = self.instance
        return {**fields, **more}

    def join(self, title: str, **more: Any) -> Any:
        """A JoinGroup that completes without another member."""
        joined = self.client.request(title, "JoinGroup", self.version, self.join_fields(**more))
        return self._joined(joined)

    def send_join(self, title: str, **more: Any) -> None:
        self.client.send(title, "JoinGroup", self.version, self.join_fields(**more))

    def receive_join(self, title: str) -> Any:
        return self._joined(self.client.receive(title))

    def obtain_member_id(self) -> None:
        """The first JoinGroup, which returns a member id (KIP-394); not recorded."""
        response = self.client.request_unrecorded("JoinGroup", self.version, self.join_fields())
        self._joined(response)

    def _joined(self, response: Any) -> Any:
        if response is not None and response.error_code in (0, MEMBER_ID_REQUIRED):
            self.id = response.member_id
        if response is not None and response.error_code == 0:
            self.generation = response.generation_id
            self.protocol = response.protocol_name
            self.others = [each.member_id for each in response.members]
        return response

    def on_response(self, response: Any) -> None:
        """Take any response; like real clients, forget a member id that the group lost."""
        if isinstance(response, JoinGroupResponse):
            self._joined(response)
            if response.error_code in LOST_MEMBER:
                self.id, self.generation = "", -1

    def sync_fields(
        self, assignments: Mapping[str, bytes] | None = None, **more: Any
    ) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "protocol_type": CONSUMER,
            "protocol_name": self.protocol,
            "assignments": [
                {"member_id": member, "assignment": each}
                for member, each in (assignments or {}).items()
            ],
        }
        if self.instance is not None:
            fields["group_instance_id"] = self.instance
        return {**fields, **more}

    def sync(
        self,
        title: str,
        assignments: Mapping[str, bytes] | None = None,
        version: int = 5,
        **more: Any,
    ) -> Any:
        return self.client.request(
            title, "SyncGroup", version, self.sync_fields(assignments, **more)
        )

    def send_sync(self, title: str, **more: Any) -> None:
        self.client.send(title, "SyncGroup", 5, self.sync_fields(**more))

    def receive_sync(self, title: str) -> Any:
        return self.client.receive(title)

    def heartbeat_fields(self, **more: Any) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
        }
        if self.instance is not None:
            fields["group_instance_id"] = self.instance
        return {**fields, **more}

    def heartbeat(self, title: str, version: int = 4, **more: Any) -> Any:
        return self.client.request(title, "Heartbeat", version, self.heartbeat_fields(**more))

    def heartbeat_error(self) -> int:
        """The error code of a heartbeat that is not recorded."""
        code: int = self.client.request_unrecorded(
            "Heartbeat", 4, self.heartbeat_fields()
        ).error_code
        return code

    def leave(self, title: str, version: int = 5, **more: Any) -> Any:
        members = [{"member_id": self.id, **more}]
        return self.client.request(
            title, "LeaveGroup", version, {"group_id": self.group, "members": members}
        )

    def commit(
        self, title: str, topic: str, offsets: Mapping[int, int], version: int = 9, **more: Any
    ) -> Any:
        fields = commit_fields(self.group, topic, offsets, self.id, self.generation)
        if self.instance is not None:
            fields["group_instance_id"] = self.instance
        return self.client.request(title, "OffsetCommit", version, {**fields, **more})


class ConsumerMember:
    """A member of a consumer group (KIP-848); heartbeats carry the epoch of the last response."""

    def __init__(
        self,
        transcript: Transcript,
        name: str,
        group: str,
        topics: Sequence[str] | None,
        **more: Any,
    ) -> None:
        """`more`: instance, regex, assignor, rebalance_ms, version; `id`, if it is not `name`."""
        self.name = name
        self.group = group
        self.topics = topics
        self.instance: str | None = more.get("instance")
        self.regex: str | None = more.get("regex")
        self.assignor: str | None = more.get("assignor")
        self.rebalance_ms: int = more.get("rebalance_ms", LONG_MS)
        self.version: int = more.get("version", 1)
        self.id: str = more.get("id", name)
        self.epoch = 0
        self.owned: dict[bytes, list[int]] = {}
        self.client = transcript.open_client(name)

    def join_fields(self, **more: Any) -> dict[str, Any]:
        """All fields of the heartbeat that joins the group."""
        fields: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.id,
            "member_epoch": 0,
            "rebalance_timeout_ms": self.rebalance_ms,
            "topic_partitions": [],
        }
        optional = {
            "instance_id": self.instance,
            "subscribed_topic_names": None if self.topics is None else list(self.topics),
            "subscribed_topic_regex": self.regex,
            "server_assignor": self.assignor,
        }
        return {**fields, **{key: value for key, value in optional.items() if value is not None}}

    def heartbeat_fields(self, **more: Any) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.id,
            "member_epoch": self.epoch,
        }
        if self.instance is not None:
            fields["instance_id"] = self.instance
        return {**fields, **more}

    def join(self, title: str, **more: Any) -> Any:
        return self._update(
            self.client.request(
                title, "ConsumerGroupHeartbeat", self.version, {**self.join_fields(), **more}
            )
        )

    def heartbeat(self, title: str, **more: Any) -> Any:
        """A heartbeat without changes, except for the fields in `more`."""
        return self._update(
            self.client.request(
                title, "ConsumerGroupHeartbeat", self.version, self.heartbeat_fields(**more)
            )
        )

    def report_owned(self, title: str, owned: Mapping[bytes, Sequence[int]]) -> Any:
        """A heartbeat with the partitions that the member owns now."""
        owned_topics = [
            {"topic_id": topic, "partitions": list(some)} for topic, some in owned.items()
        ]
        return self.heartbeat(
            title, rebalance_timeout_ms=self.rebalance_ms, topic_partitions=owned_topics
        )

    def confirm_assignment(self, title: str) -> Any:
        """A heartbeat that owns exactly the last assignment."""
        return self.report_owned(title, self.owned)

    def heartbeat_unrecorded(self) -> Any:
        return self._update(
            self.client.request_unrecorded(
                "ConsumerGroupHeartbeat", self.version, self.heartbeat_fields()
            )
        )

    def confirm_unrecorded(self) -> Any:
        """As `confirm_assignment`, not recorded."""
        owned_topics = [
            {"topic_id": topic, "partitions": some} for topic, some in self.owned.items()
        ]
        fields = self.heartbeat_fields(
            rebalance_timeout_ms=self.rebalance_ms, topic_partitions=owned_topics
        )
        return self._update(
            self.client.request_unrecorded("ConsumerGroupHeartbeat", self.version, fields)
        )

    def leave(self, title: str, epoch: int = -1) -> Any:
        fields = self.heartbeat_fields(member_epoch=epoch)
        return self.client.request(title, "ConsumerGroupHeartbeat", self.version, fields)

    def commit(self, title: str, topic: str, offsets: Mapping[int, int], **more: Any) -> Any:
        fields = commit_fields(self.group, topic, offsets, self.id, self.epoch)
        return self.client.request(title, "OffsetCommit", 9, {**fields, **more})

    def on_response(self, response: Any) -> None:
        if isinstance(response, ConsumerGroupHeartbeatResponse):
            self._update(response)

    def _update(self, response: Any) -> Any:
        if response is None or response.error_code:
            return response
        self.id = response.member_id or self.id
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.owned = {
                bytes(each.topic_id): list(each.partitions)
                for each in response.assignment.topic_partitions
            }
        return response


def commit_fields(
    group: str,
    topic: str,
    offsets: Mapping[int, int],
    member: str = "",
    generation: int = -1,
    **more: Any,
) -> dict[str, Any]:
    """The fields of an OffsetCommit for one topic; `more` is added to each partition."""
    partitions = [
        {"partition_index": index, "committed_offset": offset, **more}
        for index, offset in offsets.items()
    ]
    return {
        "group_id": group,
        "generation_id_or_member_epoch": generation,
        "member_id": member,
        "topics": [{"name": topic, "partitions": partitions}],
    }


def wait_for_coordinator(transcript: Transcript, *groups: str) -> None:
    """Wait until the partitions of `__consumer_offsets` are led and loaded."""
    for group in groups:
        transcript.wait_until(lambda: _is_ready(transcript, group))  # noqa: B023


def _is_ready(transcript: Transcript, group: str) -> bool:
    found = transcript.request_unrecorded("FindCoordinator", 4, {"coordinator_keys": [group]})
    if found.coordinators[0].error_code:
        return False
    response = transcript.request_unrecorded("OffsetFetch", 7, {"group_id": group, "topics": None})
    return not response.error_code


def wait_for_state(
    transcript: Transcript, group: str, state: str, members: int | None = None
) -> None:
    """Wait until a classic group is in this state with so many members.

    A request on one connection has then been handled before the next one on another connection.
    """

    def is_in_state() -> bool:
        found = transcript.request_unrecorded("DescribeGroups", 5, {"groups": [group]}).groups[0]
        return found.group_state == state and members in (None, len(found.members))

    transcript.wait_until(is_in_state)


def describe_classic(transcript: Transcript, title: str, *groups: str, version: int = 5) -> None:
    transcript.request(title, "DescribeGroups", version, {"groups": list(groups)})


def describe_consumer(
    transcript: Transcript, title: str, *groups: str, version: int = 1, **more: Any
) -> None:
    transcript.request(title, "ConsumerGroupDescribe", version, {"group_ids": list(groups), **more})


def settle(transcript: Transcript, count: int, *members: ConsumerMember) -> None:
    """Send unrecorded heartbeats until the members own `count` partitions and share one epoch."""

    def is_settled() -> bool:
        for each in members:
            each.heartbeat_unrecorded()
            each.confirm_unrecorded()
        have = sum(len(some) for each in members for some in each.owned.values())
        return have == count and len({each.epoch for each in members}) == 1

    transcript.wait_until(is_settled)
