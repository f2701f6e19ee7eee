"""Guarantees 7, 14a and 16: who may join the in-sync set, and who of it may lead.

A replica joins with everything committed, under the present epoch of its broker. A replica is
elected only out of the stored set, on the data directory that it had.
"""

from typing import TYPE_CHECKING

from sawlog.cluster import znodes
from sawlog.cluster.metadata_image import NO_NODE, InSyncMember
from sawlog.simulation.invariants.no_invariant import NoInvariant
from sawlog.simulation.invariants.observer import StateChange
from sawlog.simulation.invariants.violation import Violation

if TYPE_CHECKING:
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
            if before.member(member.node) is None:
                self._joined(change, member)

    def _joined(self, change: StateChange, member: InSyncMember) -> None:
        key = change.partition.key
        stat = self._cluster.service.tree.exists(znodes.broker_path(member.node))
        if stat is not None and stat.created > member.broker_epoch:
            raise Violation(
                "14a",
                f"{key}: broker {member.node} joined the in-sync set under its earlier epoch "
                f"{member.broker_epoch}; it is {stat.created} now",
            )
        broker = self._cluster.nodes[member.node].broker
        replica = None if broker is None else broker.replicas.by_partition.get(key.name)
        if replica is None or stat is None or replica.topic_id != key.topic_id:
            return
        committed = change.partition.high_watermark
        log = replica.log
        reached = log.flushed_offset if self._cluster.commits_on_flush else log.end_offset
        if reached < committed:
            raise Violation(
                "7",
                f"{key}: broker {member.node} joined the in-sync set with {reached} flushed (or "
                f"written, with flush.policy=os); {committed} was committed",
            )

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
