"""Committed offsets of groups: fetch, commit and delete them."""

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
    OffsetFetchRequestTopics,
)
from sawlog.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)

PartitionErrors = dict[TopicPartition, KafkaError]

LAST_VERSION_WITH_NAMES = 9  # later ones use topic ids, and cannot name deleted topics
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
    """The member that commits; `epoch` is the generation in a classic group."""

    member_id: str
    epoch: int
    instance_id: str | None = None


NOT_A_MEMBER = Identity("", -1)
"""For commits from outside, which a group accepts while it has no members."""


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A group and the member that commits for it: the commit of a former member is refused."""

    group: str
    identity: Identity = NOT_A_MEMBER


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed offset: that of the next record to read."""

    offset: int
    leader_epoch: int  # of the record before it; -1 if the member did not send it
    metadata: str


def committed_offsets(
    coordinators: Coordinators,
    groups: Iterable[str],
    *,
    partitions: Iterable[TopicPartition] | None = None,
    require_stable: bool = False,
    deadline: Deadline | None = None,
) -> tuple[dict[str, dict[TopicPartition, Committed]], ErrorsByName]:
    """Return the committed offsets of each group; none for a group that does not exist.

    They are those of `partitions`, or all. `require_stable` waits for pending transactional
    commits; if all offsets are requested, brokers leave out a partition whose only commit is
    pending.
    """
    topics = None if partitions is None else _topics_of(partitions)

    def send(
        connection: Connection, _: Node, group_ids: list[str]
    ) -> GroupResults[dict[TopicPartition, Committed]]:
        require_version(connection, ApiKey.OFFSET_FETCH, _FIRST_VERSION_WITH_GROUPS)
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=topics) for group in group_ids],
            require_stable=require_stable,
        )
        response = connection.request(
            request, OffsetFetchResponse, highest_version=LAST_VERSION_WITH_NAMES
        )
        for entry in response.groups:
            yield entry.group_id, _read_offsets(entry)

    return coordinators.send(groups, send, deadline=deadline)


def _topics_of(partitions: Iterable[TopicPartition]) -> list[OffsetFetchRequestTopics]:
    return [
        OffsetFetchRequestTopics(name=name, partition_indexes=list(indexes))
        for name, indexes in group_by_topic(partitions).items()
    ]


def _read_offsets(entry: OffsetFetchResponseGroup) -> dict[TopicPartition, Committed] | KafkaError:
    if entry.error_code:
        return group_error(entry.group_id, entry.error_code, None)
    offsets: dict[TopicPartition, Committed] = {}
    for topic in entry.topics:
        for result in topic.partitions:
            partition = partition_of(topic.name, result.partition_index)
            if result.error_code:
                return kafka_error(
                    result.error_code, f"the committed offset of {partition} was not returned"
                )
            if result.committed_offset != _NO_OFFSET:
                offsets[partition] = Committed(
                    result.committed_offset, result.committed_leader_epoch, result.metadata or ""
                )
    return dict(sorted(offsets.items()))


def commit_offsets(
    coordinators: Coordinators,
    group: str,
    offsets: Mapping[TopicPartition, int | Committed],
    *,
    identity: Identity = NOT_A_MEMBER,
    deadline: Deadline | None = None,
) -> PartitionErrors:
    """Commit offsets as a member, or from outside if the group has no members.

    Returns the errors by partition; KafkaError if the whole request failed. Idempotent, so it is
    retried until the deadline.
    """
    request = commit_request(group, offsets, identity)

    def send(connection: Connection, _: Node, __: list[str]) -> GroupResults[PartitionErrors]:
        response = connection.request(
            request, OffsetCommitResponse, highest_version=LAST_VERSION_WITH_NAMES
        )
        yield group, commit_errors(group, response)

    return _single_group(group, coordinators.send([group], send, deadline=deadline))


def commit_request(
    group: str, offsets: Mapping[TopicPartition, int | Committed], identity: Identity
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
                    _offset_to_commit(index, offsets[partition_of(name, index)])
                    for index in indexes
                ],
            )
            for name, indexes in group_by_topic(offsets).items()
        ],
    )


def _offset_to_commit(index: int, offset: int | Committed) -> OffsetCommitRequestPartition:
    if isinstance(offset, int):
        return OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
    return OffsetCommitRequestPartition(
        partition_index=index,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


def commit_errors(group: str, response: OffsetCommitResponse) -> PartitionErrors | KafkaError:
    """Return the errors by partition, or the error of the coordinator."""
    return _by_partition(group, _read_results(response))


def delete_offsets(
    coordinators: Coordinators, group: str, partitions: Iterable[TopicPartition]
) -> PartitionErrors:
    """Delete committed offsets; returns the errors by partition.

    A partition without an offset is no error. KafkaError if the whole request failed.
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
        response = connection.request(request, OffsetDeleteResponse)
        if response.error_code:
            yield group, group_error(group, response.error_code, None)
        else:
            yield group, _by_partition(group, _read_results(response))

    return _single_group(group, coordinators.send([group], send))


def _read_results(
    response: OffsetCommitResponse | OffsetDeleteResponse,
) -> Iterator[tuple[TopicPartition, int]]:
    for topic in response.topics:
        for entry in topic.partitions:
            yield partition_of(topic.name, entry.partition_index), entry.error_code


def _by_partition(
    group: str, results: Iterable[tuple[TopicPartition, int]]
) -> PartitionErrors | KafkaError:
    """Collect errors; an unavailable coordinator reports its error for every partition."""
    refused: PartitionErrors = {}
    for partition, error_code in results:
        if error_code:
            error = kafka_error(error_code, None)
            if error.code in _COORDINATOR_ERRORS:
                return group_error(group, error_code, None)
            refused[partition] = KafkaError(error.code, error.message or _TEXTS.get(error.code, ""))
    return refused


def _single_group(
    group: str, results: tuple[dict[str, PartitionErrors], ErrorsByName]
) -> PartitionErrors:
    found, errors = results
    if group in errors:
        raise errors[group]
    return found[group]
