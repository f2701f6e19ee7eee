"""A group machine without a disk: planned records are applied at once and kept in a list.

The records are kept as batches, so that `rebuilt` loads what a restart would.
"""

from collections.abc import Callable, Mapping
from typing import Any

from sawlog.cluster.metadata_image import MetadataImage, PartitionImage, TopicImage
from sawlog.coordinator.coordinator_records import Entry
from sawlog.coordinator.last_values import LastValues
from sawlog.coordinator.loader import in_replay_order
from sawlog.coordinator.plan import Operation, Plan, ProducerIdentity
from sawlog.core.config import BrokerConfig
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import LeaderEpoch, NodeId, ProducerId, TopicId, TopicName
from sawlog.groups.context import GroupContext
from sawlog.groups.group_machine import GroupMachine
from sawlog.groups.group_records import GROUP_RECORDS
from sawlog.groups.offsets.committed_offset import CommittedOffset
from sawlog.protocol.control_records import ControlType, EndTransactionMarker, marker_batch
from sawlog.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from sawlog.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from sawlog.protocol.messages.offset_fetch_request import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from sawlog.protocol.record_batch import stamp
from sawlog.protocol.records import BatchBuilder
from sawlog.simulation.schedule import SeededRandom

START_MS = 1_700_000_000_000
MINUTE_MS = 60_000
Offsets = Mapping[tuple[str, int], int]


def topic_id(name: str, life: int = 1) -> TopicId:
    """The id of a topic; a recreated topic has another `life`."""
    return TopicId(f"{name}/{life}".encode().ljust(16, b"."))


def image_of(lives: Mapping[str, int], partitions: int = 10) -> MetadataImage:
    node = NodeId(1)
    state = PartitionImage(node, LeaderEpoch(0), (node,), (node,), 0)
    topics = {
        TopicName(name): TopicImage(TopicName(name), topic_id(name, life), (state,) * partitions)
        for name, life in lives.items()
    }
    return MetadataImage(topics=topics, names={topic.id: name for name, topic in topics.items()})


class OffsetsWorld:
    """The machine with its clock and timers; `lives` names the topics."""

    def __init__(self, lives: Mapping[str, int] | None = None, **settings: str) -> None:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        self.config = BrokerConfig(given)
        self.ms = START_MS
        self.lives = dict({"t": 1} if lives is None else lives)
        self.image = image_of(self.lives)
        self.timers: dict[object, tuple[int, Operation]] = {}
        self.written: list[tuple[bytes, bytes | None]] = []
        self.log = bytearray()
        self._end_offset = 0
        self.fails: KafkaError | None = None
        self.batches = 0
        self.machine = self._machine()
        self.machine.activate()

    def _machine(self) -> GroupMachine:
        random = SeededRandom(1)
        return GroupMachine(GroupContext(self, random, self, self.config, lambda: self.image))

    # Clock and timers

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms

    def set(self, key: object, delay_ms: int, operation: Operation) -> None:
        self.timers[key] = (self.ms + delay_ms, operation)

    def cancel(self, key: object) -> None:
        self.timers.pop(key, None)

    def is_set(self, key: object) -> bool:
        return key in self.timers

    def pass_ms(self, duration_ms: int) -> None:
        end_ms = self.ms + duration_ms
        while due := [(at, str(key), key) for key, (at, _) in self.timers.items() if at <= end_ms]:
            self.ms, _, key = min(due, key=lambda one: one[:2])
            _, operation = self.timers.pop(key)
            self.do(operation)
        self.ms = end_ms

    # Operations

    def do(self, operation: Callable[[], Plan]) -> Any:
        """Run an operation; return its reply or error. With `fails` no record is written."""
        try:
            plan = operation()
            written = [GROUP_RECORDS.encode(entry) for entry in plan.entries]
        except KafkaError as error:
            return error
        if plan.entries and self.fails is not None:
            if plan.on_committed is not None:
                plan.on_committed(self.fails)
            return self.fails
        if plan.entries:
            self._append(written, plan.producer)
            if plan.apply is not None:
                plan.apply()
            elif plan.producer is not None:
                for entry in plan.entries:
                    self.machine.replay_pending(plan.producer.producer_id, entry)
            else:
                self.replay(*plan.entries)
        if plan.on_committed is not None:
            plan.on_committed(None)
        return plan.reply

    def _append(
        self, records: list[tuple[bytes, bytes | None]], producer: ProducerIdentity | None
    ) -> None:
        builder = BatchBuilder()
        for key, value in records:
            builder.append(self.ms, key, value)
        self.written += records
        self.batches += 1
        if producer is None:
            self._log(builder.finish(), len(records))
        else:
            batch = builder.finish(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                transactional=True,
            )
            self._log(batch, len(records))

    def _log(self, batch: bytearray, count: int) -> None:
        stamp(memoryview(batch), self._end_offset, 0)
        self.log += batch
        self._end_offset += count

    def end_transaction(self, producer: int, *, is_commit: bool) -> None:
        """Write and apply a marker."""
        kind = ControlType.COMMIT if is_commit else ControlType.ABORT
        self._log(marker_batch(EndTransactionMarker(kind, 0), producer, 0, self.ms), 1)
        self.machine.end_transaction(ProducerId(producer), is_commit=is_commit)

    def replay(self, *entries: Entry) -> None:
        for entry in entries:
            self.machine.replay(entry)

    def write(self, *entries: Entry) -> None:
        """Write records as if another coordinator had written them before."""
        self.do(lambda: Plan(entries=entries))

    def commit(
        self,
        group: str,
        offsets: Offsets,
        *,
        member: str = "",
        epoch: int = -1,
        instance: str | None = None,
        version: int = 9,
        metadata: str | None = "",
        leader_epoch: int = -1,
        retention_ms: int = -1,
        producer: int | None = None,
    ) -> Any:
        """Return the error codes by topic and partition, or the error of the whole request. With a
        `producer` the offsets are part of its transaction."""
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (name, partition), offset in offsets.items():
            known = OffsetCommitRequestTopic(name, self.image.topics[TopicName(name)].id)
            topics.setdefault(name, known).partitions.append(
                OffsetCommitRequestPartition(partition, offset, leader_epoch, metadata)
            )
        message = OffsetCommitRequest(
            group, epoch, member, instance, retention_ms, list(topics.values())
        )
        requests = self.machine.offset_requests
        if producer is None:
            answer = self.do(lambda: requests.commit(message, version))
        else:
            identity = ProducerIdentity("x", ProducerId(producer), 0)
            answer = self.do(lambda: requests.commit_in_transaction(message, identity))
        if isinstance(answer, KafkaError):
            return answer.code
        return {
            (topic.name, partition.partition_index): partition.error_code
            for topic in answer.topics
            for partition in topic.partitions
        }

    def fetch(self, group: str, *wanted: tuple[str, int], **asked: Any) -> Any:
        """Return offset and metadata by topic and partition, or the error code; of all partitions
        if none is given."""
        ids = asked.pop("ids", {})
        stable = asked.pop("require_stable", False)
        topics = [
            OffsetFetchRequestTopics(name, ids.get(name, bytes(16)), [index])
            for name, index in wanted
        ]
        message = OffsetFetchRequestGroup(group, topics=topics or None, **asked)
        answer = self.do(lambda: self.machine.offset_requests.fetch(message, require_stable=stable))
        if isinstance(answer, KafkaError):
            return answer.code
        assert answer.group_id == group
        return {
            (topic.name, partition.partition_index): (
                partition.committed_offset,
                partition.metadata,
            )
            if partition.error_code == 0
            else ErrorCode(partition.error_code)
            for topic in answer.topics
            for partition in topic.partitions
        }

    def delete_offsets(self, group: str, *wanted: tuple[str, int]) -> Any:
        topics = [
            OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(index)])
            for name, index in wanted
        ]
        message = OffsetDeleteRequest(group, topics)
        answer = self.do(lambda: self.machine.offset_requests.delete(message))
        if isinstance(answer, KafkaError):
            return answer.code
        return [partition.error_code for topic in answer.topics for partition in topic.partitions]

    def delete_group(self, group: str) -> Any:
        answer = self.do(lambda: self.machine.admin.delete(group))
        return answer.code if isinstance(answer, KafkaError) else answer.error_code

    def change_topics(self, **lives: int | None) -> None:
        """Recreate topics, or delete those whose life is None."""
        for name, life in lives.items():
            if life is None:
                del self.lives[name]
            else:
                self.lives[name] = life
        old, self.image = self.image, image_of(self.lives)
        self.do(lambda: self.machine.image_changed(old, self.image))

    # State

    def get(self, group: str, topic: str = "t", partition: int = 0) -> CommittedOffset | None:
        return self.machine.offsets.get(group, topic, partition)

    def rebuilt(self) -> GroupMachine:
        """A second machine, loaded from the records written so far."""
        timers, self.timers = self.timers, {}
        machine = self._loaded()
        machine.activate()
        self.timers = timers
        return machine

    def restart(self) -> None:
        self.timers = {}
        self.machine = self._loaded()
        self.machine.activate()

    def _loaded(self) -> GroupMachine:
        last = LastValues()
        assert last.read(bytes(self.log), 0) == self._end_offset
        machine = self._machine()
        for key, value, producer_id in in_replay_order(last):
            if producer_id is not None:
                machine.replay_pending(producer_id, GROUP_RECORDS.decode(key, value))
            elif not machine.replay_encoded(key, value):
                machine.replay(GROUP_RECORDS.decode(key, value))
        return machine
