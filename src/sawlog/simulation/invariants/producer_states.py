"""Guarantee 18: the state of idempotent producers is the one that the batches of the log give."""

from sawlog.simulation.invariants.no_invariant import NoInvariant
from sawlog.simulation.invariants.observer import ReplicaChange
from sawlog.simulation.invariants.violation import Violation
from sawlog.storage.log import Log
from sawlog.storage.producer_state import ProducerStates


class RebuiltProducerStates(NoInvariant):
    """Rebuilds the state after truncations, elections and restarts: there it may go wrong. A log
    that is cleaned has lost some of the batches: the producers that are left have to be right."""

    def __init__(self, *, is_cleaned: bool) -> None:
        self._is_cleaned = is_cleaned

    def replica_changed(self, change: ReplicaChange) -> None:
        before, now = change.before, change.now
        if before is not None and (
            (before.role, before.leader_epoch, before.truncations)
            == (now.role, now.leader_epoch, now.truncations)
        ):
            return
        log = change.replica.log
        if log.is_closed or log.producers.is_deferred or change.node.is_offline:
            return  # nothing is appended to a log whose truncation failed
        if not self._is_right(log):
            raise Violation(
                "18",
                f"{change}: the state of its producers ends at "
                f"{log.producers.states.last_offsets()}, that of its batches at "
                f"{_rebuilt(log).last_offsets()}",
            )

    def _is_right(self, log: Log) -> bool:
        states, rebuilt = log.producers.states, _rebuilt(log)
        if self._is_cleaned:
            last_offsets = states.last_offsets()
            return all(
                last_offsets.get(producer_id) == offset
                for producer_id, offset in rebuilt.last_offsets().items()
            )
        return states.equals_except_timestamps(rebuilt)


def _rebuilt(log: Log) -> ProducerStates:
    states = ProducerStates()
    segments = log.segments
    for segment, position, header in segments.batches_between(segments.base_offset, log.end_offset):
        if header.producer_id < 0:
            continue
        if header.is_control:
            marker = segment.marker_at(position, header)
            if marker is not None:
                states.end_transaction(header, marker, 0)
            continue
        states.update(header, header.base_offset, header.max_timestamp, 0)
        if header.is_transactional:
            states.begin_transaction(header.producer_id, header.base_offset)
    return states
