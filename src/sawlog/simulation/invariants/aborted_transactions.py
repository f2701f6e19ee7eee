"""Guarantee 19: every transaction that a marker of the log aborts is in the transaction indexes, so
that read_committed readers skip its records."""

from sawlog.simulation.invariants.no_invariant import NoInvariant
from sawlog.simulation.invariants.observer import ReplicaChange
from sawlog.simulation.invariants.violation import Violation
from sawlog.storage.log import Log


class AbortedTransactions(NoInvariant):
    """Compares after truncations, elections and restarts: there an entry may be lost. An index may
    have more than the batches tell, after the first segments were removed."""

    def replica_changed(self, change: ReplicaChange) -> None:
        before, now = change.before, change.now
        if before is not None and (
            (before.role, before.leader_epoch, before.truncations)
            == (now.role, now.leader_epoch, now.truncations)
        ):
            return
        log = change.replica.log
        if log.is_closed or log.producers.is_deferred or change.node.is_offline:
            return
        indexed = {entry[:3] for entry in log.segments.aborted_between(0, log.end_offset)}
        for entry in sorted(_aborted(log)):
            if entry not in indexed:
                producer_id, first_offset, last_offset = entry
                raise Violation(
                    "19",
                    f"{change}: the transaction of producer {producer_id} from {first_offset} on, "
                    f"aborted at {last_offset}, is not in the transaction index",
                )


def _aborted(log: Log) -> set[tuple[int, int, int]]:
    """The producer, the first offset and the offset of the marker of each aborted transaction, by
    the batches of the log."""
    first_offsets: dict[int, int] = {}
    found: set[tuple[int, int, int]] = set()
    segments = log.segments
    for segment, position, header in segments.batches_between(segments.base_offset, log.end_offset):
        if header.producer_id < 0:
            continue
        if not header.is_control:
            if header.is_transactional:
                first_offsets.setdefault(header.producer_id, header.base_offset)
            continue
        marker = segment.marker_at(position, header)
        first_offset = first_offsets.pop(header.producer_id, None)
        if marker is not None and marker.is_abort and first_offset is not None:
            found.add((header.producer_id, first_offset, header.base_offset))
    return found
