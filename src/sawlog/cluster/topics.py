"""Creates, deletes and alters topics: checks against the image, then writes to the store.

Any broker can do this. The controller creates the partition states (see `controller.py`), and the
request is answered when this broker's image shows the change. Checks raise KafkaError with Kafka's
codes and messages, because clients print them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from sawlog.cluster import znodes
from sawlog.cluster.auto_create import AutoCreate
from sawlog.cluster.cluster_member import ClusterMember, Condition
from sawlog.cluster.internal_topics import INTERNAL_TOPICS
from sawlog.cluster.metadata_image import MetadataImage, TopicImage
from sawlog.cluster.new_topic import NewTopic
from sawlog.cluster.replica_placement import bad_assignment, check_replicas, place
from sawlog.cluster.store_failures import store_failure
from sawlog.cluster.topic_names import CLUSTER_METADATA_TOPIC, check_collision, check_name
from sawlog.core.config import BrokerConfig, check_topic_configs
from sawlog.core.config_values import ConfigError
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import NodeId, TopicId, TopicName
from sawlog.core.ports import Random
from sawlog.core.store import (
    BadVersion,
    Create,
    Node,
    NodeExists,
    NoNode,
    Operation,
    Result,
    SetData,
    StoreError,
    WatchEvent,
)

OnAnswered = Callable[[KafkaError | None], None]
"""Called with None when the change is in the store and in this broker's image."""
Replicas = tuple[tuple[NodeId, ...], ...]
AUTO_CREATE_TIMEOUT_MS = 30_000
MAX_PARTITIONS = 10_000
"""Per topic, and over all topics of one request, as in Kafka; a topic's node stays within
ZooKeeper's limit."""


@dataclass(frozen=True, slots=True)
class PlannedTopic:
    """A new topic that passed all checks, with its replica assignment."""

    name: TopicName
    id: TopicId
    replicas: Replicas
    configs: Mapping[str, str]


class Topics:
    def __init__(self, member: ClusterMember, config: BrokerConfig, random: Random) -> None:
        self._member = member
        self._store = member.store
        self._config = config
        self._random = random
        self.auto_create = AutoCreate(member.clock, self._auto_create)

    @property
    def _image(self) -> MetadataImage:
        return self._member.image

    # Creation

    def plan(self, new: NewTopic) -> PlannedTopic:
        """Check a new topic and place its replicas; nothing is written."""
        check_name(new.name)
        if new.name == CLUSTER_METADATA_TOPIC:  # the log of a KRaft quorum
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Creation of internal topic {new.name} is prohibited."
            )
        check_collision(new.name, self._image.topics)
        if new.name in self._image.topics:
            raise _exists(new.name)
        missing = [name for name, value in new.configs.items() if value is None]
        if missing:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Null value not supported for topic configs: {','.join(missing)}",
            )
        configs = {name: value for name, value in new.configs.items() if value is not None}
        self.check_configs(configs)
        replicas = self._placed(new)
        topic_id = self._random.bytes(16)
        return PlannedTopic(TopicName(new.name), TopicId(topic_id), replicas, configs)

    def check_configs(self, configs: Mapping[str, str]) -> None:
        try:
            check_topic_configs(self._config, configs)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error

    def _placed(self, new: NewTopic) -> Replicas:
        if new.assignments:
            return self._assigned(new)
        if new.replication_factor < -1 or new.replication_factor == 0:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if new.partitions < -1 or new.partitions == 0:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS,
                "Number of partitions was set to an invalid non-positive value.",
            )
        partitions: int = new.partitions
        if partitions == -1:
            partitions = self._config["num.partitions"]
        factor: int = new.replication_factor
        if factor == -1:
            factor = self._config["default.replication.factor"]
        _check_count(partitions)
        return place(self._image.brokers.values(), partitions, factor, self._random)

    def _assigned(self, new: NewTopic) -> Replicas:
        """Check and return the client's own replica assignment."""
        if new.replication_factor != -1:
            raise _contradiction("replication factor")
        if new.partitions != -1:
            raise _contradiction("numPartitions")
        chosen: dict[int, tuple[NodeId, ...]] = {}
        factor: int | None = None
        for index, nodes in new.assignments:
            if index in chosen:
                raise bad_assignment(
                    f"Found multiple manual partition assignments for partition {index}"
                )
            chosen[index] = check_replicas(self._image.brokers, nodes, factor)
            factor = len(nodes)
        if sorted(chosen) != list(range(len(chosen))):
            raise bad_assignment("partitions should be a consecutive 0-based integer sequence")
        return tuple(chosen[index] for index in range(len(chosen)))

    def create(self, planned: PlannedTopic, timeout_ms: int, done: OnAnswered) -> None:
        def shows(image: MetadataImage) -> bool:
            return planned.id in image.names

        def failed(error: StoreError) -> None:
            is_there = isinstance(error, NodeExists)
            done(_exists(planned.name) if is_there else store_failure(error))

        self._write(
            [
                Create(znodes.config_path(planned.name), znodes.encode_configs(planned.configs)),
                Create(
                    znodes.topic_path(planned.name),
                    znodes.encode_assignment(planned.id, planned.replicas),
                ),
                Create(znodes.partitions_path(planned.name)),
            ],
            shows,
            timeout_ms,
            done,
            failed,
        )

    def _auto_create(self, name: str, done: OnAnswered) -> int:
        internal = INTERNAL_TOPICS.get(name)
        if internal is None:
            new = NewTopic(name)
        else:
            new = internal.new_topic(self._config, len(self._known_brokers()))
        planned = self.plan(new)
        self.create(planned, AUTO_CREATE_TIMEOUT_MS, done)
        return len(planned.replicas)

    def _known_brokers(self) -> set[NodeId]:
        """The live brokers, and those that have replicas."""
        known = set(self._image.brokers)
        for topic in self._image.topics.values():
            for partition in topic.partitions:
                known.update(partition.replicas)
        return known

    # Deletion

    def delete(self, topic: TopicImage, timeout_ms: int, done: OnAnswered) -> None:
        def shows(image: MetadataImage) -> bool:
            return topic.id not in image.names

        path = znodes.delete_request_path(topic.name)
        request = [Create(path, znodes.encode_delete_request(topic.id))]

        def written(result: list[Result] | StoreError) -> None:
            if isinstance(result, NodeExists):
                self._store.get(path, found, gone)
            elif isinstance(result, StoreError):
                done(store_failure(result))
            else:
                self._answer_when(shows, timeout_ms, done)

        def found(node: Node | StoreError) -> None:
            """A request exists, for this topic or for an older one of its name."""
            if isinstance(node, NoNode):
                self._store.multi(request, written, urgent=True)
            elif isinstance(node, StoreError):
                done(store_failure(node))
            else:
                self._answer_when(shows, timeout_ms, done)

        def gone(_: WatchEvent) -> None:
            if not shows(self._image):
                self._store.multi(request, _ignore, urgent=True)

        self._store.multi(request, written, urgent=True)

    # Partitions

    def plan_partitions(
        self, topic: TopicImage | None, count: int, assignments: Sequence[Sequence[int]] | None
    ) -> Replicas:
        """Check a new partition count; return the replicas of all partitions, old and new."""
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if topic.name in INTERNAL_TOPICS:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS,
                f"The number of partitions of {topic.name} is fixed: its coordinators could not "
                "find the state that is there already.",
            )
        old = tuple(partition.replicas for partition in topic.partitions)
        if count == len(old):
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS, f"Topic already has {len(old)} partition(s)."
            )
        if count < len(old):
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS,
                f"The topic {topic.name} currently has {len(old)} partition(s); "
                f"{count} would not be an increase.",
            )
        _check_count(count)
        more, factor = count - len(old), len(old[0])
        if assignments is None:
            brokers = self._image.brokers.values()
            return old + place(brokers, more, factor, self._random, first_partition=len(old))
        if len(assignments) != more:
            raise bad_assignment(
                f"Attempted to add {more} additional partition(s), but only "
                f"{len(assignments)} assignment(s) were specified."
            )
        return old + tuple(
            check_replicas(self._image.brokers, nodes, factor) for nodes in assignments
        )

    def add_partitions(
        self, topic: TopicImage, replicas: Replicas, timeout_ms: int, done: OnAnswered
    ) -> None:
        """Write a plan; INVALID_PARTITIONS if the partitions changed since it was made."""
        path = znodes.topic_path(topic.name)

        def shows(image: MetadataImage) -> bool:
            now = image.topics.get(topic.name)
            return now is None or now.id != topic.id or len(now.partitions) >= len(replicas)

        def got(node: Node | StoreError) -> None:
            if isinstance(node, StoreError):
                done(store_failure(node))
                return
            current = znodes.decode_assignment(node)
            if current.topic_id != topic.id or len(current.replicas) != len(topic.partitions):
                done(
                    KafkaError(
                        ErrorCode.INVALID_PARTITIONS,
                        "The topic's partitions were changed by another request.",
                    )
                )
                return
            added = replicas[len(current.replicas) :]
            data = znodes.encode_assignment(
                topic.id, current.replicas + added, current.reassignments
            )
            self._write([SetData(path, data, current.version)], shows, timeout_ms, done)

        self._store.get(path, got)

    # Configs

    def alter_configs(
        self,
        topic: TopicImage,
        change: Callable[[Mapping[str, str]], Mapping[str, str]],
        timeout_ms: int,
        done: OnAnswered,
    ) -> None:
        """Write `change(configs)`. It may raise KafkaError, and is called again with the new
        configs if another request wrote first."""
        path = znodes.config_path(topic.name)

        def got(node: Node | StoreError) -> None:
            if isinstance(node, StoreError):
                done(store_failure(node))
                return
            old = znodes.decode_configs(node)
            try:
                new = dict(change(old))
            except KafkaError as error:
                done(error)
                return
            if new == old:
                done(None)
                return
            version = node.stat.version
            write = SetData(path, znodes.encode_configs(new), version)
            self._write([write], partial(shows, version + 1), timeout_ms, done, failed)

        def shows(version: int, image: MetadataImage) -> bool:
            now = image.topics.get(topic.name)
            return now is None or now.id != topic.id or now.config_version >= version

        def failed(error: StoreError) -> None:
            if isinstance(error, BadVersion):
                self._store.get(path, got)
            else:
                done(store_failure(error))

        self._store.get(path, got)

    # Writing

    def _write(
        self,
        operations: Sequence[Operation],
        shows: Condition,
        timeout_ms: int,
        done: OnAnswered,
        failed: Callable[[StoreError], None] | None = None,
    ) -> None:
        """Write, and call `done` when the image shows the change. `failed` replaces the default
        answer to a StoreError."""

        def written(result: list[Result] | StoreError) -> None:
            if not isinstance(result, StoreError):
                self._answer_when(shows, timeout_ms, done)
            elif failed is not None:
                failed(result)
            else:
                done(store_failure(result))

        self._store.multi(operations, written)

    def _answer_when(self, shows: Condition, timeout_ms: int, done: OnAnswered) -> None:
        def shown(is_shown: bool) -> None:
            done(None if is_shown else KafkaError(ErrorCode.REQUEST_TIMED_OUT))

        self._member.when(shows, timeout_ms, shown)


def _ignore(_: list[Result] | StoreError) -> None:
    """The waiting request is answered by the image or by its timeout."""


def _check_count(partitions: int) -> None:
    if partitions > MAX_PARTITIONS:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"A topic can have at most {MAX_PARTITIONS} partitions, not {partitions}.",
        )


def _exists(name: str) -> KafkaError:
    return KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")


def _contradiction(what: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REQUEST,
        f"A manual partition assignment was specified, but {what} was not set to -1.",
    )
