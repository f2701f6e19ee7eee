"""Guarantees 2, 6 and 14b: an in-sync replica has everything committed, flushed to its disk.

With `flush.policy=os` it has everything, in its page cache at least.
"""

from typing import TYPE_CHECKING

from sawlog.simulation.invariants.no_invariant import NoInvariant
from sawlog.simulation.invariants.observer import ReplicaChange
from sawlog.simulation.invariants.violation import Violation

if TYPE_CHECKING:
    from sawlog.cluster.metadata_image import InSyncMember
    from sawlog.core.ids import NodeId
    from sawlog.simulation.invariants.committed_log import PartitionKey
    from sawlog.simulation.simulated_disk import SimulatedDisk
    from sawlog.simulation.world.simulated_cluster import SimulatedCluster


class InSyncReplicas(NoInvariant):
    """Remembers what each disk has of each partition: a flush outlives the process that asked."""

    def __init__(self, cluster: "SimulatedCluster") -> None:
        self._cluster = cluster
        self._flushed: dict[tuple[NodeId, PartitionKey], tuple[SimulatedDisk, int]] = {}
        self._ends: dict[tuple[NodeId, PartitionKey], int] = {}

    def replica_changed(self, change: ReplicaChange) -> None:
        self._remember(change)
        now, committed = change.now, change.partition.high_watermark
        if change.is_in_sync and now.end_offset < committed:
            raise Violation(
                "2",
                f"{change} is in sync, and its log ends at {now.end_offset}; {committed} was "
                "committed",
            )
        if change.leads and (
            change.before is None or change.before.high_watermark != now.high_watermark
        ):
            self._check_members(change)

    def _has_lost(self, member: "InSyncMember") -> bool:
        """Whether a broker runs again after a loss that its entry in the set does not show yet: the
        controller is about to remove it."""
        node = self._cluster.nodes[member.node]
        return node.broker is not None and not node.has_log_of(member)

    def _remember(self, change: ReplicaChange) -> None:
        key = (change.node.id, change.partition.key)
        disk, flushed = self._flushed.get(key, (change.node.disk, 0))
        if disk is not change.node.disk:
            flushed = 0
        flushed = min(max(flushed, change.now.flushed_offset), change.now.end_offset)
        self._flushed[key] = (change.node.disk, flushed)
        self._ends[key] = change.now.end_offset

    def _check_members(self, change: ReplicaChange) -> None:
        """Check a watermark that has moved: every member of the stored set, and of the sets that
        the leader knows, stored and pending, has reached it."""
        stored, leader = change.partition.stored, change.replica.leader
        watermark = change.now.high_watermark
        members = set() if stored is None else set(stored.members)
        if leader is not None and change.leads_newest:
            members |= {*leader.in_sync.stored, *(leader.in_sync.pending or ())}
        lost = {each.node for each in members if self._has_lost(each)}
        for member in sorted({each.node for each in members} - lost):
            key = (member, change.partition.key)
            if self._ends.get(key, 0) < watermark:
                raise Violation(
                    "6",
                    f"{change} has the watermark {watermark}; the log of the in-sync broker "
                    f"{member} ends at {self._ends.get(key, 0)}",
                )
            _, flushed = self._flushed.get(key, (None, 0))
            if self._cluster.commits_on_flush and flushed < watermark:
                raise Violation(
                    "14b",
                    f"{change} has the watermark {watermark}; the in-sync broker {member} has "
                    f"flushed only {flushed}",
                )
