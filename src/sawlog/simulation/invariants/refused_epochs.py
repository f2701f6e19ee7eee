"""Guarantee 14: older controller epochs and stale broker epochs change nothing.

Brokers follow the stored states of partitions: one of an older controller epoch never replaces a
newer one, and no replica goes back to an older leader epoch. A leader counts no fetch of an earlier
process of a broker once it knows a later one.
"""

from typing import TYPE_CHECKING

from sawlog.simulation.invariants.no_invariant import NoInvariant
from sawlog.simulation.invariants.observer import ReplicaChange, StateChange
from sawlog.simulation.invariants.violation import Violation

if TYPE_CHECKING:
    from sawlog.core.ids import NodeId
    from sawlog.replication.leader import Leader
    from sawlog.simulation.invariants.committed_log import PartitionKey


class RefusedEpochs(NoInvariant):
    """Remembers the newest broker epoch of each follower that a leader counted."""

    def __init__(self) -> None:
        self._counted: dict[tuple[NodeId, PartitionKey], tuple[Leader, dict[NodeId, int]]] = {}

    def state_changed(self, change: StateChange) -> None:
        before, now = change.before, change.now
        if before is not None and now.controller_epoch < before.controller_epoch:
            raise Violation(
                "14",
                f"{change.partition.key}: a state of controller epoch {now.controller_epoch} "
                f"replaced one of {before.controller_epoch}",
            )

    def replica_changed(self, change: ReplicaChange) -> None:
        before, now, leader = change.before, change.now, change.replica.leader
        if before is not None and now.leader_epoch < before.leader_epoch:
            raise Violation(
                "14",
                f"{change} went back from leader epoch {before.leader_epoch} to {now.leader_epoch}",
            )
        if leader is None:
            return
        key = (change.node.id, change.partition.key)
        known, newest = self._counted.get(key, (None, {}))
        if known is not leader:
            newest = {}
            self._counted[key] = (leader, newest)
        for node, progress in leader.followers.items():
            if progress.broker_epoch < newest.get(node, -1) and progress.has_fetched:
                raise Violation(
                    "14",
                    f"{change} counts a fetch of broker {node} in its epoch "
                    f"{progress.broker_epoch}; it knew {newest[node]}",
                )
            newest[node] = progress.broker_epoch
