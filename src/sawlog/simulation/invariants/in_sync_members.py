"""Guarantees 7, 14a and 16: which replicas may join the in-sync set, and which of it may lead.

A replica joins with everything committed, under the present epoch of its broker. The entry of a
member that restarted gets a newer epoch: on the same data directory the replica is the member that
it was, on another one it joins. A replica is elected only out of the stored set, on the
data directory that it had.
"""

from typing import TYPE_CHECKING

from sawlog.cluster import znodes
from sawlog.cluster.metadata_image import NO_NODE, BrokerImage, InSyncMember
from sawlog.simulation.invariants.no_invariant import NoInvariant
from sawlog.simulation.invariants.observer import StateChange
from sawlog.simulation.invariants.violation import Violation

if TYPE_CHECKING:
    from sawlog.replication.replica import Replica
    from sawlog.simulation.world.simulated_cluster import SimulatedCluster


class InSyncMembers(NoInvariant):
    """Compares the stored members with the registrations in the store and the logs of brokers."""

    def __init__(self, cluster: "SimulatedCluster") -> None:
        self._cluster = cluster

    def state_changed(self, change: StateChange) -> None:
        before, now = change.before, change.now
        if before is None:
            return
        if now.leader != NO_NODE and now.leader_epoch > before.leader_epoch:
            self._elected(change, before.member(now.leader))
        for member in now.members:
            entry = before.member(member.node)
            if entry is None or entry.directory_id != member.directory_id:
                self._joined(change, member)
            elif entry.broker_epoch != member.broker_epoch:
                self._restarted(change, entry, member)

    def _joined(self, change: StateChange, member: InSyncMember) -> None:
        broker = self._registered(member)
        if broker is not None and broker.epoch > member.broker_epoch:
            raise Violation(
                "14a",
                f"{change.partition.key}: broker {member.node} joined the in-sync set under its "
                f"earlier epoch {member.broker_epoch}; it is {broker.epoch} now",
            )
        replica, committed = self._replica(change, member), change.partition.high_watermark
        if replica is None:
            return
        if replica.leader_epoch < change.now.leader_epoch:
            raise Violation(
                "7",
                f"{change.partition.key}: broker {member.node} joined the in-sync set before it "
                f"fetched in epoch {change.now.leader_epoch}: it is in {replica.leader_epoch}",
            )
        start_offset = self._start_offset(change)
        if self._reached(replica) < start_offset and replica.leader_epoch == (
            change.now.leader_epoch
        ):
            raise Violation(
                "7",
                f"{change.partition.key}: broker {member.node} joined the in-sync set with "
                f"{self._reached(replica)} flushed (or written); the epoch begins at "
                f"{start_offset}",
            )
        if self._reached(replica) < committed:
            raise Violation(
                "7",
                f"{change.partition.key}: broker {member.node} joined the in-sync set with "
                f"{self._reached(replica)} flushed (or written, with flush.policy=os); {committed} "
                "was committed",
            )

    def _start_offset(self, change: StateChange) -> int:
        """The offset at which the leader's epoch began; 0 if the leader does not run any more."""
        key, now = change.partition.key, change.now
        node = self._cluster.nodes.get(now.leader)
        broker = None if node is None else node.broker
        replica = None if broker is None else broker.replicas.by_partition.get(key.name)
        if replica is None or replica.leader is None or replica.topic_id != key.topic_id:
            return 0
        return replica.leader.start_offset if replica.leader_epoch == now.leader_epoch else 0

    def _reached(self, replica: "Replica") -> int:
        log = replica.log
        return log.flushed_offset if self._cluster.commits_on_flush else log.end_offset

    def _restarted(self, change: StateChange, entry: InSyncMember, member: InSyncMember) -> None:
        """The entry has a new broker epoch. That process has what it had as a member; how much of
        it was flushed, only the earlier process knew. The broker may have restarted once more since
        the controller looked: the replica was a member before, so that is no addition."""
        if member.broker_epoch < entry.broker_epoch:
            raise Violation(
                "14a",
                f"{change.partition.key}: the entry of broker {member.node} went back from the "
                f"epoch {entry.broker_epoch} to {member.broker_epoch}",
            )
        broker = self._registered(member)
        is_present = broker is not None and broker.epoch == member.broker_epoch
        if broker is not None and is_present and broker.directory_id != member.directory_id:
            raise Violation(
                "14a",
                f"{change.partition.key}: broker {member.node} stayed in the in-sync set with the "
                f"directory {broker.directory_id}; its entry has {member.directory_id}",
            )
        replica, committed = self._replica(change, member), change.partition.high_watermark
        if replica is not None and replica.log.end_offset < committed:
            raise Violation(
                "2",
                f"{change.partition.key}: broker {member.node} stayed in the in-sync set with a "
                f"log that ends at {replica.log.end_offset}; {committed} was committed",
            )

    def _registered(self, member: InSyncMember) -> BrokerImage | None:
        """The registration of the member's broker, if there is one."""
        tree, path = self._cluster.service.tree, znodes.broker_path(member.node)
        if tree.exists(path) is None:
            return None
        return znodes.decode_broker(member.node, tree.get(path))

    def _replica(self, change: StateChange, member: InSyncMember) -> "Replica | None":
        """The replica of the member's process, if that runs and has opened its log."""
        key = change.partition.key
        broker = self._cluster.nodes[member.node].broker
        if broker is None or broker.components.member.broker_epoch != member.broker_epoch:
            return None
        replica = broker.replicas.by_partition.get(key.name)
        return None if replica is None or replica.topic_id != key.topic_id else replica

    def _elected(self, change: StateChange, member: InSyncMember | None) -> None:
        key, leader = change.partition.key, change.now.leader
        if member is None:
            raise Violation(
                "16",
                f"{key}: broker {leader} was elected; the in-sync set was "
                f"{change.before.isr if change.before else ()}",
            )
        broker = self._cluster.nodes[leader].broker
        if broker is None:
            return
        directory = broker.components.directory.directory_id
        if directory != member.directory_id:
            raise Violation(
                "16",
                f"{key}: broker {leader} was elected with the directory {directory}; the in-sync "
                f"set has {member.directory_id}",
            )
        if not self._cluster.nodes[leader].has_log_of(member):
            raise Violation(
                "16",
                f"{key}: broker {leader} was elected, whose machine lost its power after epoch "
                f"{member.broker_epoch} without a flush",
            )
