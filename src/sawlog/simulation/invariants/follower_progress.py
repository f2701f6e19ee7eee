"""Guarantee 8: what a leader knows of a follower, the follower has reported in this epoch.

A fetch of another leader epoch, or one that was answered with a diverging epoch, must not have
changed it: below the recorded offset both logs are the same.
"""

from typing import TYPE_CHECKING

from sawlog.simulation.invariants.no_invariant import NoInvariant
from sawlog.simulation.invariants.observer import ReplicaChange
from sawlog.simulation.invariants.violation import Violation

if TYPE_CHECKING:
    from sawlog.core.ids import NodeId
    from sawlog.replication.follower_progress import FollowerProgress
    from sawlog.replication.replica import Replica
    from sawlog.simulation.world.simulated_cluster import SimulatedCluster


class RecordedProgress(NoInvariant):
    """Compares the progress that a leader counts with the logs of the followers themselves."""

    def __init__(self, cluster: "SimulatedCluster") -> None:
        self._cluster = cluster

    def replica_changed(self, change: ReplicaChange) -> None:
        leader = change.replica.leader
        if leader is None or not change.leads_newest:
            return
        for node, progress in leader.followers.items():
            follower = self._process(change, node, progress)
            if follower is not None:
                self._compare(change, node, progress, follower)

    def _process(
        self, change: ReplicaChange, node: "NodeId", progress: "FollowerProgress"
    ) -> "Replica | None":
        """The follower, if the process still runs that has reported the progress."""
        broker = self._cluster.nodes[node].broker
        if broker is None or not progress.has_fetched:
            return None
        if broker.components.member.broker_epoch != progress.broker_epoch:
            return None
        replica = broker.replicas.by_partition.get(change.replica.name)
        return None if replica is None or replica.topic_id != change.replica.topic_id else replica

    def _compare(
        self,
        change: ReplicaChange,
        node: "NodeId",
        progress: "FollowerProgress",
        follower: "Replica",
    ) -> None:
        epoch, end = change.now.leader_epoch, progress.end_offset
        if follower.leader_epoch < epoch:
            raise Violation(
                "8",
                f"{change} leads epoch {epoch} and counts offset {end} of broker {node}, which is "
                f"still in epoch {follower.leader_epoch}",
            )
        log = follower.log
        if follower.leader_epoch > epoch or end <= max(log.start_offset, change.now.start_offset):
            return
        own = change.replica.log.epochs.epoch_at(end - 1)
        theirs = log.epochs.epoch_at(end - 1) if end <= log.end_offset else None
        if own != theirs:
            raise Violation(
                "8",
                f"{change} leads epoch {epoch} and counts offset {end} of broker {node}, whose "
                f"record there is of epoch {theirs} instead of {own}",
            )
