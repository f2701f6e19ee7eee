"""The group coordinator as the broker has it: one shard for each partition of the groups' topic
that this broker leads."""

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from sawlog.cluster.metadata_image import GROUP_TOPIC, NO_NODE
from sawlog.coordinator.partition_for import partition_for
from sawlog.coordinator.runtime import CoordinatorRuntime, State
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import TopicName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sawlog.broker.metadata_cache import MetadataCache
    from sawlog.cluster.metadata_image import MetadataImage
    from sawlog.cluster.topics import Topics
    from sawlog.coordinator.plan import Plan, Timers
    from sawlog.coordinator.runtime import Answer, Refuse
    from sawlog.core.config import BrokerConfig
    from sawlog.core.ids import NodeId
    from sawlog.core.ports import Clock, Random, Timer
    from sawlog.groups.group_machine import GroupMachine
    from sawlog.replication.partition import Partition
    from sawlog.storage.log_directory import LogDirectory

logger = EventLogger(__name__)


class GroupCoordinator:
    """Invariant: `by_index` holds exactly the partitions of the groups' topic that are led here."""

    def __init__(
        self,
        config: "BrokerConfig",
        metadata: "MetadataCache",
        topics: "Topics",
        directory: "LogDirectory",
        *,
        clock: "Clock",
        timer: "Timer",
        random: "Random",
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._topics = topics
        self._directory = directory
        self._clock = clock
        self._timer = timer
        self._random = random
        self.by_index: dict[int, CoordinatorRuntime[GroupMachine]] = {}

    # Where a group lives

    def coordinator_of(self, group_id: str) -> "NodeId":
        """The node to ask about this group; the topic is made where there is none yet."""
        image = self._metadata.image
        topic = image.topics.get(TopicName(GROUP_TOPIC))
        if topic is None:
            self._topics.on_demand.make(GROUP_TOPIC)
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        leader = topic.partitions[partition_for(group_id, len(topic.partitions))].leader
        if leader == NO_NODE or leader not in image.brokers:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return leader

    def shard_of(self, group_id: str) -> "CoordinatorRuntime[GroupMachine]":
        """The shard of a group, which may still be loading; NOT_COORDINATOR where it is led
        elsewhere or nowhere."""
        topic = self._metadata.image.topics.get(TopicName(GROUP_TOPIC))
        if topic is not None:
            shard = self.by_index.get(partition_for(group_id, len(topic.partitions)))
            if shard is not None:
                return shard
        raise KafkaError(ErrorCode.NOT_COORDINATOR)

    def ask(
        self,
        group_id: str,
        operation: "Callable[[GroupMachine], Plan]",
        answer: "Answer",
        refuse: "Refuse",
    ) -> None:
        """Runs an operation where the group lives; `refuse` hears, too, that this is not here."""
        try:
            shard = self.shard_of(group_id)
        except KafkaError as error:
            refuse(error)
            return
        shard.run(partial(operation, shard.machine), answer, refuse)

    def all(self) -> "Iterable[CoordinatorRuntime[GroupMachine]]":
        return self.by_index.values()

    def count(self) -> Counter[tuple[str, str]]:
        """Groups by type and state."""
        return Counter(
            (str(group.type), group.state_name)
            for shard in self.by_index.values()
            for group in shard.machine.groups.values()
        )

    # Coming and going

    def lead(self, partition: "Partition") -> None:
        """This broker leads the partition; loads it, unless it is here already."""
        index = partition.name.partition
        known = self.by_index.get(index)
        if known is not None and known.partition is partition:
            return
        from sawlog.groups.group_records import GROUP_RECORDS  # not before there are groups

        shard = CoordinatorRuntime(
            partition,
            GROUP_RECORDS,
            self._machine,
            clock=self._clock,
            timer=self._timer,
            broken=partial(self._lead_again, partition),
        )
        self.by_index[index] = shard
        shard.load()

    def _machine(self, timers: "Timers") -> "GroupMachine":
        from sawlog.groups.context import GroupContext
        from sawlog.groups.group_machine import GroupMachine

        return GroupMachine(
            GroupContext(
                self._clock, self._random, timers, self._config, lambda: self._metadata.image
            )
        )

    def _lead_again(self, partition: "Partition") -> None:
        """The machine was given up: another one is made of what the log says, if it is still led
        here and can be written at all."""
        index = partition.name.partition
        given_up = self.by_index.get(index)
        if given_up is None or given_up.partition is not partition:
            return
        if self._directory.offline is None:
            del self.by_index[index]
            self.lead(partition)

    def resign(self, index: int) -> None:
        shard = self.by_index.pop(index, None)
        if shard is not None:
            shard.close(KafkaError(ErrorCode.NOT_COORDINATOR))

    def close(self) -> None:
        for index in list(self.by_index):
            self.resign(index)

    def image_changed(self, old: "MetadataImage", new: "MetadataImage") -> None:
        """Topics came, grew or went: groups that read them, and offsets in them, hear of it."""
        for shard in self.by_index.values():
            if shard.state is State.ACTIVE:
                shard.run(partial(shard.machine.image_changed, old, new), _ignore, _report)


def _ignore(_: object) -> None:
    """Nobody waits for it."""


def _report(error: KafkaError) -> None:
    logger.warning("groups did not hear of a change of topics", reason=str(error))
