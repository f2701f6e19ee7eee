"""Guarantees 1, 3, 4, 5: committed records are the same on every replica, and stay.

A replica in the stored in-sync set and a leader have all that was ever committed, any other replica
has the committed records below its own watermark.
"""

from typing import TYPE_CHECKING

from sawlog.simulation.invariants.committed_log import PartitionKey, batches_between
from sawlog.simulation.invariants.no_invariant import NoInvariant
from sawlog.simulation.invariants.observer import ReplicaChange
from sawlog.simulation.invariants.violation import Violation

if TYPE_CHECKING:
    from sawlog.core.ids import NodeId
    from sawlog.replication.replica import Replica


class CommittedRecords(NoInvariant):
    """Remembers up to where each log was compared, so that no batch is compared twice."""

    def __init__(self) -> None:
        self._compared: dict[tuple[NodeId, PartitionKey], tuple[Replica, int]] = {}

    def replica_changed(self, change: ReplicaChange) -> None:
        partition, now = change.partition, change.now
        if change.leads_newest and now.end_offset < partition.high_watermark:
            raise Violation(
                "3",
                f"{change} leads epoch {now.leader_epoch} with a log that ends at "
                f"{now.end_offset}; {partition.high_watermark} was committed",
            )
        if now.high_watermark > partition.high_watermark:
            raise Violation(
                "4",
                f"{change} has the watermark {now.high_watermark}, above every leader's "
                f"({partition.high_watermark})",
            )
        if not partition.is_compacted:
            self._compare(change)

    def _compare(self, change: ReplicaChange) -> None:
        key = (change.node.id, change.partition.key)
        replica, start = self._compared.get(key, (change.replica, 0))
        if replica is not change.replica:
            start = 0
        now, partition = change.now, change.partition
        has_all = change.is_in_sync or change.leads_newest
        end = min(partition.high_watermark if has_all else now.high_watermark, now.end_offset)
        start = min(start, now.end_offset)
        offset = max(start, now.start_offset)
        for batch in batches_between(change.replica.log, start, end):
            if batch.next_offset > end:
                break
            expected = partition.batches.get(batch.base_offset)
            is_next = batch.base_offset == offset or (
                batch.base_offset < offset == now.start_offset  # the first one is deleted in part
            )
            if expected != batch or not is_next:
                raise Violation(
                    "1" if has_all else "4",
                    f"{change} has {batch} at offset {offset}; {expected} was committed",
                )
            offset = batch.next_offset
        if offset < end and self._is_committed(change, offset, end):
            raise Violation("5", f"{change} lacks the committed records {offset} to {end}")
        self._compared[key] = (change.replica, max(start, offset))

    def _is_committed(self, change: ReplicaChange, start: int, end: int) -> bool:
        return any(start <= offset < end for offset in change.partition.batches)
