"""Guarantees 3, 14b and 15: what acks=all acknowledges is committed, on enough in-sync replicas."""

from typing import TYPE_CHECKING

from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition
from sawlog.simulation.history.history import ACKS_ALL, Write
from sawlog.simulation.invariants.no_invariant import NoInvariant
from sawlog.simulation.invariants.observer import ReplicaChange, StateChange
from sawlog.simulation.invariants.violation import Violation
from sawlog.simulation.schedule import Schedule

if TYPE_CHECKING:
    from sawlog.simulation.invariants.committed_log import CommittedLog


class Acknowledgements(NoInvariant):
    """Knows when the in-sync set of each partition last had enough members: the stored one, or the
    one that the leader knew when its watermark moved. A leader whose session is suspended goes on
    with the set that it knows."""

    def __init__(self, schedule: Schedule, topic: str, min_in_sync: int) -> None:
        self._schedule = schedule
        self._topic = topic
        self._min_in_sync = min_in_sync
        self._partitions: dict[TopicPartition, CommittedLog] = {}
        self._enough_until_ms: dict[TopicPartition, int] = {}

    def state_changed(self, change: StateChange) -> None:
        name = change.partition.key.name
        self._partitions[name] = change.partition
        if change.before is not None and len(change.before.isr) >= self._min_in_sync:
            self._enough_until_ms[name] = self._schedule.monotonic_ms()

    def replica_changed(self, change: ReplicaChange) -> None:
        leader = change.replica.leader
        if leader is not None and len(leader.isr) >= self._min_in_sync:
            self._enough_until_ms[change.replica.name] = self._schedule.monotonic_ms()

    def acknowledged(self, write: Write) -> None:
        """Check a write in the moment in which its producer hears of its success."""
        name = TopicPartition(TopicName(self._topic), PartitionIndex(write.partition))
        partition = self._partitions.get(name)
        if write.acks != ACKS_ALL or partition is None:
            return
        if write.offset >= partition.high_watermark:
            raise Violation(
                "14b",
                f"{name}: {write.value!r} was acknowledged at offset {write.offset}; only "
                f"{partition.high_watermark} is committed",
            )
        stored = partition.stored
        enough_now = stored is not None and len(stored.isr) >= self._min_in_sync
        if not enough_now and self._enough_until_ms.get(name, 0) < write.began_ms:
            raise Violation(
                "15",
                f"{name}: {write.value!r} was acknowledged with the in-sync set "
                f"{stored.isr if stored else ()}, smaller than {self._min_in_sync}",
            )
