"""Groups for administrators: list, describe and delete them, their offsets and members.

Calls about several groups return the errors by name; no errors is success.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sawlog.client.admin.group_offsets import (
    Committed,
    PartitionErrors,
    commit_offsets,
    committed_offsets,
    delete_offsets,
)
from sawlog.client.errors import ErrorsByName, UnsupportedRequest, kafka_error
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.connection import Connection
from sawlog.client.net.coordinator_requests import (
    Coordinators,
    GroupResults,
    group_error,
    require_version,
)
from sawlog.client.net.leader_requests import partition_of
from sawlog.client.net.metadata import Node
from sawlog.core.errors import ErrorCode, KafkaError, MalformedFrame
from sawlog.core.ids import NodeId, TopicPartition
from sawlog.protocol import consumer_protocol
from sawlog.protocol.apis import ApiKey
from sawlog.protocol.messages import consumer_group_describe_response as consumer_answer
from sawlog.protocol.messages import describe_groups_response as classic_answer
from sawlog.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from sawlog.protocol.messages.delete_groups_request import DeleteGroupsRequest
from sawlog.protocol.messages.delete_groups_response import DeleteGroupsResponse
from sawlog.protocol.messages.describe_groups_request import DescribeGroupsRequest
from sawlog.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from sawlog.protocol.messages.leave_group_response import LeaveGroupResponse
from sawlog.protocol.messages.list_groups_request import ListGroupsRequest
from sawlog.protocol.messages.list_groups_response import ListGroupsResponse

CLASSIC = "classic"
CONSUMER = "consumer"
CONSUMER_PROTOCOL = consumer_protocol.PROTOCOL_TYPE
IDLE_STATES = frozenset({"Empty", "Dead"})

_FIRST_VERSION_WITH_STATES = 4
_FIRST_VERSION_WITH_TYPES = 5
_FIRST_VERSION_WITH_MEMBERS = 3
_DEAD = "Dead"
_REMOVAL_TEXTS = {
    ErrorCode.UNKNOWN_MEMBER_ID: "the group has no {}; describe the group to see its members",
    ErrorCode.FENCED_INSTANCE_ID: "another member has taken the place of {}",
}


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in a list; fields that an old broker does not return are ''."""

    id: str
    type: str
    state: str
    protocol_type: str


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member; `target` and `epoch` are those of the consumer protocol (KIP-848)."""

    id: str
    instance_id: str | None
    client_id: str
    host: str
    assigned: tuple[TopicPartition, ...] | None  # None: not readable
    target: tuple[TopicPartition, ...] | None = None
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group; `epoch` and `target_epoch` are those of the consumer protocol."""

    id: str
    type: str
    state: str
    protocol_type: str
    assignor: str  # '' before the first assignment
    coordinator: Node
    members: list[GroupMember]
    epoch: int | None = None
    target_epoch: int | None = None

    @property
    def is_idle(self) -> bool:
        return not self.members and self.state in IDLE_STATES


class MemberToRemove(NamedTuple):
    """A member by its id, or the static member with an instance id (KIP-345)."""

    member_id: str = ""
    instance_id: str | None = None

    def __str__(self) -> str:
        return f"member {self.member_id!r}" if self.member_id else f"instance {self.instance_id!r}"


class GroupAdmin:
    """The calls of the admin client about groups."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._coordinators = Coordinators(cluster)

    def list_groups(
        self, *, states: Sequence[str] = (), types: Sequence[str] = ()
    ) -> list[GroupListing]:
        """Return the groups of all brokers, filtered by state and type if given."""
        result: dict[NodeId, ListGroupsResponse] = {}
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))

        def attempt() -> None:
            for node in sorted(self._cluster.fetch_metadata([]).nodes):
                if node in result:
                    continue
                connection = self._cluster.connection(node)
                if states:
                    require_version(connection, ApiKey.LIST_GROUPS, _FIRST_VERSION_WITH_STATES)
                if types:
                    require_version(connection, ApiKey.LIST_GROUPS, _FIRST_VERSION_WITH_TYPES)
                response = connection.request(request, ListGroupsResponse)
                if response.error_code:
                    raise kafka_error(
                        response.error_code, f"broker {node} refused to list its groups"
                    )
                result[node] = response

        self._cluster.retry(attempt)
        found = {
            entry.group_id: GroupListing(
                entry.group_id, entry.group_type.lower(), entry.group_state, entry.protocol_type
            )
            for response in result.values()
            for entry in response.groups
        }
        return [found[group] for group in sorted(found)]

    def describe_groups(
        self, groups: Iterable[str]
    ) -> tuple[dict[str, GroupDescription], ErrorsByName]:
        """Return the groups that exist, in the given order, and the errors of the others."""
        return self._coordinators.send(groups, _describe)

    def delete_groups(self, groups: Iterable[str]) -> ErrorsByName:
        """Delete groups without members, with their offsets; returns the errors by name."""

        def send(connection: Connection, _: Node, group_ids: list[str]) -> GroupResults[None]:
            request = DeleteGroupsRequest(groups_names=group_ids)
            for result in connection.request(request, DeleteGroupsResponse).results:
                if result.error_code:
                    yield result.group_id, group_error(result.group_id, result.error_code, None)
                else:
                    yield result.group_id, None

        return self._coordinators.send(groups, send, repeatable=False)[1]

    def committed_offsets(
        self, groups: Iterable[str]
    ) -> tuple[dict[str, dict[TopicPartition, Committed]], ErrorsByName]:
        return committed_offsets(self._coordinators, groups)

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> PartitionErrors:
        return commit_offsets(self._coordinators, group, offsets)

    def delete_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> PartitionErrors:
        return delete_offsets(self._coordinators, group, partitions)

    def remove_members(
        self, group: str, members: Iterable[MemberToRemove], reason: str
    ) -> dict[MemberToRemove, KafkaError]:
        """Remove members with LeaveGroup; returns the errors by member.

        KafkaError if the whole request failed. Not retried after a lost response, because a member
        that has left cannot leave again.
        """
        wanted = list(dict.fromkeys(members))
        request = LeaveGroupRequest(
            group_id=group,
            members=[MemberIdentity(each.member_id, each.instance_id, reason) for each in wanted],
        )

        def send(
            connection: Connection, _: Node, __: list[str]
        ) -> GroupResults[dict[MemberToRemove, KafkaError]]:
            require_version(connection, ApiKey.LEAVE_GROUP, _FIRST_VERSION_WITH_MEMBERS)
            response = connection.request(request, LeaveGroupResponse)
            if response.error_code:
                yield group, group_error(group, response.error_code, None)
                return
            yield (
                group,
                {
                    member: _removal_error(member, entry.error_code)
                    for member, entry in zip(wanted, response.members, strict=True)
                    if entry.error_code
                },
            )

        found, refused = self._coordinators.send([group], send, repeatable=False)
        if group in refused:
            raise refused[group]
        return found[group]


def _removal_error(member: MemberToRemove, error_code: int) -> KafkaError:
    error = kafka_error(error_code, None)
    text = _REMOVAL_TEXTS.get(error.code)
    return error if text is None else KafkaError(error.code, text.format(member))


def _describe(
    connection: Connection, node: Node, groups: list[str]
) -> GroupResults[GroupDescription]:
    """Describe groups as consumer groups, and those that are not as classic groups."""
    classic = list(groups)
    try:
        request = ConsumerGroupDescribeRequest(group_ids=groups)
        response = connection.request(request, consumer_answer.ConsumerGroupDescribeResponse)
    except UnsupportedRequest:  # an older broker with classic groups only
        pass
    else:
        for entry in response.groups:
            if entry.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
                continue
            classic.remove(entry.group_id)
            yield entry.group_id, _read_consumer_group(entry, node)
    if classic:
        classic_response = connection.request(
            DescribeGroupsRequest(groups=classic), classic_answer.DescribeGroupsResponse
        )
        for described in classic_response.groups:
            yield described.group_id, _read_classic_group(described, node)


def _read_consumer_group(
    entry: consumer_answer.DescribedGroup, node: Node
) -> GroupDescription | KafkaError:
    if entry.error_code:
        return group_error(entry.group_id, entry.error_code, entry.error_message)
    members = [
        GroupMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            _partitions(member.assignment),
            _partitions(member.target_assignment),
            member.member_epoch,
        )
        for member in entry.members
    ]
    return GroupDescription(
        entry.group_id,
        CONSUMER,
        entry.group_state,
        CONSUMER_PROTOCOL,
        entry.assignor_name,
        node,
        sorted(members, key=lambda member: member.id),
        entry.group_epoch,
        entry.assignment_epoch,
    )


def _partitions(assignment: consumer_answer.Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            partition_of(topic.topic_name, index)
            for topic in assignment.topic_partitions
            for index in topic.partitions
        )
    )


def _read_classic_group(
    entry: classic_answer.DescribedGroup, node: Node
) -> GroupDescription | KafkaError:
    """Read a classic group; up to version 5 the state of a missing group is Dead."""
    code = entry.error_code
    if not code and entry.group_state == _DEAD:
        code = ErrorCode.GROUP_ID_NOT_FOUND
    if code:
        return group_error(entry.group_id, code, entry.error_message)
    reads_topics = entry.protocol_type == CONSUMER_PROTOCOL
    members = [
        GroupMember(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            _read_assignment(member.member_assignment) if reads_topics else None,
        )
        for member in entry.members
    ]
    return GroupDescription(
        entry.group_id,
        CLASSIC,
        entry.group_state,
        entry.protocol_type,
        entry.protocol_data,
        node,
        sorted(members, key=lambda member: member.id),
    )


def _read_assignment(data: bytes) -> tuple[TopicPartition, ...] | None:
    """Read an assignment; None if it is malformed, since any client may have written it."""
    if not data:
        return ()
    try:
        assignment = consumer_protocol.read_assignment(data)
    except MalformedFrame:
        return None
    return tuple(
        sorted(
            partition_of(topic.topic, index)
            for topic in assignment.assigned_partitions
            for index in topic.partitions
        )
    )
