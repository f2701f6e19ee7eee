"""Finds out what an event changed, and calls the invariants for that only.

After each event the replicas of the brokers whose code ran are compared with their last known
state. The watermark of a leader makes records committed, before any invariant looks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from sawlog.cluster import znodes
from sawlog.cluster.store_tree import DELETED, Change
from sawlog.core.ids import NodeId, PartitionIndex, TopicName, TopicPartition
from sawlog.core.store import Create, Operation
from sawlog.replication.replica import Replica
from sawlog.replication.roles import Role
from sawlog.simulation.invariants.committed_log import CommittedLog, PartitionKey

if TYPE_CHECKING:
    from sawlog.simulation.world.simulated_cluster import SimulatedCluster
    from sawlog.simulation.world.simulated_node import SimulatedNode

_BROKERS = f"{znodes.BROKER_IDS}/"


class Seen(NamedTuple):
    """The state of a replica after an event."""

    role: Role
    leader_epoch: int
    start_offset: int
    end_offset: int
    flushed_offset: int
    high_watermark: int
    truncations: int


@dataclass(slots=True)
class ReplicaChange:
    """A replica that an event changed; `before` is None for a new process or a new replica."""

    node: "SimulatedNode"
    replica: Replica
    partition: CommittedLog
    before: Seen | None
    now: Seen

    @property
    def is_in_sync(self) -> bool:
        """Whether the stored in-sync set has the replica, with the log that it runs on."""
        stored = self.partition.stored
        member = None if stored is None else stored.member(self.node.id)
        return member is not None and self.node.broker is not None and self.node.has_log_of(member)

    @property
    def leads(self) -> bool:
        return self.now.role is Role.LEADER

    @property
    def leads_newest(self) -> bool:
        """Whether it leads in the stored epoch; a leader that was deposed may not know it yet."""
        stored = self.partition.stored
        return self.leads and stored is not None and stored.leader_epoch == self.now.leader_epoch

    def __str__(self) -> str:
        return f"{self.partition.key} on broker {self.node.id}"


def _commits(before: Seen | None, now: Seen) -> bool:
    """Whether the watermark is a leader's, or that of one that was closed in this event."""
    was_leader = before is not None and before.role is Role.LEADER
    return now.role is Role.LEADER or (was_leader and now.role is Role.CLOSED)


class StoreWrite(NamedTuple):
    """A multi that landed; `session` is the store session of the writer, and `controller` that of
    the controller after it, 0 without one. `writer` is the broker of the session, also of one that
    has ended; None before its first registration."""

    operations: Sequence[Operation]
    session: int
    controller: int
    writer: NodeId | None


class StateChange(NamedTuple):
    """A write of a partition's state node. `seen_version` is the newest version of the node that
    the broker of the writer has read or written by itself; None if its process is gone."""

    partition: CommittedLog
    before: znodes.PartitionState | None
    now: znodes.PartitionState
    write: StoreWrite
    seen_version: int | None


class Invariant(Protocol):
    """Raises Violation if an event broke a promise."""

    def replica_changed(self, change: ReplicaChange) -> None: ...

    def state_changed(self, change: StateChange) -> None: ...

    def store_written(self, write: StoreWrite) -> None: ...


class BrokerInvariant(Protocol):
    """Raises Violation if a broker whose code ran in an event broke a promise."""

    def broker_ran(self, node: "SimulatedNode") -> None: ...


class Observer:
    """Keeps the last known state of all replicas, and the truth about all partitions."""

    def __init__(
        self,
        cluster: "SimulatedCluster",
        invariants: Sequence[Invariant],
        broker_invariants: Sequence[BrokerInvariant] = (),
        *,
        is_compacted: bool = False,
    ) -> None:
        self._cluster = cluster
        self._is_compacted = is_compacted
        self._invariants = list(invariants)
        self._broker_invariants = broker_invariants
        self._seen: dict[NodeId, dict[PartitionKey, tuple[Replica, Seen]]] = {}
        self._writes: list[StoreWrite] = []
        self._states: list[StateChange] = []
        self._brokers: dict[int, NodeId] = {}  # by session
        self.partitions: dict[PartitionKey, CommittedLog] = {}
        cluster.service.on_write = self._store_written
        cluster.on_end = self._process_ends

    def add(self, invariant: Invariant) -> None:
        """Call this invariant from now on, too, after the others."""
        self._invariants.append(invariant)

    def after_event(self) -> None:
        """Check what the last event has changed."""
        for node_id in sorted(self._cluster.touched):
            node = self._cluster.nodes[node_id]
            if node.broker is None:
                self._seen.pop(node_id, None)
                continue
            self._look_at(node, list(node.broker.replicas.by_partition.values()))
            for each in self._broker_invariants:
                each.broker_ran(node)
        if self._writes:
            writes, self._writes = self._writes, []
            states, self._states = self._states, []
            for write in writes:
                for invariant in self._invariants:
                    invariant.store_written(write)
            for state in states:
                self._state_changed(state)

    def _process_ends(self, node: "SimulatedNode") -> None:
        """Look once more at a process that ends in this event: it may have answered in it."""
        if node.broker is not None:
            self._look_at(node, list(node.broker.replicas.by_partition.values()))

    def _look_at(self, node: "SimulatedNode", replicas: list[Replica]) -> None:
        seen = self._seen.setdefault(node.id, {})
        changes: list[ReplicaChange] = []
        for replica in replicas:
            key = PartitionKey(replica.name, replica.topic_id)
            log = replica.log
            now = Seen(
                replica.role,
                replica.leader_epoch,
                log.start_offset,
                log.end_offset,
                log.flushed_offset,
                replica.high_watermark,
                log.truncations,
            )
            last = seen.get(key)
            if last is not None and last[0] is replica and last[1] == now:
                continue
            before = last[1] if last is not None and last[0] is replica else None
            seen[key] = (replica, now)
            partition = self.partition(key)
            changes.append(ReplicaChange(node, replica, partition, before, now))
            self._note(changes[-1])
            if _commits(before, now) and now.high_watermark > partition.high_watermark:
                partition.learn(log, now.high_watermark)
        for change in changes:
            for invariant in self._invariants:
                invariant.replica_changed(change)

    def partition(self, key: PartitionKey) -> CommittedLog:
        found = self.partitions.get(key)
        if found is None:
            found = self.partitions[key] = CommittedLog(key, is_compacted=self._is_compacted)
        return found

    def _note(self, change: ReplicaChange) -> None:
        before, now = change.before, change.now
        if before is None or before.role is not now.role or before.leader_epoch != now.leader_epoch:
            self._cluster.trace.note(
                f"{change}: {now.role.value} in epoch {now.leader_epoch}, log end "
                f"{now.end_offset}, flushed {now.flushed_offset}, watermark {now.high_watermark}"
            )
        elif before.truncations != now.truncations:
            self._cluster.trace.note(
                f"{change}: truncated from {before.end_offset} to {now.end_offset}"
            )

    # The store

    def _store_written(
        self, operations: Sequence[Operation], session: int, changes: Sequence[Change]
    ) -> None:
        tree = self._cluster.service.tree
        for operation in operations:
            if isinstance(operation, Create) and operation.path.startswith(_BROKERS):
                self._brokers[session] = NodeId(int(operation.path[len(_BROKERS) :]))
        stat = tree.exists(znodes.CONTROLLER)
        controller = 0 if stat is None else stat.owner
        write = StoreWrite(operations, session, controller, self._brokers.get(session))
        self._writes.append(write)
        for change in changes:
            parts = change.path.split("/")
            if len(parts) != 7 or parts[6] != "state":
                continue
            name = TopicPartition(TopicName(parts[3]), PartitionIndex(int(parts[5])))
            if change.kind == DELETED:
                self._forget_state(name)
                continue
            node = tree.get(change.path)
            topic = tree.get(znodes.topic_path(parts[3]))
            key = PartitionKey(name, znodes.decode_assignment(topic).topic_id)
            partition = self.partition(key)
            now = znodes.decode_state(node)
            seen_version = self._seen_version(write, key)
            self._states.append(StateChange(partition, partition.stored, now, write, seen_version))
            partition.stored = now

    def _forget_state(self, name: TopicPartition) -> None:
        for key, partition in self.partitions.items():
            if key.name == name:
                partition.stored = None
        self._cluster.trace.note(f"{name}: the partition is deleted")

    def _seen_version(self, write: StoreWrite, key: PartitionKey) -> int | None:
        """The newest version of a partition's state that the writer of it has seen."""
        node = None if write.writer is None else self._cluster.nodes[write.writer]
        if node is None or node.broker is None or node.store is None:
            return None
        if node.store.session_id != write.session:
            return None
        view = node.broker.components.member.view
        topic = view.topics.get(key.name.topic)
        state = None if topic is None else topic.states.get(key.name.partition)
        if not view.is_loaded or state is None:
            return None
        replica = node.broker.replicas.by_partition.get(key.name)
        leader = None if replica is None else replica.leader
        return max(state.version, -1 if leader is None else leader.in_sync.partition_epoch)

    def _state_changed(self, change: StateChange) -> None:
        before, now = change.before, change.now
        self._cluster.trace.note(
            f"{change.partition.key}: leader {now.leader} epoch {now.leader_epoch} in-sync "
            f"{list(now.isr)} version {now.version} (before: "
            + (
                f"{before.leader}, {before.leader_epoch}, {list(before.isr)})"
                if before
                else "none)"
            )
        )
        for invariant in self._invariants:
            invariant.state_changed(change)
