"""Guarantees 2, 6 and 14b: an in-sync replica has everything committed, flushed to its disk."""

from typing import TYPE_CHECKING

from sawlog.simulation.invariants.no_invariant import NoInvariant
from sawlog.simulation.invariants.observer import ReplicaChange
from sawlog.simulation.invariants.violation import Violation

if TYPE_CHECKING:
    from sawlog.core.ids import NodeId
    from sawlog.simulation.invariants.committed_log import PartitionKey
    from sawlog.simulation.simulated_disk import SimulatedDisk


class InSyncReplicas(NoInvariant):
    """Remembers what each disk has of each partition: a flush outlives the process that asked."""

    def __init__(self, *, commits_on_flush: bool) -> None:
        self._commits_on_flush = commits_on_flush
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
        members = set() if stored is None else set(stored.isr)
        if leader is not None and change.leads_newest:
            known = leader.in_sync
            members |= {member.node for member in known.stored + (known.pending or ())}
        for member in sorted(members):
            key = (member, change.partition.key)
            if self._ends.get(key, 0) < watermark:
                raise Violation(
                    "6",
                    f"{change} has the watermark {watermark}; the log of the in-sync broker "
                    f"{member} ends at {self._ends.get(key, 0)}",
                )
            _, flushed = self._flushed.get(key, (None, 0))
            if self._commits_on_flush and flushed < watermark:
                raise Violation(
                    "14b",
                    f"{change} has the watermark {watermark}; the in-sync broker {member} has "
                    f"flushed only {flushed}",
                )
