"""Guarantees 9 and 10: leader epochs increase, each has one appender, and the cache knows them."""

from typing import TYPE_CHECKING

from sawlog.cluster.internal_topics import is_internal
from sawlog.replication.roles import Role
from sawlog.simulation.invariants.committed_log import PartitionKey, batches_between
from sawlog.simulation.invariants.no_invariant import NoInvariant
from sawlog.simulation.invariants.observer import ReplicaChange, Seen, StateChange
from sawlog.simulation.invariants.violation import Violation
from sawlog.storage.leader_epochs import EpochEntry, LeaderEpochs

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
    """Compares the cache of leader epochs with the one that the batches give. New batches extend
    the latter; after truncations, deletions, changes of role and restarts it is rebuilt from all of
    them. A last epoch without a batch may be missing there: a leader has not appended yet.

    Compaction removes batches, so there each one that is left must have the epoch of the cache. A
    directory that went offline is left out: the disk failed in the middle of a truncation, and the
    log is never used again as it is."""

    def __init__(self) -> None:
        self._rebuilt: dict[tuple[NodeId, PartitionKey], LeaderEpochs] = {}

    def replica_changed(self, change: ReplicaChange) -> None:
        log, before, now = change.replica.log, change.before, change.now
        if change.node.is_offline or log.is_closed:
            return
        key = (change.node.id, change.partition.key)
        start = now.start_offset
        if before is not None and _has_only_grown(before, now):
            start = before.end_offset
        else:
            self._rebuilt[key] = LeaderEpochs()
        rebuilt = self._rebuilt[key]
        for batch in batches_between(log, start, now.end_offset):
            rebuilt.assign(batch.leader_epoch, max(batch.base_offset, now.start_offset))
            if log.epochs.epoch_at(max(batch.base_offset, now.start_offset)) != batch.leader_epoch:
                raise Violation(
                    "10",
                    f"{change}: the batch at {batch.base_offset} has epoch {batch.leader_epoch}, "
                    f"the cache {log.epochs.entries}",
                )
        if not _may_be_compacted(change) and _used(log.epochs.entries, now) != rebuilt.entries:
            raise Violation(
                "10",
                f"{change}: the cache has {log.epochs.entries}, its batches {rebuilt.entries}",
            )


def _has_only_grown(before: Seen, now: Seen) -> bool:
    return (
        before.role is now.role
        and before.leader_epoch == now.leader_epoch
        and before.truncations == now.truncations
        and before.start_offset == now.start_offset
    )


def _used(entries: tuple[EpochEntry, ...], now: Seen) -> tuple[EpochEntry, ...]:
    """The entries without a last one that has no batch: the epoch of a leader that has not appended
    yet, or that of the last record if all are deleted."""
    is_unused = bool(entries) and entries[-1].start_offset >= now.end_offset
    may_be_unused = now.role is not Role.FOLLOWER or now.start_offset == now.end_offset
    return entries[:-1] if is_unused and may_be_unused else entries


def _may_be_compacted(change: ReplicaChange) -> bool:
    return change.partition.is_compacted or is_internal(change.partition.key.name.topic)
