"""Guarantees 9 and 10: leader epochs increase, each has one appender, and the cache knows them."""

from typing import TYPE_CHECKING

from sawlog.replication.roles import Role
from sawlog.simulation.invariants.committed_log import PartitionKey, batches_between
from sawlog.simulation.invariants.no_invariant import NoInvariant
from sawlog.simulation.invariants.observer import ReplicaChange, StateChange
from sawlog.simulation.invariants.violation import Violation

if TYPE_CHECKING:
    from sawlog.core.ids import NodeId


class LeaderEpochsIncrease(NoInvariant):
    """Remembers which process appended in which epoch."""

    def __init__(self) -> None:
        self._appenders: dict[tuple[PartitionKey, int], tuple[NodeId, int]] = {}

    def state_changed(self, change: StateChange) -> None:
        before, now = change.before, change.now
        if before is None:
            return
        if now.leader_epoch < before.leader_epoch:
            raise Violation(
                "9",
                f"{change.partition.key}: the stored leader epoch went from "
                f"{before.leader_epoch} to {now.leader_epoch}",
            )
        if now.leader != before.leader and now.leader_epoch == before.leader_epoch:
            raise Violation(
                "9",
                f"{change.partition.key}: epoch {now.leader_epoch} has the leaders "
                f"{before.leader} and {now.leader}",
            )

    def replica_changed(self, change: ReplicaChange) -> None:
        before, now = change.before, change.now
        if before is None or before.role is not now.role:
            return
        if change.leads and now.end_offset > before.end_offset:
            key = (change.partition.key, now.leader_epoch)
            process = (change.node.id, change.node.lives)
            first = self._appenders.setdefault(key, process)
            if first != process:
                raise Violation(
                    "9",
                    f"{change.partition.key}: brokers {first[0]} and {process[0]} (life "
                    f"{first[1]} and {process[1]}) append in epoch {now.leader_epoch}",
                )


class EpochCache(NoInvariant):
    """Compares the cache of leader epochs with the batches that an event has appended, and looks
    for epochs that a truncation should have removed. A directory that went offline is left out: the
    disk failed in the middle of a truncation, and the log is never used again as it is."""

    def replica_changed(self, change: ReplicaChange) -> None:
        if change.node.is_offline:
            return
        before, now = change.before, change.now
        start = 0 if before is None else min(before.end_offset, now.end_offset)
        entries = change.replica.log.epochs.entries
        is_truncated = before is not None and before.truncations != now.truncations
        latest = entries[-1].start_offset if entries and now.role is Role.FOLLOWER else -1
        if is_truncated and latest >= now.end_offset > 0:
            raise Violation(
                "10", f"{change} was truncated to {now.end_offset}, its cache not: {entries}"
            )
        if start == now.end_offset:
            return
        for batch in batches_between(change.replica.log, start, now.end_offset):
            known = -1
            for entry in entries:
                if entry.start_offset <= max(batch.base_offset, now.start_offset):
                    known = entry.epoch
            if known != batch.leader_epoch:
                raise Violation(
                    "10",
                    f"{change}: the batch at {batch.base_offset} has epoch "
                    f"{batch.leader_epoch}, the cache says {known}: {entries}",
                )
