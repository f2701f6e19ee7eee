"""OffsetCommit, OffsetFetch and OffsetDelete, as far as they are one group's own business.

Which topics and partitions exist the handlers have checked before. A commit for a group that nobody
has heard of makes one, if it does not claim to come from a member: a consumer that assigns itself
its partitions, or an admin, uses the group for its offsets alone.
"""

from functools import partial
from typing import TYPE_CHECKING

from sawlog.coordinator.coordinator_records import Entry
from sawlog.coordinator.plan import Plan
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicName
from sawlog.groups.classic.classic_group import ClassicGroup
from sawlog.groups.offsets.committed_offset import NO_TIME, Committed
from sawlog.groups.offsets.offset_table import tombstone
from sawlog.protocol.messages.offset_commit_key import OffsetCommitKey
from sawlog.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from sawlog.protocol.messages.offset_commit_value import OffsetCommitValue
from sawlog.protocol.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from sawlog.protocol.messages.offset_fetch_response import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from sawlog.protocol.schema import NO_UUID

if TYPE_CHECKING:
    from sawlog.groups.classic.rebalance import Rebalancing
    from sawlog.groups.context import GroupContext
    from sawlog.groups.group import Group, PartitionCheck
    from sawlog.groups.offsets.offset_table import Offsets
    from sawlog.protocol.messages.offset_commit_request import OffsetCommitRequest
    from sawlog.protocol.messages.offset_delete_request import (
        OffsetDeleteRequest,
        OffsetDeleteRequestTopic,
    )
    from sawlog.protocol.messages.offset_fetch_request import OffsetFetchRequestGroup

FIRST_COMMIT_VERSION_WITH_EPOCHS = 9
VALUE_VERSION = 4
VALUE_VERSION_WITH_EXPIRY = 1
"""The only one that holds a time of expiry; it has neither leader epoch nor topic id."""

FOR_EVER = 2**63 - 1
NO_OFFSET = -1
_TOO_LARGE = int(ErrorCode.OFFSET_METADATA_TOO_LARGE)
_SUBSCRIBED = int(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)


class OffsetRequests:
    """Each operation is about one group of this shard."""

    def __init__(
        self,
        context: "GroupContext",
        groups: "dict[str, Group]",
        offsets: "Offsets",
        rebalancing: "Rebalancing",
    ) -> None:
        self._context = context
        self._groups = groups
        self._offsets = offsets
        self._rebalancing = rebalancing
        self._max_metadata: int = context.config["offset.metadata.max.bytes"]

    # OffsetCommit

    def commit(self, message: "OffsetCommitRequest", api_version: int) -> Plan:
        """All partitions are known by name and topic id. Refused as a whole, or one by one where
        the metadata of a partition is too long."""
        group_id = message.group_id
        check = self._check_committer(message, api_version)
        now_ms = self._context.clock.now_ms()
        expire_ms, version = NO_TIME, VALUE_VERSION
        if message.retention_time_ms != NO_TIME:
            expire_ms = min(now_ms + message.retention_time_ms, FOR_EVER)
            version = VALUE_VERSION_WITH_EXPIRY
        limit = self._max_metadata
        entries: list[Entry] = []
        taken: list[tuple[str, int, Committed]] = []
        answers = []
        for topic in message.topics:
            name = topic.name
            topic_id = topic.topic_id if version == VALUE_VERSION else NO_UUID
            results = []
            for partition in topic.partitions:
                index = partition.partition_index
                text = partition.committed_metadata or ""
                if len(text) * 2 > limit and _length(text) > limit:
                    results.append(OffsetCommitResponsePartition(index, _TOO_LARGE))
                    continue
                if check is not None:
                    check(topic.topic_id, index)
                results.append(OffsetCommitResponsePartition(index))
                committed = Committed(
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    text,
                    now_ms,
                    expire_ms,
                    topic_id,
                )
                taken.append((name, index, committed))
                entries.append(
                    Entry(
                        OffsetCommitKey(group_id, name, index),
                        OffsetCommitValue(*committed),
                        version,
                    )
                )
            answers.append(OffsetCommitResponseTopic(name, topic.topic_id, results))
        return Plan(OffsetCommitResponse(0, answers), entries, partial(self._take, group_id, taken))

    def _check_committer(
        self, message: "OffsetCommitRequest", api_version: int
    ) -> "PartitionCheck | None":
        epoch = message.generation_id_or_member_epoch
        group = self._groups.get(message.group_id)
        if group is not None:
            member_id = message.member_id
            check = group.check_commit(member_id, message.group_instance_id, epoch, api_version)
            if isinstance(group, ClassicGroup) and (member := group.members.get(member_id)):
                self._rebalancing.heard_of(group, member)
            return check
        if epoch < 0:
            return None
        if api_version >= FIRST_COMMIT_VERSION_WITH_EPOCHS:
            raise _not_found(message.group_id)
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)

    def _take(self, group_id: str, taken: list[tuple[str, int, Committed]]) -> None:
        for topic, index, committed in taken:
            self._offsets.made(group_id, topic)[index] = committed
        if taken and group_id not in self._groups:
            self._make_simple(group_id)

    def activate(self) -> None:
        """Groups of which the log holds nothing but offsets."""
        self._offsets.loaded()
        groups = self._groups
        for group_id in self._offsets.by_group:
            if group_id not in groups:
                self._make_simple(group_id)

    def _make_simple(self, group_id: str) -> None:
        """A group that has offsets and never had members."""
        self._groups[group_id] = ClassicGroup(group_id)

    # OffsetFetch

    def fetch(self, asked: "OffsetFetchRequestGroup") -> Plan:
        """Without topics: all that the group has. What it has not is told as -1, without an error.

        An offset of a topic that has been deleted and made anew is not given out. Kafka relies for
        this on the topic id in the request (version 10); here an older request is taken to mean the
        topic that has the name now.
        """
        group = self._groups.get(asked.group_id)
        is_known = group is not None
        if group is not None:
            try:
                group.check_fetch(asked.member_id, asked.member_epoch)
            except KafkaError as error:
                if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                    raise
                is_known = False
        if asked.topics is None:
            topics = self._all(asked.group_id) if is_known else []
        else:
            topics = [
                self._some(
                    asked.group_id if is_known else None,
                    topic.name,
                    topic.topic_id,
                    topic.partition_indexes,
                )
                for topic in asked.topics
            ]
        return Plan(OffsetFetchResponseGroup(asked.group_id, topics))

    def _some(
        self, group_id: str | None, name: str, topic_id: bytes, indexes: list[int]
    ) -> OffsetFetchResponseTopics:
        found = {} if group_id is None else self._offsets.partitions(group_id, name)
        expected = self._id_now(name) if topic_id == NO_UUID else topic_id
        answers = []
        for index in indexes:
            committed = found.get(index)
            if committed is None or _is_of_another_topic(committed, expected):
                answers.append(OffsetFetchResponsePartitions(index, NO_OFFSET))
            else:
                answers.append(_told(index, committed))
        return OffsetFetchResponseTopics(name, topic_id, answers)

    def _all(self, group_id: str) -> list[OffsetFetchResponseTopics]:
        topics = []
        for name, partitions in self._offsets.by_group.get(group_id, {}).items():
            expected = self._id_now(name)
            answers = [
                _told(index, committed)
                for index, committed in partitions.items()
                if not _is_of_another_topic(committed, expected)
            ]
            if answers:
                topics.append(OffsetFetchResponseTopics(name, expected, answers))
        return topics

    def _id_now(self, name: str) -> bytes:
        topic = self._context.image.topics.get(TopicName(name))
        return NO_UUID if topic is None else topic.id

    # OffsetDelete

    def delete(self, message: "OffsetDeleteRequest") -> Plan:
        group_id = message.group_id
        group = self._groups.get(group_id)
        if group is None:
            raise _not_found(group_id)
        group.check_offset_delete()
        answers = []
        entries: list[Entry] = []
        for topic in message.topics:
            if group.is_subscribed_to(topic.name):
                answers.append(deletion_answer(topic, _SUBSCRIBED))
                continue
            answers.append(deletion_answer(topic, 0))
            found = self._offsets.partitions(group_id, topic.name)
            entries += [
                tombstone(group_id, topic.name, partition.partition_index)
                for partition in topic.partitions
                if partition.partition_index in found
            ]
        return Plan(OffsetDeleteResponse(topics=answers), entries)


def deletion_answer(topic: "OffsetDeleteRequestTopic", code: int) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(
        topic.name,
        [OffsetDeleteResponsePartition(p.partition_index, code) for p in topic.partitions],
    )


def _length(text: str) -> int:
    """As Java counts: in units of UTF-16."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _is_of_another_topic(committed: Committed, expected: bytes) -> bool:
    stored = committed.topic_id
    return stored != expected and stored != NO_UUID and expected != NO_UUID


def _told(index: int, committed: Committed) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        index, committed.offset, committed.leader_epoch, committed.metadata
    )


def _not_found(group_id: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
