"""Leader election and topic deletion as pure functions: the pending steps of a view.

The leader is the first live replica in the assignment's order that is in sync; if there is none and
the topic allows unclean election, the first live one. A leader that restarted is elected again with
a new leader epoch, because only one process may append in an epoch.
"""

from collections.abc import Container, Iterator
from enum import Enum
from typing import NamedTuple

from sawlog.cluster import znodes
from sawlog.cluster.metadata_image import NO_NODE, InSyncMember
from sawlog.cluster.store_view import StoreView, TopicView
from sawlog.cluster.znodes import PartitionState
from sawlog.core.config import BrokerConfig, TopicConfig
from sawlog.core.ids import LeaderEpoch, NodeId, TopicName
from sawlog.core.store import Create, Delete, Operation, SetData


class StepKey(NamedTuple):
    """Identifies a step, so that it is not written twice while the view is stale."""

    topic_id: bytes
    partition: int  # -1: the whole topic
    leader_epoch: int


class StepKind(Enum):
    """In the order in which they are written: deletions free space."""

    DELETION = "deletion"
    ELECTION = "election"
    CREATION = "creation"


class Step(NamedTuple):
    key: StepKey
    operations: list[Operation]
    kind: StepKind


def steps(
    view: StoreView, config: BrokerConfig, controller_epoch: int, taken: Container[StepKey]
) -> list[Step]:
    """Return all pending steps by topic and partition, those in `taken` without operations.

    Topics without pending steps are settled in the view."""
    found: list[Step] = []
    for name in sorted(view.delete_requests):
        found += _deletion(view, name)
    settled: list[TopicName] = []
    for name in sorted(view.unsettled):
        topic = view.topics.get(name)
        if topic is None or _is_being_deleted(view, topic):
            settled.append(name)
            continue
        pending = list(_topic_steps(view, topic, config, controller_epoch, taken))
        found += pending
        if not pending:
            settled.append(name)
    view.settle(settled)
    return found


def _is_being_deleted(view: StoreView, topic: TopicView) -> bool:
    request = view.delete_requests.get(topic.name)
    return request is not None and request.matches(topic.assignment.topic_id)


def _deletion(view: StoreView, name: TopicName) -> Iterator[Step]:
    """Delete the topic's nodes and its delete request in one multi; a request for a topic that is
    gone already is deleted alone."""
    topic = view.topics.get(name)
    request = Delete(znodes.delete_request_path(name))
    if topic is not None and not topic.is_read:
        return
    if topic is None or not _is_being_deleted(view, topic):
        key = StepKey(name.encode(), -1, view.delete_requests[name].created)
        yield Step(key, [request], StepKind.DELETION)
        return
    operations: list[Operation] = []
    for index in topic.states:
        operations.append(Delete(znodes.state_path(name, index)))
        operations.append(Delete(znodes.partition_path(name, index)))
    operations += [
        Delete(znodes.partitions_path(name)),
        Delete(znodes.topic_path(name)),
        Delete(znodes.config_path(name)),
        request,
    ]
    yield Step(
        StepKey(topic.assignment.topic_id, -1, len(topic.states)), operations, StepKind.DELETION
    )


def _topic_steps(
    view: StoreView,
    topic: TopicView,
    config: BrokerConfig,
    controller_epoch: int,
    taken: Container[StepKey],
) -> Iterator[Step]:
    for index, replicas in enumerate(topic.assignment.replicas):
        old = topic.states.get(index)
        if old is not None and view.is_leading(old):
            continue
        epoch = LeaderEpoch(0 if old is None else old.leader_epoch + 1)
        key = StepKey(topic.assignment.topic_id, index, epoch)
        kind = StepKind.CREATION if old is None else StepKind.ELECTION
        if key in taken:
            yield Step(key, [], kind)
            continue
        new = _elect(view, topic, replicas, old, epoch, config, controller_epoch)
        if new is None:
            continue
        path = znodes.state_path(topic.name, index)
        operations: list[Operation] = []
        if old is not None:
            operations.append(SetData(path, znodes.encode_state(new), old.version))
        else:
            operations.append(Create(znodes.partition_path(topic.name, index)))
            operations.append(Create(path, znodes.encode_state(new)))
        yield Step(key, operations, kind)


def _elect(
    view: StoreView,
    topic: TopicView,
    replicas: tuple[NodeId, ...],
    old: PartitionState | None,
    epoch: LeaderEpoch,
    config: BrokerConfig,
    controller_epoch: int,
) -> PartitionState | None:
    """Return the next state of a partition without a live leader, or None if it cannot change."""
    live = [node for node in replicas if node in view.brokers]
    if old is None:
        # A new partition: all replicas are empty, so any of them may lead.
        leader, isr = (live[0], tuple(live)) if live else (NO_NODE, replicas)
    else:
        in_sync = [node for node in live if node in old.isr]
        if in_sync:
            leader, isr = in_sync[0], tuple(in_sync)
        elif live and _allows_unclean_election(topic, config):
            leader, isr = live[0], (live[0],)
        elif old.leader != NO_NODE:
            leader, isr = NO_NODE, old.isr
        else:
            return None
    members = tuple(_member(view, old, node) for node in isr)
    return PartitionState(leader, epoch, members, controller_epoch)


def _member(view: StoreView, old: PartitionState | None, node: NodeId) -> InSyncMember:
    broker = view.brokers.get(node)
    if broker is not None:
        return InSyncMember(node, broker.epoch, broker.directory_id)
    known = None if old is None else old.member(node)
    return known or InSyncMember(node, 0, "")


def _allows_unclean_election(topic: TopicView, config: BrokerConfig) -> bool:
    allowed: bool = TopicConfig(config, topic.configs)["unclean.leader.election.enable"]
    return allowed
