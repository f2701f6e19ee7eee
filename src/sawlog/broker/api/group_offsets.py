"""OffsetCommit 2 to 10, OffsetFetch 1 to 10, OffsetDelete 0: the committed offsets of groups.

Topics have names up to version 9 and ids from version 10 (KIP-516). OffsetFetch takes several
groups from version 8 (KIP-709) and checks members of consumer groups from version 9 (KIP-848). The
handlers check which topics exist; everything else is decided by the group.
"""

from functools import partial
from typing import TYPE_CHECKING, Protocol

from sawlog.broker.gather_replies import gather
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicName
from sawlog.groups.offsets.offset_requests import NO_OFFSET, deletion_response
from sawlog.protocol.messages.offset_commit_request import OffsetCommitRequestTopic
from sawlog.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from sawlog.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
)
from sawlog.protocol.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponseTopic,
)
from sawlog.protocol.messages.offset_fetch_request import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from sawlog.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from sawlog.broker.gather_replies import Reply
    from sawlog.broker.group_coordinator import GroupCoordinator
    from sawlog.broker.metadata_cache import MetadataCache
    from sawlog.broker.request import Request
    from sawlog.core.ports import Timer
    from sawlog.protocol.messages.offset_commit_request import OffsetCommitRequest
    from sawlog.protocol.messages.offset_fetch_request import OffsetFetchRequest

    class GroupOffsetsContext(Protocol):
        metadata: MetadataCache
        groups: GroupCoordinator
        timer: Timer


FIRST_VERSION_WITH_TOPIC_IDS = 10
FIRST_FETCH_VERSION_WITH_GROUPS = 8
FIRST_FETCH_VERSION_WITH_TOP_LEVEL_ERROR = 2

_UNKNOWN_PARTITION = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_UNKNOWN_ID = int(ErrorCode.UNKNOWN_TOPIC_ID)


# OffsetCommit


def offset_commit(
    context: "GroupOffsetsContext", request: "Request", message: "OffsetCommitRequest"
) -> OffsetCommitResponse | None:
    """Commit the offsets of existing partitions; the others get an error. A request with no
    existing partition does not reach its group, as in Kafka."""
    refused: list[OffsetCommitResponseTopic] = []
    by_id = request.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
    message.topics = existing_topics(context.metadata, message.topics, refused, by_id=by_id)
    if not message.topics:
        return OffsetCommitResponse(0, refused)

    def reply(response: OffsetCommitResponse) -> None:
        response.topics = merged_topics(refused, response.topics)
        request.reply(response)

    def refuse(error: KafkaError) -> None:
        code = int(error.code)
        reply(OffsetCommitResponse(0, [uncommitted_topic(topic, code) for topic in message.topics]))

    context.groups.ask(
        message.group_id,
        lambda groups: groups.offset_requests.commit(message, request.api_version),
        reply if refused else request.reply,
        refuse,
    )
    return None


def existing_topics(
    metadata: "MetadataCache",
    topics: list[OffsetCommitRequestTopic],
    refused: list[OffsetCommitResponseTopic],
    *,
    by_id: bool,
) -> list[OffsetCommitRequestTopic]:
    """Return the topics and partitions that exist, with name and id; append a response for each
    other one to `refused`."""
    image = metadata.image
    existing = []
    for topic in topics:
        if by_id:
            found = image.topic_by_id(topic.topic_id)
            missing = _UNKNOWN_ID
        else:
            found = image.topics.get(TopicName(topic.name))
            missing = _UNKNOWN_PARTITION
        if found is None:
            refused.append(uncommitted_topic(topic, missing))
            continue
        topic.name, topic.topic_id = found.name, found.id
        count = len(found.partitions)
        for partition in topic.partitions:
            if not 0 <= partition.partition_index < count:
                topic = _without_unknown(topic, count, refused)  # noqa: PLW2901
                break
        if topic.partitions:
            existing.append(topic)
    return existing


def _without_unknown(
    topic: OffsetCommitRequestTopic, count: int, refused: list[OffsetCommitResponseTopic]
) -> OffsetCommitRequestTopic:
    existing = OffsetCommitRequestTopic(topic.name, topic.topic_id)
    unknown = OffsetCommitRequestTopic(topic.name, topic.topic_id)
    for partition in topic.partitions:
        exists = 0 <= partition.partition_index < count
        (existing if exists else unknown).partitions.append(partition)
    refused.append(uncommitted_topic(unknown, _UNKNOWN_PARTITION))
    return existing


def uncommitted_topic(topic: OffsetCommitRequestTopic, code: int) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        topic.name,
        topic.topic_id,
        [OffsetCommitResponsePartition(p.partition_index, code) for p in topic.partitions],
    )


def merged_topics(
    first: list[OffsetCommitResponseTopic], then: list[OffsetCommitResponseTopic]
) -> list[OffsetCommitResponseTopic]:
    """Return one response for each topic, with the partitions of both lists."""
    if not first:
        return then
    by_topic: dict[tuple[str, bytes], OffsetCommitResponseTopic] = {}
    for topic in (*first, *then):
        merged = by_topic.setdefault((topic.name, topic.topic_id), topic)
        if merged is not topic:
            merged.partitions += topic.partitions
    return list(by_topic.values())


# OffsetFetch


def offset_fetch(
    context: "GroupOffsetsContext", request: "Request", message: "OffsetFetchRequest"
) -> OffsetFetchResponse | None:
    """Return only committed offsets. With `require_stable` (version 7, KIP-447) a partition with a
    pending offset of a transaction gets an error, and the client retries."""
    version = request.api_version
    stable = message.require_stable
    if version >= FIRST_FETCH_VERSION_WITH_GROUPS:
        gather(
            [partial(_fetch_group, context, version, stable, group) for group in message.groups],
            lambda groups: request.reply(OffsetFetchResponse(groups=groups)),
            context.timer,
        )
        return None
    group = OffsetFetchRequestGroup(message.group_id, topics=None)
    if message.topics is not None:
        group.topics = [
            OffsetFetchRequestTopics(topic.name, partition_indexes=topic.partition_indexes)
            for topic in message.topics
        ]
    _fetch_group(context, version, stable, group, lambda fetched: request.reply(_single(fetched)))
    return None


def _single(group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    """Return the response for one group, as versions before 8 have it."""
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                topic.name,
                [
                    OffsetFetchResponsePartition(
                        partition.partition_index,
                        partition.committed_offset,
                        partition.committed_leader_epoch,
                        partition.metadata,
                        partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
        error_code=group.error_code,
    )


def _fetch_group(
    context: "GroupOffsetsContext",
    version: int,
    require_stable: bool,
    group: OffsetFetchRequestGroup,
    reply: "Reply[OffsetFetchResponseGroup]",
) -> None:
    by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
    requested = group.topics
    unknown: list[OffsetFetchRequestTopics] = []
    if by_id and requested is not None:
        for topic in requested:
            topic.name = context.metadata.topic_name(topic.topic_id) or ""
        unknown = [topic for topic in requested if not topic.name]
        group.topics = [topic for topic in requested if topic.name]

    def add_unknown(found: OffsetFetchResponseGroup) -> None:
        if by_id and requested is None:  # the response cannot name a topic without an id
            found.topics = [topic for topic in found.topics if any(topic.topic_id)]
        found.topics += [_unfetched(topic, _UNKNOWN_ID) for topic in unknown]
        reply(found)

    def refuse(error: KafkaError) -> None:
        code = int(error.code)
        if error.code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
            code = int(ErrorCode.NOT_COORDINATOR)  # the only one that old consumers retry
        refused = OffsetFetchResponseGroup(group.group_id)
        if version >= FIRST_FETCH_VERSION_WITH_TOP_LEVEL_ERROR:
            refused.error_code = code
        else:
            refused.topics = [_unfetched(topic, code) for topic in requested or ()]
        reply(refused)

    context.groups.ask(
        group.group_id,
        lambda groups: groups.offset_requests.fetch(group, require_stable=require_stable),
        add_unknown,
        refuse,
    )


def _unfetched(topic: OffsetFetchRequestTopics, code: int) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        topic.name,
        topic.topic_id,
        [
            OffsetFetchResponsePartitions(index, NO_OFFSET, error_code=code)
            for index in topic.partition_indexes
        ],
    )


# OffsetDelete


def offset_delete(
    context: "GroupOffsetsContext", request: "Request", message: OffsetDeleteRequest
) -> OffsetDeleteResponse | None:
    """Unlike a commit it always reaches the group, whose error precedes those of topics."""
    if not message.group_id:
        return OffsetDeleteResponse(int(ErrorCode.INVALID_GROUP_ID))
    refused: list[OffsetDeleteResponseTopic] = []
    existing = []
    for topic in message.topics:
        found = context.metadata.image.topics.get(TopicName(topic.name))
        count = 0 if found is None else len(found.partitions)
        known = OffsetDeleteRequestTopic(topic.name)
        missing = OffsetDeleteRequestTopic(topic.name)
        for partition in topic.partitions:
            exists = 0 <= partition.partition_index < count
            (known if exists else missing).partitions.append(partition)
        if known.partitions:
            existing.append(known)
        if missing.partitions or found is None:
            refused.append(deletion_response(missing, _UNKNOWN_PARTITION))

    def reply(response: OffsetDeleteResponse) -> None:
        by_name = {topic.name: topic for topic in refused}
        for topic in response.topics:
            if topic.name in by_name:
                by_name[topic.name].partitions += topic.partitions
            else:
                by_name[topic.name] = topic
        response.topics = list(by_name.values())
        request.reply(response)

    def refuse(error: KafkaError) -> None:
        request.reply(OffsetDeleteResponse(int(error.code)))

    deletion = OffsetDeleteRequest(message.group_id, existing)
    context.groups.ask(
        message.group_id, lambda groups: groups.offset_requests.delete(deletion), reply, refuse
    )
    return None
