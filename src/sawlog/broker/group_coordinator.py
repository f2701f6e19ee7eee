"""The group coordinator of this broker: one runtime for each partition of `__consumer_offsets`
that this broker leads."""

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from sawlog.broker.coordinator_partition import CoordinatorPartition
from sawlog.cluster.internal_topics import CONSUMER_OFFSETS
from sawlog.cluster.metadata_image import NO_NODE
from sawlog.coordinator.partition_for import partition_for
from sawlog.coordinator.runtime import CoordinatorRuntime, State
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.event_logger import EventLogger

if TYPE_CHECKING:
    from collections.abc import Callable

    from sawlog.broker.metadata_cache import MetadataCache
    from sawlog.cluster.metadata_image import MetadataImage
    from sawlog.cluster.topics import Topics
    from sawlog.coordinator.plan import Plan, Timers
    from sawlog.coordinator.runtime import Refuse
    from sawlog.core.config import BrokerConfig
    from sawlog.core.ids import NodeId
    from sawlog.core.ports import Clock, Random, Timer
    from sawlog.core.store import Store
    from sawlog.groups.group_machine import GroupMachine
    from sawlog.replication.replica import Replica
    from sawlog.storage.log_directory import LogDirectory

logger = EventLogger(__name__)

R = TypeVar("R")


class GroupCoordinator:
    """Invariant: `runtimes` has exactly the partitions of the groups' topic that are led here, by
    partition index."""

    def __init__(
        self,
        config: "BrokerConfig",
        metadata: "MetadataCache",
        topics: "Topics",
        directory: "LogDirectory",
        store: "Store",
        *,
        clock: "Clock",
        timer: "Timer",
        random: "Random",
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._topics = topics
        self._directory = directory
        self._store = store
        self._clock = clock
        self._timer = timer
        self._random = random
        self.runtimes: dict[int, CoordinatorRuntime[GroupMachine]] = {}

    # Look-ups

    def coordinator_of(self, group_id: str) -> "NodeId":
        """Return the node that coordinates this group; create the groups' topic if it is missing.

        COORDINATOR_NOT_AVAILABLE until the partition has a leader.
        """
        image = self._metadata.image
        topic = image.topics.get(CONSUMER_OFFSETS.name)
        if topic is None:
            self._topics.auto_create.create(CONSUMER_OFFSETS.name)
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        leader = topic.partitions[partition_for(group_id, len(topic.partitions))].leader
        if leader == NO_NODE or leader not in image.brokers:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return leader

    def runtime_of(self, group_id: str) -> "CoordinatorRuntime[GroupMachine]":
        """Return the runtime of a group, which may still be loading; NOT_COORDINATOR if this broker
        does not lead the group's partition, or cannot know it: clients look it up again, and so
        never read offsets here that are older than those committed elsewhere."""
        if self._store.may_have_expired():
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        topic = self._metadata.image.topics.get(CONSUMER_OFFSETS.name)
        if topic is not None:
            runtime = self.runtimes.get(partition_for(group_id, len(topic.partitions)))
            if runtime is not None:
                return runtime
        raise KafkaError(ErrorCode.NOT_COORDINATOR)

    def ask(
        self,
        group_id: str,
        operation: "Callable[[GroupMachine], Plan[R]]",
        answer: "Callable[[R], None]",
        refuse: "Refuse",
    ) -> None:
        """Run an operation on the machine of the group; `refuse` also gets NOT_COORDINATOR."""
        try:
            runtime = self.runtime_of(group_id)
        except KafkaError as error:
            refuse(error)
            return
        runtime.run(partial(operation, runtime.machine), answer, refuse)

    def count(self) -> Counter[tuple[str, str]]:
        """Count the groups by type and state."""
        return Counter(
            (str(group.type), group.state_name)
            for runtime in self.runtimes.values()
            for group in runtime.machine.groups.values()
        )

    # Leadership

    def lead(self, partition: "Replica") -> None:
        """Load a partition that this broker leads, unless it is loaded already."""
        index = partition.name.partition
        if index in self.runtimes:
            return
        from sawlog.groups.group_records import GROUP_RECORDS  # not before there are groups

        access = CoordinatorPartition(partition)
        runtime = CoordinatorRuntime(
            access,
            access,
            GROUP_RECORDS,
            self._machine,
            clock=self._clock,
            timer=self._timer,
            on_failure=partial(self._reload, partition),
        )
        self.runtimes[index] = runtime
        runtime.load()

    def _machine(self, timers: "Timers") -> "GroupMachine":
        from sawlog.groups.context import GroupContext
        from sawlog.groups.group_machine import GroupMachine

        return GroupMachine(
            GroupContext(
                self._clock, self._random, timers, self._config, lambda: self._metadata.image
            )
        )

    def _reload(self, partition: "Replica", failed: "CoordinatorRuntime[GroupMachine]") -> None:
        """Replace a runtime that closed itself, if the partition is still led here and the log
        directory is online."""
        index = partition.name.partition
        if self.runtimes.get(index) is failed and self._directory.offline is None:
            del self.runtimes[index]
            self.lead(partition)

    def resign(self, index: int) -> None:
        """Unload a partition that this broker no longer leads."""
        runtime = self.runtimes.pop(index, None)
        if runtime is not None:
            runtime.close(KafkaError(ErrorCode.NOT_COORDINATOR))

    def close(self) -> None:
        for index in list(self.runtimes):
            self.resign(index)

    def image_changed(self, old: "MetadataImage", new: "MetadataImage") -> None:
        """Tell all groups about topics that were created, extended or deleted."""
        for runtime in self.runtimes.values():
            if runtime.state is State.ACTIVE:
                runtime.run(partial(runtime.machine.image_changed, old, new), _ignore, _report)


def _ignore(_: object) -> None:
    """The operation has no caller that waits for a reply."""


def _report(error: KafkaError) -> None:
    logger.warning("groups not updated after a change of topics", reason=str(error))
