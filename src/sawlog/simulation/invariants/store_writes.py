"""Guarantees 12 and 13: partition states change by compare-and-set, leaders by the controller only.

The write of a deposed controller, or one without a version, never lands. A broker whose log is
damaged may take itself out, in a new leader epoch: that elects none. A reassignment that adds a
replica begins a new epoch of the same leader.
"""

from typing import TYPE_CHECKING

from sawlog.cluster import znodes
from sawlog.cluster.metadata_image import NO_NODE
from sawlog.core.store import ANY_VERSION, Check, SetData
from sawlog.simulation.invariants.no_invariant import NoInvariant
from sawlog.simulation.invariants.observer import StateChange
from sawlog.simulation.invariants.violation import Violation

if TYPE_CHECKING:
    from sawlog.simulation.world.simulated_cluster import SimulatedCluster


class StoreWrites(NoInvariant):
    def __init__(self, cluster: "SimulatedCluster") -> None:
        self._cluster = cluster

    def state_changed(self, change: StateChange) -> None:
        before, now = change.before, change.now
        if before is None:
            return
        name = change.partition.key.name
        path = znodes.state_path(*name)
        for operation in change.operations:
            if not isinstance(operation, SetData) or operation.path != path:
                continue
            if operation.version == ANY_VERSION:
                raise Violation("12", f"{name}: the state was written without a version")
        if (before.leader, before.leader_epoch) == (now.leader, now.leader_epoch):
            return
        if self._is_withdrawal(change, before) or self._is_reassignment(change, before):
            return
        checks = [op for op in change.operations if isinstance(op, Check)]
        if not any(check.path == znodes.CONTROLLER_EPOCH for check in checks):
            raise Violation("13", f"{name}: a leader was elected without the controller's epoch")
        if change.controller != change.session:
            raise Violation("13", f"{name}: a leader was elected by a deposed controller")

    def _is_withdrawal(self, change: StateChange, before: znodes.PartitionState) -> bool:
        """Whether one member has taken itself out of the set, and of the lead if it had that."""
        now = change.now
        left = set(before.isr) - set(now.isr)
        if len(left) != 1 or now.leader_epoch != before.leader_epoch + 1:
            return False
        [node] = left
        stat = self._cluster.service.tree.exists(znodes.broker_path(node))
        leader = NO_NODE if before.leader == node else before.leader
        return now.leader == leader and stat is not None and stat.owner == change.session

    def _is_reassignment(self, change: StateChange, before: znodes.PartitionState) -> bool:
        """Whether the topic's node was written too, and only the epoch of the leader changed."""
        now, topic = change.now, znodes.topic_path(change.partition.key.name.topic)
        return (
            (now.leader, now.members) == (before.leader, before.members)
            and now.leader_epoch == before.leader_epoch + 1
            and any(isinstance(op, SetData) and op.path == topic for op in change.operations)
        )
