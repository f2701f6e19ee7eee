"""Members of groups in few words: what they send, and what they remember of the answers."""

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
from transcripts.dialogue import Dialogue
from transcripts.payloads import payload

LONG_MS = 60_000
MEMBER_ID_REQUIRED = 79
FORGOTTEN = (25, 82)  # UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID
CONSUMER = "consumer"
Partitions = Mapping[str, Sequence[int]]


def wishes(*topics: str, owned: Partitions | None = None, generation: int | None = None) -> bytes:
    """A subscription; with `owned` as those of cooperative consumers, which tell what they have."""
    message = ConsumerProtocolSubscription(list(topics))
    version = 0
    if owned is not None:
        version = 1
        message.owned_partitions = [Owned(topic, list(some)) for topic, some in owned.items()]
    if generation is not None:
        version = 2
        message.generation_id = generation
    return payload(message, version)


def share(partitions: Partitions, version: int = 0) -> bytes:
    """An assignment."""
    assigned = [Assigned(topic, list(some)) for topic, some in partitions.items()]
    return payload(ConsumerProtocolAssignment(assigned), version)


class Classic:
    """A member of a classic group. What it was told last is what it says next."""

    def __init__(
        self, talk: Dialogue, name: str, group: str, metadata: bytes = b"", **more: Any
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
        self.voice = talk.speaker(name)

    def again(self, talk: Dialogue, name: str) -> "Classic":
        """The same member started anew: it remembers nothing."""
        return Classic(
            talk,
            name,
            self.group,
            self.metadata,
            protocols=self.protocols,
            instance=self.instance,
            session_ms=self.session_ms,
            rebalance_ms=self.rebalance_ms,
            version=self.version,
        )

    # Joining

    def joining(self, **more: Any) -> dict[str, Any]:
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

    def joins(self, title: str, **more: Any) -> Any:
        """A JoinGroup that is answered without anybody else."""
        joined = self.voice.ask(title, "JoinGroup", self.version, self.joining(**more))
        return self._joined(joined)

    def begins_to_join(self, title: str, **more: Any) -> None:
        self.voice.begin(title, "JoinGroup", self.version, self.joining(**more))

    def has_joined(self, title: str) -> Any:
        return self._joined(self.voice.hear(title))

    def is_introduced(self) -> None:
        """Gets the id that it has to join with, and says nothing of it."""
        answer = self.voice.quietly("JoinGroup", self.version, self.joining())
        self._joined(answer)

    def _joined(self, answer: Any) -> Any:
        if answer is not None and answer.error_code in (0, MEMBER_ID_REQUIRED):
            self.id = answer.member_id
        if answer is not None and answer.error_code == 0:
            self.generation = answer.generation_id
            self.protocol = answer.protocol_name
            self.others = [each.member_id for each in answer.members]
        return answer

    def heard(self, answer: Any) -> None:
        """Any answer: as real clients do, it forgets its id where nobody knows that any more."""
        if isinstance(answer, JoinGroupResponse):
            self._joined(answer)
            if answer.error_code in FORGOTTEN:
                self.id, self.generation = "", -1

    # Everything after that

    def syncing(
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

    def syncs(
        self,
        title: str,
        assignments: Mapping[str, bytes] | None = None,
        version: int = 5,
        **more: Any,
    ) -> Any:
        return self.voice.ask(title, "SyncGroup", version, self.syncing(assignments, **more))

    def begins_to_sync(self, title: str, **more: Any) -> None:
        self.voice.begin(title, "SyncGroup", 5, self.syncing(**more))

    def has_synced(self, title: str) -> Any:
        return self.voice.hear(title)

    def beating(self, **more: Any) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
        }
        if self.instance is not None:
            fields["group_instance_id"] = self.instance
        return {**fields, **more}

    def beats(self, title: str, version: int = 4, **more: Any) -> Any:
        return self.voice.ask(title, "Heartbeat", version, self.beating(**more))

    def beat_code(self) -> int:
        """A heartbeat that the recording does not keep."""
        code: int = self.voice.quietly("Heartbeat", 4, self.beating()).error_code
        return code

    def leaves(self, title: str, version: int = 5, **more: Any) -> Any:
        members = [{"member_id": self.id, **more}]
        return self.voice.ask(
            title, "LeaveGroup", version, {"group_id": self.group, "members": members}
        )

    def commits(
        self, title: str, topic: str, offsets: Mapping[int, int], version: int = 9, **more: Any
    ) -> Any:
        fields = commit(self.group, topic, offsets, self.id, self.generation)
        if self.instance is not None:
            fields["group_instance_id"] = self.instance
        return self.voice.ask(title, "OffsetCommit", version, {**fields, **more})


class Modern:
    """A member of a consumer group (KIP-848), which tells what it owns in every heartbeat."""

    def __init__(
        self, talk: Dialogue, name: str, group: str, topics: Sequence[str] | None, **more: Any
    ) -> None:
        """`more`: instance, regex, assignor, rebalance_ms, version; `id` where it is not `name`."""
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
        self.voice = talk.speaker(name)

    def entering(self, **more: Any) -> dict[str, Any]:
        """The whole of what a member says when it joins."""
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

    def beating(self, **more: Any) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.id,
            "member_epoch": self.epoch,
        }
        if self.instance is not None:
            fields["instance_id"] = self.instance
        return {**fields, **more}

    def joins(self, title: str, **more: Any) -> Any:
        return self._told(
            self.voice.ask(
                title, "ConsumerGroupHeartbeat", self.version, {**self.entering(), **more}
            )
        )

    def beats(self, title: str, **more: Any) -> Any:
        """A heartbeat that says nothing new."""
        return self._told(
            self.voice.ask(title, "ConsumerGroupHeartbeat", self.version, self.beating(**more))
        )

    def owns(self, title: str, owned: Mapping[bytes, Sequence[int]]) -> Any:
        """A heartbeat that tells what the member has now."""
        have = [{"topic_id": topic, "partitions": list(some)} for topic, some in owned.items()]
        return self.beats(title, rebalance_timeout_ms=self.rebalance_ms, topic_partitions=have)

    def takes(self, title: str) -> Any:
        """Confirms what it was assigned last."""
        return self.owns(title, self.owned)

    def beats_quietly(self) -> Any:
        return self._told(
            self.voice.quietly("ConsumerGroupHeartbeat", self.version, self.beating())
        )

    def owns_quietly(self) -> Any:
        """Confirms what it was assigned last, and the recording does not keep it."""
        have = [{"topic_id": topic, "partitions": some} for topic, some in self.owned.items()]
        fields = self.beating(rebalance_timeout_ms=self.rebalance_ms, topic_partitions=have)
        return self._told(self.voice.quietly("ConsumerGroupHeartbeat", self.version, fields))

    def leaves(self, title: str, epoch: int = -1) -> Any:
        fields = self.beating(member_epoch=epoch)
        return self.voice.ask(title, "ConsumerGroupHeartbeat", self.version, fields)

    def commits(self, title: str, topic: str, offsets: Mapping[int, int], **more: Any) -> Any:
        fields = commit(self.group, topic, offsets, self.id, self.epoch)
        return self.voice.ask(title, "OffsetCommit", 9, {**fields, **more})

    def heard(self, answer: Any) -> None:
        if isinstance(answer, ConsumerGroupHeartbeatResponse):
            self._told(answer)

    def _told(self, answer: Any) -> Any:
        if answer is None or answer.error_code:
            return answer
        self.id = answer.member_id or self.id
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = {
                bytes(each.topic_id): list(each.partitions)
                for each in answer.assignment.topic_partitions
            }
        return answer


def commit(
    group: str,
    topic: str,
    offsets: Mapping[int, int],
    member: str = "",
    generation: int = -1,
    **more: Any,
) -> dict[str, Any]:
    """An OffsetCommit of one topic; `more` goes to each partition."""
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


def coordinator_is_ready(talk: Dialogue, *groups: str) -> None:
    """Waits until the groups' topic is there, led and loaded."""
    for group in groups:
        talk.wait(lambda: _is_ready(talk, group))  # noqa: B023


def _is_ready(talk: Dialogue, group: str) -> bool:
    found = talk.quietly("FindCoordinator", 4, {"coordinator_keys": [group]})
    if found.coordinators[0].error_code:
        return False
    answer = talk.quietly("OffsetFetch", 7, {"group_id": group, "topics": None})
    return not answer.error_code


def until_state(talk: Dialogue, group: str, state: str, members: int | None = None) -> None:
    """Waits until a classic group is in this state, with so many members: what was sent on one
    connection has then been taken before what is sent on another."""

    def is_so() -> bool:
        found = talk.quietly("DescribeGroups", 5, {"groups": [group]}).groups[0]
        return found.group_state == state and members in (None, len(found.members))

    talk.wait(is_so)


def described(talk: Dialogue, title: str, *groups: str, version: int = 5) -> None:
    talk.ask(title, "DescribeGroups", version, {"groups": list(groups)})


def shown(talk: Dialogue, title: str, *groups: str, version: int = 1, **more: Any) -> None:
    talk.ask(title, "ConsumerGroupDescribe", version, {"group_ids": list(groups), **more})


def settle(talk: Dialogue, count: int, *members: Modern) -> None:
    """Heartbeats that nobody looks at: all give and take what they are told to, until they have so
    many partitions between them and are of one epoch."""

    def is_settled() -> bool:
        for each in members:
            each.beats_quietly()
            each.owns_quietly()
        have = sum(len(some) for each in members for some in each.owned.values())
        return have == count and len({each.epoch for each in members}) == 1

    talk.wait(is_settled)
