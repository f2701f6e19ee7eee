"""Reassignments of replicas (KIP-455): planned on the topic's node, completed by the controller.

    replicas 1 2 3, target 1 4  ->  replicas 1 4 2 3, adding 4, removing 2 3

Any broker writes the plan, by a compare-and-set of the topic's node. The replicas that are added
follow the leader; when all that stay are in sync, the controller removes the others, and moves the
leader if it was one of them. A partition has its original replicas again after a cancellation.
"""

from collections.abc import Callable, Mapping, Sequence

from sawlog.cluster import znodes
from sawlog.cluster.cluster_member import ClusterMember
from sawlog.cluster.controller_steps import MAX_BYTES, size_of
from sawlog.cluster.metadata_image import MetadataImage, PartitionImage, TopicImage
from sawlog.cluster.replica_placement import check_replicas
from sawlog.cluster.store_failures import store_failure
from sawlog.cluster.znodes import Assignment, PartitionState, Reassignment
from sawlog.core.config import BrokerConfig, TopicConfig
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import LeaderEpoch, NodeId, TopicName
from sawlog.core.store import BadVersion, Check, Node, Operation, Result, SetData, StoreError

Targets = Mapping[int, Sequence[int] | None]
"""The wanted replicas of each partition; None cancels its reassignment."""
Errors = dict[int, KafkaError | None]


class Reassignments:
    def __init__(self, member: ClusterMember, config: BrokerConfig) -> None:
        self._member = member
        self._config = config

    def alter(
        self,
        name: str,
        targets: Targets,
        timeout_ms: int,
        done: Callable[[Errors], None],
        *,
        may_change_factor: bool = True,
    ) -> None:
        """Begin, replace or cancel reassignments of one topic; `done` is called with the error of
        each partition, None for those that this broker's image shows."""
        _Alteration(
            self._member,
            self._config,
            TopicName(name),
            targets,
            timeout_ms,
            done,
            may_change_factor=may_change_factor,
        ).start()


class _Alteration:
    """One request for one topic: read the topic's node, plan, write, and wait for the image; if
    another broker wrote first, all of this again."""

    def __init__(
        self,
        member: ClusterMember,
        config: BrokerConfig,
        name: TopicName,
        targets: Targets,
        timeout_ms: int,
        done: Callable[[Errors], None],
        *,
        may_change_factor: bool,
    ) -> None:
        self._member = member
        self._config = config
        self._name = name
        self._targets = dict(targets)  # those that are not written yet
        self._timeout_ms = timeout_ms
        self._done = done
        self._may_change_factor = may_change_factor
        self._planned_on = member.image
        self._version = 0  # of the topic's node, once it is written
        self._errors: Errors = {}
        self._planned_indexes: list[int] = []  # the targets of the write in flight

    def start(self) -> None:
        if self._name in self._member.image.topics:
            self._member.store.get(znodes.topic_path(self._name), self._got)
        else:
            self._fail(_unknown_topic(self._name))

    def _fail(self, error: KafkaError) -> None:
        self._done(self._errors | dict.fromkeys(self._targets, error))

    def _got(self, node: Node | StoreError) -> None:
        self._planned_on = self._member.image
        topic = self._planned_on.topics.get(self._name)
        if isinstance(node, StoreError):
            self._fail(store_failure(node))
        elif topic is None or topic.id != znodes.decode_assignment(node).topic_id:
            self._fail(_unknown_topic(self._name))
        else:
            self._write(topic, znodes.decode_assignment(node))

    def _write(self, topic: TopicImage, old: Assignment) -> None:
        plan = self._planned(topic, old)
        if plan is None:
            self._await_change()
            return
        new, operations = plan
        if new == old:
            self._done(self._errors)
            return
        data = znodes.encode_assignment(new.topic_id, new.replicas, new.reassignments)
        operations.append(SetData(znodes.topic_path(self._name), data, old.version))
        self._version = old.version + 1
        self._member.store.multi(operations, self._written)

    def _written(self, result: list[Result] | StoreError) -> None:
        if isinstance(result, BadVersion):
            self._await_change()
            return
        if isinstance(result, StoreError):
            self._fail(store_failure(result))
            return
        for index in self._planned_indexes:
            del self._targets[index]
        then = self._again if self._targets else self._shown
        self._member.when(lambda _: self._is_shown(), self._timeout_ms, then)

    def _await_change(self) -> None:
        """Plan again on the next image."""
        planned_on = self._planned_on
        self._member.when(lambda image: image is not planned_on, self._timeout_ms, self._again)

    def _again(self, has_changed: bool) -> None:
        if has_changed:
            self.start()
        else:
            self._fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT))

    def _is_shown(self) -> bool:
        """Whether the image is built from the written version of the topic's node or a later."""
        view = self._member.view
        topic = view.topics.get(self._name)
        return self._name not in view.changed and (
            topic is None or topic.assignment.version >= self._version
        )

    def _shown(self, is_shown: bool) -> None:
        late = None if is_shown else KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        self._done({index: error or late for index, error in self._errors.items()})

    def _planned(
        self, topic: TopicImage, old: Assignment
    ) -> tuple[Assignment, list[Operation]] | None:
        """Return the next assignment, and the operations on the states that it was planned on; None
        if these are not known. Targets that do not fit into one multi are left to the next."""
        allows_unclean = TopicConfig(self._config, topic.configs)["unclean.leader.election.enable"]
        new = old
        operations: list[Operation] = []
        self._planned_indexes = []
        for index, target in self._targets.items():
            if size_of(operations) > MAX_BYTES // 2:
                break
            self._planned_indexes.append(index)
            self._errors[index] = None
            try:
                partition = _partition(topic, old, index)
                if target is not None:
                    check_replicas(self._planned_on.brokers, target, None)
                    if not self._may_change_factor:
                        _check_factor(old, index, target)
                planned = changed(new, index, target)
                if not allows_unclean:
                    _check_in_sync(topic.name, index, partition, planned)
            except KafkaError as error:
                self._errors[index] = error
                continue
            if planned == new:
                continue
            if set(planned.replicas[index]) <= set(old.replicas[index]):
                path = znodes.state_path(topic.name, index)
                operations.append(Check(path, partition.partition_epoch))
            else:
                view = self._member.view.topics.get(self._name)
                state = None if view is None else view.states.get(index)
                if state is None or state.version != partition.partition_epoch:
                    return None
                operations.append(_new_epoch(topic.name, index, state))
            new = planned
        return new, operations


def _new_epoch(topic: TopicName, index: int, state: PartitionState) -> SetData:
    """Begin a new leader epoch with the same leader, because a replica is added.

    Its broker may have had a replica of the partition before, and fetches of that deleted log may
    still be on their way or parked at the leader: those of an earlier epoch do not count.
    """
    new = state._replace(leader_epoch=LeaderEpoch(state.leader_epoch + 1))
    return SetData(znodes.state_path(topic, index), znodes.encode_state(new), state.version)


def _partition(topic: TopicImage, old: Assignment, index: int) -> PartitionImage:
    if 0 <= index < min(len(topic.partitions), len(old.replicas)):
        return topic.partitions[index]
    raise KafkaError(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {topic.name}:{index}."
    )


def changed(old: Assignment, index: int, target: Sequence[int] | None) -> Assignment:
    """Return the assignment with a reassignment of one partition begun, replaced or cancelled."""
    now = old.reassignment(index)
    origin = [node for node in old.replicas[index] if node not in now.adding]
    if target is None:
        if index not in old.reassignments:
            raise KafkaError(
                ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress."
            )
        target = origin
    adding = tuple(NodeId(node) for node in target if node not in origin)
    removing = tuple(node for node in origin if node not in target)
    replicas = list(old.replicas)
    replicas[index] = (*(NodeId(node) for node in target), *removing)
    reassignments = {at: each for at, each in old.reassignments.items() if at != index}
    if adding or removing:
        reassignments[index] = Reassignment(adding, removing)
    return old._replace(replicas=tuple(replicas), reassignments=reassignments)


def ongoing(image: MetadataImage, name: str, index: int) -> PartitionImage | None:
    """Return a partition that is being reassigned."""
    partition = image.partition(name, index)
    is_changing = partition is not None and (partition.adding or partition.removing)
    return partition if is_changing else None


def _check_factor(old: Assignment, index: int, target: Sequence[int]) -> None:
    now = len(old.replicas[index]) - len(old.reassignment(index).removing)
    if len(target) != now:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {now} to {len(target)}",
        )


def _check_in_sync(name: str, index: int, partition: PartitionImage, new: Assignment) -> None:
    """Refuse to drop all in-sync replicas: those that a reassignment was adding and that are not
    wanted any more leave at once."""
    if not set(partition.isr) & set(new.replicas[index]):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {name}:{index} because it would require an "
            "unclean leader election.",
        )


def _unknown_topic(name: str) -> KafkaError:
    text = f"Unable to find a topic named {name}."
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
