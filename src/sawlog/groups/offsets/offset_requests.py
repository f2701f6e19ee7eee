"""OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete for one group.

The handlers have checked that the topics and partitions exist. A commit to an unknown group creates
it, unless it claims to come from a member: a consumer without group management, or an admin client,
uses the group for its offsets only.
"""

from functools import partial
from typing import TYPE_CHECKING

from sawlog.coordinator.coordinator_records import Entry
from sawlog.coordinator.plan import Plan
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicName
from sawlog.groups.classic.classic_group import ClassicGroup
from sawlog.groups.offsets.committed_offset import NO_TIME, CommittedOffset
from sawlog.groups.offsets.offset_table import GroupPartition, NewOffset, tombstone
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
    from sawlog.coordinator.plan import ProducerIdentity
    from sawlog.core.ids import ProducerId
    from sawlog.groups.classic.rebalance import Rebalancer
    from sawlog.groups.context import GroupContext
    from sawlog.groups.group import Group, PartitionCheck
    from sawlog.groups.offsets.offset_table import OffsetTable
    from sawlog.protocol.messages.offset_commit_request import OffsetCommitRequest
    from sawlog.protocol.messages.offset_delete_request import (
        OffsetDeleteRequest,
        OffsetDeleteRequestTopic,
    )
    from sawlog.protocol.messages.offset_fetch_request import OffsetFetchRequestGroup

FIRST_COMMIT_VERSION_WITH_EPOCHS = 9
VALUE_VERSION = 4
VALUE_VERSION_WITH_EXPIRY = 1
"""The only version with an expiry time; it has neither leader epoch nor topic id."""

FOR_EVER = 2**63 - 1
NO_OFFSET = -1
_TOO_LARGE = int(ErrorCode.OFFSET_METADATA_TOO_LARGE)
_SUBSCRIBED = int(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
_UNSTABLE = int(ErrorCode.UNSTABLE_OFFSET_COMMIT)


class OffsetRequests:
    def __init__(
        self,
        context: "GroupContext",
        groups: "dict[str, Group]",
        offsets: "OffsetTable",
        rebalancer: "Rebalancer",
    ) -> None:
        self._context = context
        self._groups = groups
        self._offsets = offsets
        self._rebalancer = rebalancer
        self._max_metadata_length: int = context.config["offset.metadata.max.bytes"]

    # OffsetCommit

    def commit(
        self, message: "OffsetCommitRequest", api_version: int
    ) -> Plan[OffsetCommitResponse]:
        """Commit offsets of partitions that have names and topic ids. Partitions with too long
        metadata are refused one by one; all other errors refuse the whole commit."""
        check = self._check_committer(message, api_version)
        response, entries, offsets = self._new_offsets(message, check)
        apply = partial(self._offsets_committed, message.group_id, offsets)
        return Plan(response, entries, apply)

    def commit_in_transaction(
        self, message: "OffsetCommitRequest", producer: "ProducerIdentity"
    ) -> Plan[OffsetCommitResponse]:
        """Commit offsets as part of a producer's transaction: they are pending until its marker."""
        check = self._check_transactional_committer(message)
        response, entries, offsets = self._new_offsets(message, check)
        producer_id = producer.producer_id
        apply = partial(self._offsets_pending, producer_id, message.group_id, offsets)
        return Plan(response, entries, apply, producer=producer)

    def _new_offsets(
        self, message: "OffsetCommitRequest", check: "PartitionCheck | None"
    ) -> tuple[OffsetCommitResponse, list[Entry], list[NewOffset]]:
        group_id = message.group_id
        now_ms = self._context.clock.now_ms()
        expire_ms, version = NO_TIME, VALUE_VERSION
        if message.retention_time_ms != NO_TIME:
            expire_ms = min(now_ms + message.retention_time_ms, FOR_EVER)
            version = VALUE_VERSION_WITH_EXPIRY
        limit = self._max_metadata_length
        entries: list[Entry] = []
        offsets: list[NewOffset] = []
        responses = []
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
                committed = CommittedOffset(
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    text,
                    now_ms,
                    expire_ms,
                    topic_id,
                )
                offsets.append((name, index, committed))
                entries.append(
                    Entry(
                        OffsetCommitKey(group_id, name, index),
                        OffsetCommitValue(*committed),
                        version,
                    )
                )
            responses.append(OffsetCommitResponseTopic(name, topic.topic_id, results))
        return OffsetCommitResponse(0, responses), entries, offsets

    def _check_committer(
        self, message: "OffsetCommitRequest", api_version: int
    ) -> "PartitionCheck | None":
        epoch = message.generation_id_or_member_epoch
        group = self._groups.get(message.group_id)
        if group is not None:
            member_id = message.member_id
            check = group.check_commit(member_id, message.group_instance_id, epoch, api_version)
            if isinstance(group, ClassicGroup) and (member := group.members.get(member_id)):
                self._rebalancer.renew_session_now(group, member)
            return check
        if epoch < 0:
            return None
        if api_version >= FIRST_COMMIT_VERSION_WITH_EPOCHS:
            raise _not_found(message.group_id)
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)

    def _check_transactional_committer(
        self, message: "OffsetCommitRequest"
    ) -> "PartitionCheck | None":
        """Producers do not know member epochs, so a stale one is an illegal generation."""
        epoch = message.generation_id_or_member_epoch
        group = self._groups.get(message.group_id)
        if group is None:
            if epoch >= 0:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
            return None
        try:
            check = group.check_commit(
                message.member_id,
                message.group_instance_id,
                epoch,
                FIRST_COMMIT_VERSION_WITH_EPOCHS,
                is_transactional=True,
            )
        except KafkaError as error:
            raise _as_generation_error(error) from error
        if check is None:
            return None

        def check_partition(topic_id: bytes, partition: int) -> None:
            try:
                check(topic_id, partition)
            except KafkaError as error:
                raise _as_generation_error(error) from error

        return check_partition

    def _offsets_committed(self, group_id: str, offsets: list[NewOffset]) -> None:
        self._offsets.put_all(group_id, offsets)
        if offsets and group_id not in self._groups:
            self._add_simple_group(group_id)

    def _offsets_pending(
        self, producer_id: "ProducerId", group_id: str, offsets: list[NewOffset]
    ) -> None:
        self._offsets.put_pending(producer_id, group_id, offsets)
        if offsets and group_id not in self._groups:
            self._add_simple_group(group_id)

    def activate(self) -> None:
        """Add the groups that have offsets, committed or pending, and no other records."""
        self._offsets.loaded()
        pending = (place.group_id for place in self._offsets.pending.keys)
        for group_id in (*self._offsets.by_group, *pending):
            if group_id not in self._groups:
                self._add_simple_group(group_id)

    def _add_simple_group(self, group_id: str) -> None:
        """Add a group that never had members."""
        self._groups[group_id] = ClassicGroup(group_id)

    # OffsetFetch

    def fetch(
        self, request: "OffsetFetchRequestGroup", *, require_stable: bool = False
    ) -> Plan[OffsetFetchResponseGroup]:
        """Return the offsets of the requested partitions, -1 if there is none; of all partitions if
        the request names no topics. With `require_stable` a partition gets UNSTABLE_OFFSET_COMMIT
        while a transaction has a pending offset for it (KIP-447).

        The offset of a deleted topic is not returned for a new topic with the same name. Kafka
        relies on the topic id in the request (version 10) for this; here an older request means the
        topic that has the name now.
        """
        group = self._groups.get(request.group_id)
        is_known = group is not None
        if group is not None:
            try:
                group.check_fetch(request.member_id, request.member_epoch)
            except KafkaError as error:
                if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                    raise
                is_known = False
        if request.topics is None:
            topics = self._fetch_all(request.group_id, require_stable) if is_known else []
        else:
            topics = [
                self._fetch_some(
                    request.group_id if is_known else None,
                    topic.name,
                    topic.topic_id,
                    topic.partition_indexes,
                    require_stable,
                )
                for topic in request.topics
            ]
        return Plan(OffsetFetchResponseGroup(request.group_id, topics))

    def _fetch_some(
        self,
        group_id: str | None,
        name: str,
        topic_id: bytes,
        indexes: list[int],
        require_stable: bool,
    ) -> OffsetFetchResponseTopics:
        found = {} if group_id is None else self._offsets.partitions(group_id, name)
        expected = self._topic_id(name) if topic_id == NO_UUID else topic_id
        responses = []
        for index in indexes:
            committed = found.get(index)
            if require_stable and group_id is not None and self._is_pending(group_id, name, index):
                responses.append(_unstable(index))
            elif committed is None or _is_of_another_topic(committed, expected):
                responses.append(OffsetFetchResponsePartitions(index, NO_OFFSET))
            else:
                responses.append(_partition_response(index, committed))
        return OffsetFetchResponseTopics(name, topic_id, responses)

    def _fetch_all(self, group_id: str, require_stable: bool) -> list[OffsetFetchResponseTopics]:
        topics = []
        for name, partitions in self._offsets.by_group.get(group_id, {}).items():
            expected = self._topic_id(name)
            responses = [
                _unstable(index)
                if require_stable and self._is_pending(group_id, name, index)
                else _partition_response(index, committed)
                for index, committed in partitions.items()
                if not _is_of_another_topic(committed, expected)
            ]
            if responses:
                topics.append(OffsetFetchResponseTopics(name, expected, responses))
        return topics

    def _is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        pending = self._offsets.pending
        return bool(pending) and GroupPartition(group_id, topic, partition) in pending

    def _topic_id(self, name: str) -> bytes:
        topic = self._context.image.topics.get(TopicName(name))
        return NO_UUID if topic is None else topic.id

    # OffsetDelete

    def delete(self, message: "OffsetDeleteRequest") -> Plan[OffsetDeleteResponse]:
        group_id = message.group_id
        group = self._groups.get(group_id)
        if group is None:
            raise _not_found(group_id)
        group.check_offset_delete()
        responses = []
        entries: list[Entry] = []
        for topic in message.topics:
            if group.is_subscribed_to(topic.name):
                responses.append(deletion_response(topic, _SUBSCRIBED))
                continue
            responses.append(deletion_response(topic, 0))
            found = self._offsets.partitions(group_id, topic.name)
            entries += [
                tombstone(group_id, topic.name, partition.partition_index)
                for partition in topic.partitions
                if partition.partition_index in found
                or self._is_pending(group_id, topic.name, partition.partition_index)
            ]
        return Plan(OffsetDeleteResponse(topics=responses), entries)


def deletion_response(topic: "OffsetDeleteRequestTopic", code: int) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(
        topic.name,
        [OffsetDeleteResponsePartition(p.partition_index, code) for p in topic.partitions],
    )


def _length(text: str) -> int:
    """The length in UTF-16 code units, as in Java."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _is_of_another_topic(committed: CommittedOffset, expected: bytes) -> bool:
    stored = committed.topic_id
    return stored != expected and stored != NO_UUID and expected != NO_UUID


def _partition_response(index: int, committed: CommittedOffset) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        index, committed.offset, committed.leader_epoch, committed.metadata
    )


def _unstable(index: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(index, NO_OFFSET, error_code=_UNSTABLE)


def _as_generation_error(error: KafkaError) -> KafkaError:
    if error.code is ErrorCode.STALE_MEMBER_EPOCH:
        return KafkaError(ErrorCode.ILLEGAL_GENERATION, error.message)
    return error


def _not_found(group_id: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
