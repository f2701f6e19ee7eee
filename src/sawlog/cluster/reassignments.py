"""Reassignments of replicas (KIP-455): planned on the topic's node, completed by the controller.

    replicas 1 2 3, target 1 4  ->  replicas 1 4 2 3, adding 4, removing 2 3

Any broker writes the plan, by a compare-and-set of the topic's node. The replicas that are added
follow the leader; when all that stay are in sync, the controller removes the others, and moves the
leader if it was one of them. A partition has its original replicas again after a cancellation.
"""

from collections.abc import Callable, Mapping, Sequence

from sawlog.cluster import znodes
from sawlog.cluster.cluster_member import ClusterMember
from sawlog.cluster.metadata_image import MetadataImage, PartitionImage, TopicImage
from sawlog.cluster.replica_placement import check_replicas
from sawlog.cluster.store_failures import store_failure
from sawlog.cluster.znodes import Assignment, Reassignment
from sawlog.core.config import BrokerConfig, TopicConfig
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import NodeId, TopicName
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
        path = znodes.topic_path(name)
        store = self._member.store
        planned_on = self._member.image

        def fail(error: KafkaError) -> None:
            done(dict.fromkeys(targets, error))

        def got(node: Node | StoreError) -> None:
            topic = self._member.image.topics.get(TopicName(name))
            if isinstance(node, StoreError):
                fail(store_failure(node))
            elif topic is None or topic.id != znodes.decode_assignment(node).topic_id:
                fail(_unknown_topic(name))
            else:
                write(topic, znodes.decode_assignment(node))

        def write(topic: TopicImage, old: Assignment) -> None:
            nonlocal planned_on
            planned_on = self._member.image
            errors: Errors = {}
            new, operations = self._planned(topic, old, targets, errors, may_change_factor)
            if new == old:
                done(errors)
                return
            data = znodes.encode_assignment(new.topic_id, new.replicas, new.reassignments)
            operations.append(SetData(path, data, old.version))
            store.multi(operations, lambda result: written(result, old.version + 1, errors))

        def written(result: list[Result] | StoreError, version: int, errors: Errors) -> None:
            if isinstance(result, BadVersion):
                self._member.when(lambda image: image is not planned_on, timeout_ms, again)
            elif isinstance(result, StoreError):
                fail(store_failure(result))
            else:
                self._member.when(lambda _: self._shows(name, version), timeout_ms, answer(errors))

        def again(has_changed: bool) -> None:
            if has_changed:
                store.get(path, got)
            else:
                fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT))

        def answer(errors: Errors) -> Callable[[bool], None]:
            def shown(is_shown: bool) -> None:
                late = None if is_shown else KafkaError(ErrorCode.REQUEST_TIMED_OUT)
                done({index: error or late for index, error in errors.items()})

            return shown

        if TopicName(name) in self._member.image.topics:
            store.get(path, got)
        else:
            fail(_unknown_topic(name))

    def _shows(self, name: str, version: int) -> bool:
        """Whether the image is built from this version of the topic's node or a later one."""
        view = self._member.view
        topic = view.topics.get(TopicName(name))
        return TopicName(name) not in view.changed and (
            topic is None or topic.assignment.version >= version
        )

    def _planned(
        self,
        topic: TopicImage,
        old: Assignment,
        targets: Targets,
        errors: Errors,
        may_change_factor: bool,
    ) -> tuple[Assignment, list[Operation]]:
        """Return the next assignment, and checks of the states that it was planned on."""
        allows_unclean = TopicConfig(self._config, topic.configs)["unclean.leader.election.enable"]
        new = old
        checks: list[Operation] = []
        for index, target in targets.items():
            errors[index] = None
            try:
                partition = self._partition(topic, old, index)
                if target is not None:
                    check_replicas(self._member.image.brokers, target, None)
                    if not may_change_factor:
                        _check_factor(old, index, target)
                planned = changed(new, index, target)
                if not allows_unclean:
                    _check_in_sync(topic.name, index, partition, planned)
            except KafkaError as error:
                errors[index] = error
                continue
            if planned != new:
                state = znodes.state_path(topic.name, index)
                checks.append(Check(state, partition.partition_epoch))
                new = planned
        return new, checks

    def _partition(self, topic: TopicImage, old: Assignment, index: int) -> PartitionImage:
        if 0 <= index < min(len(topic.partitions), len(old.replicas)):
            return topic.partitions[index]
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Unable to find partition {topic.name}:{index}.",
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
