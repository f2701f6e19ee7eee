"""Guarantees 12 and 13: partition states change by compare-and-set over a state that the writer has
seen, and only the controller creates and deletes partitions, in multis that check its epoch.

Without that epoch a leader changes its in-sync set, a damaged member takes itself out, a
reassignment begins an epoch of the same leader, or an ordered election takes the preferred leader.
"""

from typing import TYPE_CHECKING

from sawlog.cluster import znodes
from sawlog.cluster.metadata_image import DAMAGED_DIRECTORY, NO_NODE
from sawlog.core.store import ANY_VERSION, Check, Create, Delete, Operation, SetData
from sawlog.simulation.invariants.no_invariant import NoInvariant
from sawlog.simulation.invariants.observer import StateChange, StoreWrite
from sawlog.simulation.invariants.violation import Violation

if TYPE_CHECKING:
    from sawlog.simulation.world.simulated_cluster import SimulatedCluster

_TOPICS = f"{znodes.BROKER_TOPICS}/"


class StoreWrites(NoInvariant):
    def __init__(self, cluster: "SimulatedCluster") -> None:
        self._cluster = cluster

    # Whole writes

    def store_written(self, write: StoreWrite) -> None:
        is_elected = any(_creates(each, znodes.CONTROLLER) for each in write.operations)
        epochs = [
            operation
            for operation in write.operations
            if isinstance(operation, SetData) and operation.path == znodes.CONTROLLER_EPOCH
        ]
        if is_elected != bool(epochs) or any(each.version == ANY_VERSION for each in epochs):
            raise Violation(
                "13",
                f"broker {write.writer}: /controller and /controller_epoch were not written in one "
                f"multi with a version: {write.operations}",
            )
        is_controllers = _checks(write, znodes.CONTROLLER_EPOCH)
        for operation in write.operations:
            if not operation.path.startswith(_TOPICS):
                continue
            if is_controllers and write.controller != write.session:
                raise Violation(
                    "13", f"{operation.path}: the deposed controller {write.writer} wrote it"
                )
            if not is_controllers and _is_partition_node(operation):
                raise Violation(
                    "13",
                    f"{operation.path}: broker {write.writer} created or deleted it without the "
                    "controller's epoch",
                )

    # Partition states

    def state_changed(self, change: StateChange) -> None:
        before, key = change.before, change.partition.key
        if before is None or change.now.created != before.created:
            return
        path = znodes.state_path(*key.name)
        for operation in change.write.operations:
            if not isinstance(operation, SetData) or operation.path != path:
                continue
            if operation.version == ANY_VERSION:
                raise Violation("12", f"{key}: the state was written without a version")
            if change.seen_version is not None and change.seen_version < before.version:
                raise Violation(
                    "12",
                    f"{key}: broker {change.write.writer} has written over version "
                    f"{before.version} of the state; it had seen {change.seen_version}",
                )
        if _checks(change.write, znodes.CONTROLLER_EPOCH):
            return
        if not (
            self._is_leaders_change(change, before)
            or self._is_withdrawal(change, before)
            or self._is_reassignment(change, before)
            or self._is_preferred_election(change, before)
        ):
            raise Violation(
                "13",
                f"{key}: broker {change.write.writer} wrote the state without the controller's "
                f"epoch: {change.now}; before: {before}",
            )

    def _is_leaders_change(self, change: StateChange, before: znodes.PartitionState) -> bool:
        """Whether the leader has changed the in-sync set."""
        now = change.now
        return (now.leader, now.leader_epoch) == (
            before.leader,
            before.leader_epoch,
        ) and change.write.writer == now.leader

    def _is_withdrawal(self, change: StateChange, before: znodes.PartitionState) -> bool:
        """Whether one member has taken itself out of the set, and of the lead if it had that."""
        now, node = change.now, change.write.writer
        if node is None or before.member(node) is None:
            return False
        if now.leader_epoch not in (before.leader_epoch, before.leader_epoch + 1):
            return False
        member = now.member(node)
        is_out = member is None or member.directory_id == DAMAGED_DIRECTORY
        return is_out and now.leader == (NO_NODE if before.leader == node else before.leader)

    def _is_reassignment(self, change: StateChange, before: znodes.PartitionState) -> bool:
        """Whether the topic's node was written too, and only the epoch of the leader changed."""
        now, topic = change.now, znodes.topic_path(change.partition.key.name.topic)
        return (
            (now.leader, now.members) == (before.leader, before.members)
            and now.leader_epoch == before.leader_epoch + 1
            and any(
                isinstance(operation, SetData) and operation.path == topic
                for operation in change.write.operations
            )
        )

    def _is_preferred_election(self, change: StateChange, before: znodes.PartitionState) -> bool:
        """Whether the first replica of the assignment was elected, out of an unchanged set, by a
        write that checks the assignment."""
        now, name = change.now, change.partition.key.name
        topic = znodes.topic_path(name.topic)
        if not _checks(change.write, topic):
            return False
        assignment = znodes.decode_assignment(self._cluster.service.tree.get(topic))
        return (
            now.leader == assignment.replicas[name.partition][0]
            and now.members == before.members
            and now.leader_epoch == before.leader_epoch + 1
        )


def _checks(write: StoreWrite, path: str) -> bool:
    return any(isinstance(each, Check) and each.path == path for each in write.operations)


def _creates(operation: Operation, path: str) -> bool:
    return isinstance(operation, Create) and operation.path == path


def _is_partition_node(operation: Operation) -> bool:
    """Whether a partition's state is created or deleted, or a topic's own node deleted."""
    parts = operation.path.split("/")
    if isinstance(operation, Delete):
        return len(parts) == 4 or parts[-1] == "state"
    return isinstance(operation, Create) and parts[-1] == "state"
