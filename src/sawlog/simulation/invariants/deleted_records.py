"""Guarantee 5: records are deleted for a reason only, and only committed ones.

The reason is DeleteRecords, or that the clock of the broker says that they are too old.
"""

from collections.abc import Mapping

from sawlog.core.ids import TopicName
from sawlog.simulation.cluster_profile import RETENTION_MS, Cleanup
from sawlog.simulation.invariants.no_invariant import NoInvariant
from sawlog.simulation.invariants.observer import ReplicaChange
from sawlog.simulation.invariants.violation import Violation


class DeletedRecords(NoInvariant):
    """Looks at the start of each log, and at what clients asked for."""

    def __init__(self, topic: str, cleanup: Cleanup, requested: Mapping[int, int]) -> None:
        """`requested` has the offset up to which clients asked to delete each partition."""
        self._topic = TopicName(topic)
        self._cleanup = cleanup
        self._requested = requested

    def replica_changed(self, change: ReplicaChange) -> None:
        partition, start_offset = change.partition, change.now.start_offset
        if start_offset <= partition.start_offset:
            return
        if start_offset > partition.high_watermark:
            raise Violation(
                "5",
                f"{change} begins at {start_offset}; only {partition.high_watermark} is committed",
            )
        if not self._may_delete(change, start_offset):
            raise Violation(
                "5",
                f"{change} begins at {start_offset} instead of {partition.start_offset}: nothing "
                "allowed to delete the records between",
            )
        partition.start_offset = start_offset

    def _may_delete(self, change: ReplicaChange, start_offset: int) -> bool:
        topic, index = change.partition.key.name
        if topic != self._topic:
            return False
        if self._cleanup is Cleanup.DELETE_RECORDS:
            return self._requested.get(index, 0) >= start_offset
        if self._cleanup is not Cleanup.RETENTION:
            return False
        oldest_ms = change.node.clock.now_ms() - RETENTION_MS
        return all(
            batch.max_timestamp <= oldest_ms
            for batch in change.partition.batches.values()
            if change.partition.start_offset <= batch.base_offset < start_offset
        )
