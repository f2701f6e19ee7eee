"""Elections that an administrator orders: preferred leaders, and unclean ones.

Any broker carries an order out, by a compare-and-set of the partition's state as an in-sync set is
written: the versions of state and topic make an order on a stale view fail, and it is then planned
again. A leader that turns out to be gone is replaced by the controller.
"""

from collections.abc import Callable
from enum import Enum

from sawlog.cluster import znodes
from sawlog.cluster.cluster_member import ClusterMember
from sawlog.cluster.leader_election import Electorate, preferred_state, unclean_state
from sawlog.cluster.metadata_image import NO_NODE, MetadataImage, PartitionImage
from sawlog.cluster.store_failures import store_failure
from sawlog.cluster.unclean_elections import UncleanElection
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition
from sawlog.core.store import BadVersion, Check, Result, SetData, StoreError

OnAnswered = Callable[[KafkaError | None], None]


class ElectionType(Enum):
    """The numbers are those of ElectLeaders."""

    PREFERRED = 0
    UNCLEAN = 1


_NOT_POSSIBLE = {
    ElectionType.PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ElectionType.UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


class OrderedElections:
    def __init__(self, member: ClusterMember) -> None:
        self._member = member
        self._view = member.view

    def elect(
        self, kind: ElectionType, topic: str, index: int, timeout_ms: int, done: OnAnswered
    ) -> None:
        """Elect a leader; `done(None)` when this broker's image shows it."""
        error = self.obstacle(kind, topic, index)
        if error is not None:
            done(error)
            return
        view = self._view.topics.get(TopicName(topic))
        old = None if view is None else view.states.get(index)
        if view is None or old is None:
            done(_unknown_topic(topic))
            return
        choose = preferred_state if kind is ElectionType.PREFERRED else unclean_state
        replicas = view.assignment.replicas[index]
        new = choose(Electorate(self._view.brokers, old.controller_epoch), replicas, old)
        if new is None:
            done(KafkaError(_NOT_POSSIBLE[kind]))
            return
        name = TopicPartition(TopicName(topic), PartitionIndex(index))
        unclean = UncleanElection.between(name, old, new)

        def is_past(version: int, image: MetadataImage) -> bool:
            found = image.partition(topic, index)
            return found is None or found.partition_epoch >= version

        def shown(is_shown: bool) -> None:
            done(None if is_shown else KafkaError(ErrorCode.REQUEST_TIMED_OUT))

        def again(has_changed: bool) -> None:
            if has_changed:
                self.elect(kind, topic, index, timeout_ms, done)
            else:
                done(KafkaError(ErrorCode.REQUEST_TIMED_OUT))

        def written(result: list[Result] | StoreError) -> None:
            after = old.version + 1
            if isinstance(result, BadVersion):
                self._member.when(lambda image: is_past(after, image), timeout_ms, again)
            elif isinstance(result, StoreError):
                done(store_failure(result))
            else:
                if unclean is not None:
                    unclean.warn()
                self._member.when(lambda image: is_past(after, image), timeout_ms, shown)

        self._member.store.multi(
            [
                Check(znodes.topic_path(topic), view.assignment.version),
                SetData(znodes.state_path(topic, index), znodes.encode_state(new), old.version),
            ],
            written,
            urgent=True,
        )

    def obstacle(self, kind: ElectionType, topic: str, index: int) -> KafkaError | None:
        """Return why this broker's image allows or needs no election."""
        image = self._member.image
        if TopicName(topic) not in image.topics:
            return _unknown_topic(topic)
        partition = image.partition(topic, index)
        if partition is None:
            return KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic}-{index}"
            )
        return KafkaError(ErrorCode.ELECTION_NOT_NEEDED) if _is_led(kind, partition) else None


def _is_led(kind: ElectionType, partition: PartitionImage) -> bool:
    if kind is ElectionType.PREFERRED:
        return partition.leader == partition.replicas[0]
    return partition.leader != NO_NODE


def _unknown_topic(topic: str) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {topic}")
