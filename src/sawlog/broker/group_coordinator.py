"""The group coordinator of this broker: the groups of the partitions of `__consumer_offsets` that
this broker leads."""

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from sawlog.broker.topic_coordinator import TopicCoordinator
from sawlog.cluster.internal_topics import CONSUMER_OFFSETS
from sawlog.coordinator.runtime import State
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import ProducerId
from sawlog.protocol.control_records import ControlType, EndTransactionMarker

if TYPE_CHECKING:
    from sawlog.broker.metadata_cache import MetadataCache
    from sawlog.cluster.metadata_image import MetadataImage
    from sawlog.cluster.topics import Topics
    from sawlog.coordinator.coordinator_records import RecordFormat
    from sawlog.coordinator.partition_access import OnCommitted
    from sawlog.coordinator.plan import Timers
    from sawlog.core.config import BrokerConfig
    from sawlog.core.ports import Clock, Random, Timer
    from sawlog.core.store import Store
    from sawlog.groups.group_machine import GroupMachine
    from sawlog.replication.replica import Replica
    from sawlog.storage.log_directory import LogDirectory

logger = EventLogger(__name__)


class GroupCoordinator(TopicCoordinator["GroupMachine"]):
    """The coordinator of `__consumer_offsets`. The code of groups is imported with the first
    partition that is led here."""

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
        super().__init__(
            CONSUMER_OFFSETS, metadata, topics, directory, store, clock=clock, timer=timer
        )
        self._config = config
        self._random = random

    def _record_format(self) -> "RecordFormat":
        from sawlog.groups.group_records import GROUP_RECORDS

        return GROUP_RECORDS

    def _make_machine(self, _partition: "Replica", timers: "Timers", /) -> "GroupMachine":
        from sawlog.groups.context import GroupContext
        from sawlog.groups.group_machine import GroupMachine

        return GroupMachine(
            GroupContext(
                self._clock, self._random, timers, self._config, lambda: self._metadata.image
            )
        )

    def complete_transaction(
        self,
        index: int,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        *,
        is_commit: bool,
        transaction_version: int,
        done: "OnCommitted",
    ) -> None:
        """Write the marker of a transaction to a partition of `__consumer_offsets`: its pending
        offsets are committed or dropped. `done` is called once, with None when the marker is
        committed; NOT_COORDINATOR and COORDINATOR_LOAD_IN_PROGRESS are among the errors."""
        runtime = self.runtimes.get(index)
        if runtime is None or self._store.may_have_expired():
            done(KafkaError(ErrorCode.NOT_COORDINATOR))
            return
        kind = ControlType.COMMIT if is_commit else ControlType.ABORT
        runtime.end_transaction(
            ProducerId(producer_id),
            producer_epoch,
            EndTransactionMarker(kind, coordinator_epoch),
            transaction_version,
            done,
        )

    def count(self) -> Counter[tuple[str, str]]:
        """Count the groups by type and state."""
        return Counter(
            (str(group.type), group.state_name)
            for runtime in self.runtimes.values()
            for group in runtime.machine.groups.values()
        )

    def count_pending_offsets(self) -> int:
        """Count the partitions of groups that have an offset of an open transaction."""
        return sum(len(runtime.machine.offsets.pending) for runtime in self.runtimes.values())

    def image_changed(self, old: "MetadataImage", new: "MetadataImage") -> None:
        """Tell all groups about topics that were created, extended or deleted."""
        for runtime in self.runtimes.values():
            if runtime.state is State.ACTIVE:
                runtime.run(partial(runtime.machine.image_changed, old, new), _ignore, _report)


def _ignore(_: object) -> None:
    """The operation has no caller that waits for a reply."""


def _report(error: KafkaError) -> None:
    logger.warning("groups not updated after a change of topics", reason=str(error))
