"""The committed offsets of groups: reading them, setting them from outside, deleting them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sawlog.client.errors import ErrorsByName, kafka_error
from sawlog.client.net.connection import Connection
from sawlog.client.net.coordinator_requests import (
    Coordinators,
    GroupResults,
    group_error,
    require_version,
)
from sawlog.client.net.leader_requests import group_by_topic, partition_of
from sawlog.client.net.metadata import Node
from sawlog.client.net.retries import Deadline
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicPartition
from sawlog.protocol.apis import ApiKey
from sawlog.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from sawlog.protocol.messages.offset_commit_response import OffsetCommitResponse
from sawlog.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from sawlog.protocol.messages.offset_delete_response import OffsetDeleteResponse
from sawlog.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from sawlog.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)

PartitionErrors = dict[TopicPartition, KafkaError]

LAST_VERSION_WITH_NAMES = 9  # later ones name topics by id, and cannot tell of deleted ones
_FIRST_VERSION_WITH_GROUPS = 8
_NO_OFFSET = -1
_COORDINATOR_ERRORS = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
_TEXTS = {
    ErrorCode.UNKNOWN_MEMBER_ID: "the group has members, and only they may commit; stop them first",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such partition",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "members of the group read the topic; stop them first",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "no permission for the topic",
}


class Identity(NamedTuple):
    """As whom a commit is made: `epoch` is the generation of a classic group."""

    member_id: str
    epoch: int
    instance_id: str | None = None


NOT_A_MEMBER = Identity("", -1)
"""Who is no member: commits are taken as long as the group has none."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The next record that a group wants of a partition."""

    offset: int
    leader_epoch: int  # of the record before; -1 where the member did not tell
    metadata: str


def committed_offsets(
    coordinators: Coordinators,
    groups: Iterable[str],
    *,
    require_stable: bool = False,
    deadline: Deadline | None = None,
) -> tuple[dict[str, dict[TopicPartition, Committed]], ErrorsByName]:
    """All offsets of each group. A group that is not there has none, which is no error.

    `require_stable` waits for transactions that are about to commit some.
    """

    def send(
        connection: Connection, _: Node, asked: list[str]
    ) -> GroupResults[dict[TopicPartition, Committed]]:
        require_version(connection, ApiKey.OFFSET_FETCH, _FIRST_VERSION_WITH_GROUPS)
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=None) for group in asked],
            require_stable=require_stable,
        )
        answer = connection.request(
            request, OffsetFetchResponse, highest_version=LAST_VERSION_WITH_NAMES
        )
        for entry in answer.groups:
            yield entry.group_id, _read_offsets(entry)

    return coordinators.send(groups, send, deadline=deadline)


def _read_offsets(entry: OffsetFetchResponseGroup) -> dict[TopicPartition, Committed] | KafkaError:
    if entry.error_code:
        return group_error(entry.group_id, entry.error_code, None)
    offsets: dict[TopicPartition, Committed] = {}
    for topic in entry.topics:
        for result in topic.partitions:
            partition = partition_of(topic.name, result.partition_index)
            if result.error_code:
                return kafka_error(
                    result.error_code, f"no committed offset of {partition} was told"
                )
            if result.committed_offset != _NO_OFFSET:
                offsets[partition] = Committed(
                    result.committed_offset, result.committed_leader_epoch, result.metadata or ""
                )
    return dict(sorted(offsets.items()))


def commit_offsets(
    coordinators: Coordinators,
    group: str,
    offsets: Mapping[TopicPartition, int],
    *,
    identity: Identity = NOT_A_MEMBER,
    deadline: Deadline | None = None,
) -> PartitionErrors:
    """Sets offsets of a group, for one of its members or where it has none; what was refused, by
    partition.

    KafkaError where the whole was refused. Setting twice is setting once, so it is tried until
    the time is up.
    """
    request = commit_request(group, offsets, identity)

    def send(connection: Connection, _: Node, __: list[str]) -> GroupResults[PartitionErrors]:
        answer = connection.request(
            request, OffsetCommitResponse, highest_version=LAST_VERSION_WITH_NAMES
        )
        yield group, commit_refusals(group, answer)

    return _of_one(group, coordinators.send([group], send, deadline=deadline))


def commit_request(
    group: str, offsets: Mapping[TopicPartition, int], identity: Identity
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=identity.epoch,
        member_id=identity.member_id,
        group_instance_id=identity.instance_id,
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offsets[partition_of(name, index)]
                    )
                    for index in indexes
                ],
            )
            for name, indexes in group_by_topic(offsets).items()
        ],
    )


def commit_refusals(group: str, answer: OffsetCommitResponse) -> PartitionErrors | KafkaError:
    """By partition; or the one that is the coordinator's."""
    return _by_partition(group, _read_results(answer))


def delete_offsets(
    coordinators: Coordinators, group: str, partitions: Iterable[TopicPartition]
) -> PartitionErrors:
    """Forgets offsets of a group; what was refused, by partition.

    A partition without one is no error. KafkaError where the whole was refused.
    """
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=name,
                partitions=[
                    OffsetDeleteRequestPartition(partition_index=index) for index in indexes
                ],
            )
            for name, indexes in group_by_topic(partitions).items()
        ],
    )

    def send(connection: Connection, _: Node, __: list[str]) -> GroupResults[PartitionErrors]:
        answer = connection.request(request, OffsetDeleteResponse)
        if answer.error_code:
            yield group, group_error(group, answer.error_code, None)
        else:
            yield group, _by_partition(group, _read_results(answer))

    return _of_one(group, coordinators.send([group], send))


def _read_results(
    answer: OffsetCommitResponse | OffsetDeleteResponse,
) -> Iterator[tuple[TopicPartition, int]]:
    for topic in answer.topics:
        for entry in topic.partitions:
            yield partition_of(topic.name, entry.partition_index), entry.error_code


def _by_partition(
    group: str, results: Iterable[tuple[TopicPartition, int]]
) -> PartitionErrors | KafkaError:
    """A coordinator that cannot answer says so of every partition."""
    refused: PartitionErrors = {}
    for partition, error_code in results:
        if error_code:
            error = kafka_error(error_code, None)
            if error.code in _COORDINATOR_ERRORS:
                return group_error(group, error_code, None)
            refused[partition] = KafkaError(error.code, error.message or _TEXTS.get(error.code, ""))
    return refused


def _of_one(group: str, answer: tuple[dict[str, PartitionErrors], ErrorsByName]) -> PartitionErrors:
    found, refused = answer
    if group in refused:
        raise refused[group]
    return found[group]
