"""Guarantees 1, 4, 5 for compacted logs: the same records apart from those that a later one of the
same key has replaced, and aborted ones."""

from typing import TYPE_CHECKING

from sawlog.simulation.invariants.committed_log import PartitionKey, records_between
from sawlog.simulation.invariants.no_invariant import NoInvariant
from sawlog.simulation.invariants.observer import ReplicaChange
from sawlog.simulation.invariants.violation import Violation

if TYPE_CHECKING:
    from sawlog.core.ids import NodeId
    from sawlog.replication.replica import Replica
    from sawlog.storage.segment import Segment


class CompactedRecords(NoInvariant):
    """Compares the records that are new, and all once the cleaner has replaced a segment."""

    def __init__(self) -> None:
        self._compared: dict[tuple[NodeId, PartitionKey], tuple[Replica, list[Segment], int]] = {}

    def replica_changed(self, change: ReplicaChange) -> None:
        if not change.partition.is_compacted:
            return
        key = (change.node.id, change.partition.key)
        replica, segments, start = self._compared.get(key, (change.replica, [], 0))
        present = list(change.replica.log.segments)
        if replica is not change.replica or present[: len(segments)] != segments:
            start = 0
        now = change.now
        has_all = change.is_in_sync or change.leads_newest
        end = min(
            change.partition.high_watermark if has_all else now.high_watermark, now.end_offset
        )
        start = min(start, now.end_offset)
        if start < end:
            self._compare(change, max(start, now.start_offset), end)
        self._compared[key] = (change.replica, present[:-1], max(start, end))

    def _compare(self, change: ReplicaChange, start: int, end: int) -> None:
        partition = change.partition
        found = {
            record.offset: record for record in records_between(change.replica.log, start, end)
        }
        unknown = found.keys() - partition.records.keys()
        if unknown:
            raise Violation("4", f"{change} has {found[min(unknown)]}, which was never committed")
        for offset in range(start, end):
            committed = partition.records.get(offset)
            if committed is None:
                continue
            if offset not in found:
                if not partition.may_lack(committed):
                    raise Violation("5", f"{change} lacks the last record of its key, {committed}")
            elif found[offset] != committed:
                raise Violation("1", f"{change} has {found[offset]}; {committed} was committed")
