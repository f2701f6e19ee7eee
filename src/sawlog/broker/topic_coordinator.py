"""What the group coordinator and the transaction coordinator share: one runtime for each partition
of the coordinator's internal topic that this broker leads."""

from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from sawlog.broker.coordinator_partition import CoordinatorPartition
from sawlog.cluster.metadata_image import NO_NODE
from sawlog.coordinator.partition_for import partition_for
from sawlog.coordinator.plan import Machine
from sawlog.coordinator.runtime import CoordinatorRuntime
from sawlog.core.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sawlog.broker.metadata_cache import MetadataCache
    from sawlog.cluster.internal_topics import InternalTopic
    from sawlog.cluster.topics import Topics
    from sawlog.coordinator.coordinator_records import RecordFormat
    from sawlog.coordinator.plan import Plan, Timers
    from sawlog.coordinator.runtime import Refuse
    from sawlog.core.ids import NodeId
    from sawlog.core.ports import Clock, Timer
    from sawlog.core.store import Store
    from sawlog.replication.replica import Replica
    from sawlog.storage.log_directory import LogDirectory

M = TypeVar("M", bound=Machine)
R = TypeVar("R")


class TopicCoordinator(ABC, Generic[M]):
    """Invariant: `runtimes` has exactly the partitions of the coordinator's topic that are led
    here, by partition index."""

    def __init__(
        self,
        topic: "InternalTopic",
        metadata: "MetadataCache",
        topics: "Topics",
        directory: "LogDirectory",
        store: "Store",
        *,
        clock: "Clock",
        timer: "Timer",
    ) -> None:
        self.topic = topic
        self._metadata = metadata
        self._topics = topics
        self._directory = directory
        self._store = store
        self._clock = clock
        self._timer = timer
        self.runtimes: dict[int, CoordinatorRuntime[M]] = {}

    @abstractmethod
    def _record_format(self) -> "RecordFormat":
        """Return the records of the topic; imports the machine's code on first use."""

    @abstractmethod
    def _make_machine(self, partition: "Replica", timers: "Timers", /) -> M:
        """Return the empty machine of a partition that this broker leads in its present epoch."""

    # Look-ups

    def coordinator_of(self, name: str) -> "NodeId":
        """Return the node that coordinates this group or transactional id; create the topic if it
        is missing.

        COORDINATOR_NOT_AVAILABLE until the partition has a leader.
        """
        image = self._metadata.image
        topic = image.topics.get(self.topic.name)
        if topic is None:
            self._topics.auto_create.create(self.topic.name)
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        leader = topic.partitions[partition_for(name, len(topic.partitions))].leader
        if leader == NO_NODE or leader not in image.brokers:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return leader

    def runtime_of(self, name: str) -> "CoordinatorRuntime[M]":
        """Return the runtime of a group or transactional id, which may still be loading.

        NOT_COORDINATOR if this broker does not lead its partition, or cannot know it: clients look
        it up again, and so never read state here that is older than state committed elsewhere.
        """
        if self._store.may_have_expired():
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        topic = self._metadata.image.topics.get(self.topic.name)
        if topic is not None:
            runtime = self.runtimes.get(partition_for(name, len(topic.partitions)))
            if runtime is not None:
                return runtime
        raise KafkaError(ErrorCode.NOT_COORDINATOR)

    def ask(
        self,
        name: str,
        operation: "Callable[[M], Plan[R]]",
        answer: "Callable[[R], None]",
        refuse: "Refuse",
    ) -> None:
        """Run an operation on the machine of the group or transactional id; `refuse` also gets
        NOT_COORDINATOR."""
        try:
            runtime = self.runtime_of(name)
        except KafkaError as error:
            refuse(error)
            return
        runtime.run(partial(operation, runtime.machine), answer, refuse)

    # Leadership

    def lead(self, partition: "Replica") -> None:
        """Load a partition that this broker leads, unless it is loaded already."""
        index = partition.name.partition
        if index in self.runtimes:
            return
        access = CoordinatorPartition(partition)
        runtime = CoordinatorRuntime(
            access,
            access,
            self._record_format(),
            partial(self._make_machine, partition),
            clock=self._clock,
            timer=self._timer,
            on_failure=partial(self._reload, partition),
        )
        self.runtimes[index] = runtime
        runtime.load()

    def _reload(self, partition: "Replica", failed: "CoordinatorRuntime[M]") -> None:
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
