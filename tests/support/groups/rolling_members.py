"""Clients of both protocols in a group that may be upgraded or downgraded.

`step` lets a client send its next request or handle a response. `reads` has the partitions that it
reads now; no other client may read them.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from sawlog.core.errors import ErrorCode
from sawlog.groups.consumer.assignor import MemberSpec
from sawlog.groups.consumer.server_assignors import ASSIGNORS
from sawlog.groups.migration.member_assignments import by_topic_id, write_assignment
from sawlog.protocol.codec import encoder
from sawlog.protocol.consumer_protocol import read_assignment, read_subscription
from sawlog.protocol.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
    TopicPartition,
)
from sawlog.protocol.messages.heartbeat_request import HeartbeatRequest
from sawlog.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from sawlog.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from sawlog.protocol.messages.sync_group_request import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from support.groups.consumer_group import REBALANCE_MS, Consumer, Groups, Partition

if TYPE_CHECKING:
    from sawlog.simulation.simulated_broker import Call

GROUP = "g"
SESSION_MS = 10_000
VERSION = 3
"""The version of subscriptions and assignments."""

REJOIN = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.MEMBER_ID_REQUIRED)
LOST = (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)
NOT_READY = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)


def subscription(topics: Iterable[str], reads: Iterable[Partition], generation: int = -1) -> bytes:
    owned: dict[str, list[int]] = {}
    for topic, index in sorted(reads):
        owned.setdefault(topic, []).append(index)
    message = ConsumerProtocolSubscription(
        sorted(topics),
        owned_partitions=[TopicPartition(*part) for part in owned.items()],
        generation_id=generation,
    )
    return VERSION.to_bytes(2) + encoder(ConsumerProtocolSubscription, VERSION)(message)


class ClassicClient:
    """A client of the classic protocol. An eager one reads nothing while it joins; a cooperative
    one continues to read, and rejoins after it revoked partitions."""

    def __init__(
        self,
        groups: Groups,
        *topics: str,
        instance: str | None = None,
        is_eager: bool = False,
        version: int = 9,
    ) -> None:
        self._groups = groups
        self._topics = topics
        self._version = version
        self.instance = instance
        self.is_eager = is_eager
        self.id = ""
        self.generation = -1
        self.reads: set[Partition] = set()
        self.joins = 0
        self.is_fenced = False
        self.is_member = False
        self._call: Call | None = None
        self._is_syncing = False

    # Requests

    def step(self) -> None:
        if self.is_fenced:
            return
        if self._call is None:
            self._beat() if self.is_member else self._join()
        elif self._call.is_done:
            answer, self._call = self._call.answered, None
            if answer.error_code:
                self._refused(ErrorCode(answer.error_code), answer)
            elif self._is_syncing:
                self._synced(answer)
            else:
                self._joined(answer)

    def disconnect(self) -> None:
        """The broker restarted: the request in flight is lost."""
        self._call = None
        self.is_member = self.is_member and not self._is_syncing

    def leave(self) -> int:
        message = LeaveGroupRequest(GROUP, members=[MemberIdentity(self.id, self.instance)])
        self.reads.clear()
        answer = self._groups.ask(message)
        return int(answer.error_code or answer.members[0].error_code)

    def heartbeat(self, **fields: Any) -> ErrorCode:
        message = HeartbeatRequest(
            **{
                "group_id": GROUP,
                "generation_id": self.generation,
                "member_id": self.id,
                "group_instance_id": self.instance,
                **fields,
            }
        )
        return ErrorCode(self._groups.ask(message).error_code)

    def _beat(self) -> None:
        code = self.heartbeat()
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._join()
        elif code:
            self._refused(code)

    def _join(self) -> None:
        if self.is_eager:
            self.reads.clear()
        self.joins += 1
        self.is_member = self._is_syncing = False
        metadata = subscription(self._topics, self.reads, self.generation)
        message = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol("mine", metadata)],
        )
        self._call = self._groups.machine.send(message, self._version)

    def _joined(self, answer: Any) -> None:
        self.id, self.generation = answer.member_id, answer.generation_id
        message = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name="mine",
            assignments=self._assignments(answer) if answer.leader == self.id else [],
        )
        self._is_syncing = True
        self._call = self._groups.machine.send(message)

    def _synced(self, answer: Any) -> None:
        assigned = {
            (topic.topic, index)
            for topic in read_assignment(answer.assignment).assigned_partitions
            for index in topic.partitions
        }
        gives_up = bool(self.reads - assigned)
        self.reads = assigned
        self.is_member, self._is_syncing = True, False
        if gives_up:
            self._join()

    def _refused(self, code: ErrorCode, answer: Any = None) -> None:
        if code in LOST:
            self.reads.clear()
            self.generation = -1
            if code is ErrorCode.UNKNOWN_MEMBER_ID:
                self.id = ""
            self.is_member = False
        elif code is ErrorCode.MEMBER_ID_REQUIRED:
            self.id = answer.member_id
        elif code is ErrorCode.FENCED_INSTANCE_ID:
            self.reads.clear()
            self.is_fenced = True
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.is_member = False
        else:
            assert code in NOT_READY, code
        self._is_syncing = False

    # Assignment by the leader

    def _assignments(self, answer: Any) -> list[SyncGroupRequestAssignment]:
        """Assign equal shares; a cooperative leader assigns no partition of another member."""
        image = self._groups.machine.broker.metadata.image
        specs: dict[str, MemberSpec] = {}
        for member in answer.members:
            subscribed = read_subscription(member.metadata)
            owned = ((topic.topic, topic.partitions) for topic in subscribed.owned_partitions)
            topics = frozenset(image.topics[name].id for name in subscribed.topics)
            specs[member.member_id] = MemberSpec(topics, by_topic_id(owned, image), None, None)
        counts = {topic.id: len(topic.partitions) for topic in image.topics.values()}
        shares = ASSIGNORS["uniform"](specs, counts)
        given = []
        for member_id, share in shares.items():
            others = [spec.current for other, spec in specs.items() if other != member_id]
            free = {
                topic_id: indexes.difference(*(owned.get(topic_id, ()) for owned in others))
                for topic_id, indexes in share.items()
            }
            given.append(
                SyncGroupRequestAssignment(member_id, write_assignment(free, VERSION, image))
            )
        return given


class ConsumerClient(Consumer):
    """A client of the consumer protocol that rejoins when it was fenced."""

    is_fenced = False
    is_member = False

    def step(self) -> None:
        if self.is_fenced:
            return
        code = self.beat() if self.is_member else self.join()
        if code == 0:
            self.is_member = True
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            self.reads.clear()
            self.is_member = False
        elif code == ErrorCode.FENCED_INSTANCE_ID:
            self.reads.clear()
            self.is_fenced = True
        else:
            assert code in (*NOT_READY, ErrorCode.UNRELEASED_INSTANCE_ID), ErrorCode(code)

    def disconnect(self) -> None:
        """There is no request in flight."""

    def join(self) -> int:
        self._must_report = True
        return super().join()


AnyClient = ClassicClient | ConsumerClient


def check_apart(members: Iterable[AnyClient]) -> None:
    """Check that no partition has two readers."""
    readers: dict[Partition, AnyClient] = {}
    for member in members:
        for partition in member.reads:
            assert partition not in readers, (
                f"{partition} is read by {readers[partition]}, {member}"
            )
            readers[partition] = member


def settle(groups: Groups, members: Iterable[AnyClient], *, rounds: int = 40) -> None:
    """Let all clients step until they are settled; no partition ever has two readers."""
    members = list(members)
    for _ in range(rounds):
        for member in members:
            member.step()
            check_apart(members)
            groups.pass_time(20)
            check_apart(members)


def group_type(groups: Groups) -> str:
    return str(groups.group_machine.groups[GROUP].type)


# Set-ups and single requests


def world(partitions: int = 4, **settings: str) -> Groups:
    groups = Groups(group_initial_rebalance_delay_ms="0", **settings)
    groups.make(t=partitions)
    return groups


def mixed(groups: Groups, *, is_eager: bool = False) -> tuple[ClassicClient, ConsumerClient]:
    """A consumer group with one member of each protocol, both settled."""
    old, new = ClassicClient(groups, "t", is_eager=is_eager), ConsumerClient(groups, "new", "t")
    settle(groups, [old])
    settle(groups, [old, new])
    assert group_type(groups) == "Consumer"
    return old, new


def join(groups: Groups, *, version: int = 9, **fields: Any) -> Any:
    given = {
        "group_id": "g",
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": REBALANCE_MS,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol("mine", subscription("t", ()))],
        **fields,
    }
    return groups.ask(JoinGroupRequest(**given), version)


def sync(groups: Groups, member: ClassicClient, **fields: Any) -> Any:
    given = {
        "group_id": "g",
        "generation_id": member.generation,
        "member_id": member.id,
        "protocol_type": "consumer",
        "protocol_name": "mine",
        **fields,
    }
    return groups.ask(SyncGroupRequest(**given))


def leave(groups: Groups, *members: tuple[str, str | None]) -> list[int]:
    message = LeaveGroupRequest("g", members=[MemberIdentity(*member) for member in members])
    return [answer.error_code for answer in groups.ask(message).members]


def read_by(*members: AnyClient) -> list[int]:
    return sorted(index for member in members for _, index in member.reads)
