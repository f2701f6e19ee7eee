"""Guarantee 11: a follower truncates where its log and that of its leader part, and only there.

Below the point of a truncation both logs are the same, and the first record that is removed is not
the leader's. So no committed record is ever removed. A follower that appends has truncated before.
"""

from typing import TYPE_CHECKING

from sawlog.replication.roles import Role
from sawlog.simulation.invariants.no_invariant import NoInvariant
from sawlog.simulation.invariants.observer import ReplicaChange
from sawlog.simulation.invariants.violation import Violation
from sawlog.storage.leader_epochs import EpochEntry, LeaderEpochs

if TYPE_CHECKING:
    from sawlog.core.ids import NodeId
    from sawlog.simulation.invariants.committed_log import PartitionKey
    from sawlog.simulation.world.simulated_cluster import SimulatedCluster
    from sawlog.storage.log import Log

NO_RECORD = -1


class Truncations(NoInvariant):
    """Remembers the epochs of each log, to know those of the records that a truncation removed."""

    def __init__(self, cluster: "SimulatedCluster") -> None:
        self._cluster = cluster
        self._epochs: dict[tuple[NodeId, PartitionKey], tuple[EpochEntry, ...]] = {}

    def replica_changed(self, change: ReplicaChange) -> None:
        before, now, log = change.before, change.now, change.replica.log
        key = (change.node.id, change.partition.key)
        earlier, self._epochs[key] = self._epochs.get(key, ()), log.epochs.entries
        if before is None or change.node.is_offline or change.node.disk.has_flipped_bits:
            return
        if before.truncations != now.truncations:
            if before.start_offset <= now.end_offset < before.end_offset:
                self._check_removed(change, LeaderEpochs(earlier).epoch_at(now.end_offset))
        elif now.role is Role.FOLLOWER and now.end_offset > before.end_offset > now.start_offset:
            self._check_appended(change, before.end_offset - 1)

    def _check_removed(self, change: ReplicaChange, epoch: int) -> None:
        end = change.now.end_offset
        committed = change.partition.batches.get(end)
        if committed is not None and committed.leader_epoch == epoch:
            raise Violation(
                "11",
                f"{change}: truncated to {end}; its record there, of epoch {epoch}, was committed "
                f"(the watermark is {change.partition.high_watermark})",
            )
        leader = self._leaders_log(change)
        if leader is not None and _epoch_at(leader, end) == epoch:
            raise Violation(
                "11",
                f"{change}: truncated to {end}; the leader has the same record of epoch {epoch}",
            )

    def _check_appended(self, change: ReplicaChange, last: int) -> None:
        leader, own = self._leaders_log(change), change.replica.log.epochs.epoch_at(last)
        if leader is None or leader.start_offset > last:
            return
        if _epoch_at(leader, last) != own:
            raise Violation(
                "11",
                f"{change}: appended after offset {last} of epoch {own}, without a truncation; the "
                f"leader has epoch {_epoch_at(leader, last)} there",
            )

    def _leaders_log(self, change: ReplicaChange) -> "Log | None":
        """The log of the leader of the replica's epoch, while it leads."""
        follower, key = change.replica.follower, change.partition.key
        broker = None if follower is None else self._cluster.nodes[follower.leader].broker
        replica = None if broker is None else broker.replicas.by_partition.get(key.name)
        if replica is None or replica.topic_id != key.topic_id or replica.leader is None:
            return None
        return replica.log if replica.leader_epoch == change.now.leader_epoch else None


def _epoch_at(log: "Log", offset: int) -> int:
    """The epoch of a record; NO_RECORD beyond the end of the log."""
    return log.epochs.epoch_at(offset) if offset < log.end_offset else NO_RECORD
