"""The pending work of the controller, as pure functions of the view: one step for each change.

A step is what must change together: one partition's state, a topic's part of a deletion, the end of
a topic's reassignments. The versions in its operations make a step of a stale view fail.
"""

from collections.abc import Container, Iterator
from enum import Enum
from typing import NamedTuple

from sawlog.cluster import znodes
from sawlog.cluster.leader_election import (
    Electorate,
    completed_state,
    first_state,
    next_state,
    preferred_state,
)
from sawlog.cluster.store_view import StoreView, TopicView
from sawlog.cluster.unclean_elections import UncleanElection
from sawlog.cluster.znodes import PartitionState
from sawlog.core.config import BrokerConfig, TopicConfig
from sawlog.core.ids import NodeId, PartitionIndex, TopicName, TopicPartition
from sawlog.core.store import Check, Create, Delete, Operation, SetData

MAX_BYTES = 512 * 1024
"""The size of one multi, by `size_of`: half of ZooKeeper's limit for a request."""
MAX_OPERATIONS = 1500
_OPERATION_BYTES = 128  # header, lengths and access control list
MAX_PARTITION_INDEX = 2**31 - 1
_WHOLE_TOPIC = -1
_REASSIGNMENT = -2


class StepKey(NamedTuple):
    """Identifies a step, so that it is not written twice while the view is stale."""

    topic_id: bytes
    partition: int  # or _WHOLE_TOPIC, _REASSIGNMENT
    version: int  # of the node that changes; -1 before its creation


class StepKind(Enum):
    """In the order in which they are written: deletions free space."""

    DELETION = "deletion"
    ELECTION = "election"
    CREATION = "creation"


class Step(NamedTuple):
    key: StepKey
    operations: list[Operation]
    kind: StepKind
    is_led: bool = False  # an election that leaves the leader as it is
    unclean: UncleanElection | None = None


def size_of(operations: list[Operation]) -> int:
    """Return at least the bytes that these operations have in a request."""
    total = 0
    for operation in operations:
        total += _OPERATION_BYTES + 2 * len(operation.path)
        if isinstance(operation, Create | SetData):
            total += len(operation.data)
    return total


class Pending(NamedTuple):
    """The view, and what the controller needs besides to find its steps."""

    view: StoreView
    config: BrokerConfig
    controller_epoch: int
    taken: Container[StepKey]
    prefers_first: bool = False  # whether leaders move to the first replica where they can

    def electorate(self, topic: TopicView) -> Electorate:
        allowed: bool = TopicConfig(self.config, topic.configs)["unclean.leader.election.enable"]
        return Electorate(self.view.brokers, self.controller_epoch, allowed)

    def steps(self) -> list[Step]:
        """Return all pending steps by topic and partition, those in `taken` without operations.

        Topics without pending steps are settled in the view."""
        view = self.view
        found: list[Step] = []
        for name in sorted(view.delete_requests):
            found += _deletion(view, name, self.taken)
        settled: list[TopicName] = []
        for name in sorted(view.unsettled):
            topic = view.topics.get(name)
            pending = [] if topic is None or _is_going(view, topic) else list(_topic(self, topic))
            found += pending
            if not pending:
                settled.append(name)
        view.settle(settled)
        return found


# Deletions


def _is_going(view: StoreView, topic: TopicView) -> bool:
    request = view.delete_requests.get(topic.name)
    asked = request is not None and request.matches(topic.assignment.topic_id)
    return asked or topic.is_vanishing


def _deletion(view: StoreView, name: TopicName, taken: Container[StepKey]) -> Iterator[Step]:
    """Delete the topic's nodes, partitions first, and with the last ones its delete request; a
    request for a topic that is gone already is deleted alone.

    A topic with many partitions takes several multis. In between, its request makes every
    controller go on.
    """
    topic = view.topics.get(name)
    request = Delete(znodes.delete_request_path(name))
    if topic is not None and not topic.is_read:
        return
    asked = view.delete_requests[name]
    if topic is None or not asked.matches(topic.assignment.topic_id):
        key = StepKey(name.encode(), _WHOLE_TOPIC, asked.created)
        yield Step(key, [request], StepKind.DELETION)
        return
    last: list[Operation] = [
        Delete(znodes.partitions_path(name)),
        Delete(znodes.topic_path(name)),
        Delete(znodes.config_path(name)),
        request,
    ]
    longest = size_of(_partition_deletes(name, MAX_PARTITION_INDEX))
    at_once = min((MAX_BYTES - size_of(last)) // longest, (MAX_OPERATIONS - len(last)) // 2)
    # The part with the highest partitions is next; its number stays while the view catches up.
    part = max(topic.states, default=0) // at_once
    key = StepKey(topic.assignment.topic_id, _WHOLE_TOPIC, part)
    operations: list[Operation] = []
    if key not in taken:
        for index in sorted(topic.states):
            if index // at_once == part:
                operations += _partition_deletes(name, index)
        operations += [] if part else last
    yield Step(key, operations, StepKind.DELETION)


def _partition_deletes(name: TopicName, index: int) -> list[Operation]:
    return [Delete(znodes.state_path(name, index)), Delete(znodes.partition_path(name, index))]


# Elections and new partitions


def _topic(pending: Pending, topic: TopicView) -> Iterator[Step]:
    electorate = pending.electorate(topic)
    topic_id, version = topic.assignment.topic_id, topic.assignment.version
    completed: dict[int, PartitionState] = {}
    for index, replicas in enumerate(topic.assignment.replicas):
        old = topic.states.get(index)
        if old is None:
            key = StepKey(topic_id, index, -1)
            is_taken = key in pending.taken
            operations = [] if is_taken else _creation(topic, index, electorate)
            yield Step(key, operations, StepKind.CREATION)
            continue
        wanted = next_state(electorate, replicas, old)
        if wanted is None and index in topic.assignment.reassignments:
            removing = topic.assignment.reassignment(index).removing
            done = completed_state(electorate, replicas, removing, old)
            if done is not None:
                completed[index] = done
                continue
        if wanted is None and pending.prefers_first:
            wanted = preferred_state(electorate, replicas, old)
        if wanted is not None:
            yield _election(pending, topic, index, old, wanted)
    if completed:
        key = StepKey(topic_id, _REASSIGNMENT, version)
        is_taken = key in pending.taken
        operations = [] if is_taken else _completion(topic, completed)
        yield Step(key, operations, StepKind.ELECTION)


def _election(
    pending: Pending, topic: TopicView, index: int, old: PartitionState, new: PartitionState
) -> Step:
    key = StepKey(topic.assignment.topic_id, index, old.version)
    operations = [] if key in pending.taken else [set_state(topic, index, old, new)]
    name = TopicPartition(topic.name, PartitionIndex(index))
    unclean = UncleanElection.between(name, old, new)
    return Step(key, operations, StepKind.ELECTION, new.leader == old.leader, unclean)


def _creation(topic: TopicView, index: int, electorate: Electorate) -> list[Operation]:
    state = first_state(electorate, topic.assignment.replicas[index])
    return [
        Create(znodes.partition_path(topic.name, index)),
        Create(znodes.state_path(topic.name, index), znodes.encode_state(state)),
    ]


def set_state(topic: TopicView, index: int, old: PartitionState, new: PartitionState) -> Operation:
    path = znodes.state_path(topic.name, index)
    return SetData(path, znodes.encode_state(new), old.version)


def _completion(topic: TopicView, completed: dict[int, PartitionState]) -> list[Operation]:
    """End reassignments: the topic's node and the states in one multi. Those that do not fit into
    it follow when the view shows the first."""
    assignment = topic.assignment
    replicas: list[tuple[NodeId, ...]] = list(assignment.replicas)
    reassignments = dict(assignment.reassignments)
    operations: list[Operation] = []
    for index, new in completed.items():
        old = topic.states[index]
        removing = reassignments[index].removing
        kept = tuple(node for node in replicas[index] if node not in removing)
        is_new = (old.leader, old.members) != (new.leader, new.members)
        path = znodes.state_path(topic.name, index)
        operations.append(set_state(topic, index, old, new) if is_new else Check(path, old.version))
        replicas[index] = kept
        del reassignments[index]
        if size_of(operations) > MAX_BYTES // 2:
            break
    data = znodes.encode_assignment(assignment.topic_id, replicas, reassignments)
    operations.append(SetData(znodes.topic_path(topic.name), data, assignment.version))
    return operations
