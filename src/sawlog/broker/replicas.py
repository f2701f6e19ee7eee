"""The partition replicas of this broker: opened, led, reconfigured and deleted as the image says.

Kafka's ReplicaManager. A log on disk becomes a replica when the image assigns its partition to this
broker; a log that belongs to no known topic is kept under a stray name, so that a new topic of that
name starts empty. A log that cannot be opened, for lack of space or descriptors, is tried again.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from sawlog.broker.corrupt_replicas import CorruptReplicas
from sawlog.broker.damaged_replicas import DamagedReplicas
from sawlog.cluster.metadata_image import (
    EMPTY_IMAGE,
    NO_NODE,
    MetadataImage,
    PartitionImage,
    TopicImage,
    changed_topics,
)
from sawlog.core.config_broker import FLUSH_BEFORE_COMMIT
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import (
    NO_TOPIC_ID,
    NodeId,
    PartitionIndex,
    TopicId,
    TopicName,
    TopicPartition,
)
from sawlog.core.ports import DiskError
from sawlog.replication.leader import IsrTotals, Leader, ReplicationContext
from sawlog.replication.replica import Replica
from sawlog.replication.roles import Role

if TYPE_CHECKING:
    from sawlog.broker.log_configs import LogConfigs
    from sawlog.broker.metadata_cache import MetadataCache
    from sawlog.core.config import BrokerConfig
    from sawlog.core.ports import Clock, Timer
    from sawlog.replication.isr_writer import IsrWriter
    from sawlog.storage.log import Log
    from sawlog.storage.log_config import LogConfig
    from sawlog.storage.log_directory import LogDirectory

logger = EventLogger(__name__)

REOPEN_MS = 5_000
"""Delay before a log that could not be opened is tried again."""

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class LeadershipListener(Protocol):
    """A coordinator that keeps its state in the partitions of an internal topic."""

    def lead(self, partition: Replica) -> None: ...

    def resign(self, index: int) -> None: ...


class RoleListener(Protocol):
    """The fetchers of the replicas that follow a leader."""

    def role_changed(self, replica: Replica) -> None:
        """The replica has the role and epoch of the newest image, perhaps those it had before."""

    def closed(self, name: TopicPartition) -> None: ...


class Replicas:
    """Invariant: `by_partition` holds exactly the replicas that the newest image assigns to this
    broker and whose logs are open."""

    def __init__(
        self,
        node_id: NodeId,
        config: "BrokerConfig",
        metadata: "MetadataCache",
        directory: "LogDirectory",
        log_configs: "LogConfigs",
        coordinators: Mapping[str, LeadershipListener],
        *,
        clock: "Clock",
        timer: "Timer",
        fetchers: RoleListener,
        isr_writer: "IsrWriter | None" = None,
        is_suspended: Callable[[], bool] = lambda: False,
    ) -> None:
        """`coordinators` has the owner of each internal topic, to be notified of its leadership.
        Without `isr_writer` the in-sync sets change only by the controller's doing. `is_suspended`
        tells whether the session of the coordination store is interrupted."""
        self._node_id = node_id
        self._config = config
        self.isr_totals = IsrTotals()
        self._context = ReplicationContext(
            node_id,
            clock,
            timer,
            live_brokers=lambda: metadata.image.brokers,
            commits_on_flush=config["flush.policy"] == FLUSH_BEFORE_COMMIT,
            lag_max_ms=lambda: config["replica.lag.time.max.ms"],
            isr_writer=isr_writer,
            is_suspended=is_suspended,
            totals=self.isr_totals,
        )
        self._damaged = DamagedReplicas(node_id, directory.damaged, metadata, timer, isr_writer)
        self._corrupt = CorruptReplicas(node_id, metadata, isr_writer)
        self._retention_check_ms: int = config["log.retention.check.interval.ms"]
        self._metadata = metadata
        self._directory = directory
        self._log_configs = log_configs
        self._coordinators = coordinators
        self._fetchers = fetchers
        self._clock = clock
        self._timer = timer
        self.by_partition: dict[tuple[str, int], Replica] = {}

    def __len__(self) -> int:
        return len(self.by_partition)

    @property
    def are_offline(self) -> bool:
        """Whether the data directory has failed: the broker serves no replica then."""
        return self._directory.offline is not None

    def leader(self, topic: str, index: int) -> Replica:
        """Return a replica that this broker leads, or raise the error for the client."""
        replica = self.by_partition.get((topic, index))
        if replica is not None and replica.role is Role.LEADER:
            if self._directory.offline is not None:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(self._directory.offline))
            return replica
        if self._metadata.image.partition(topic, index) is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def readable(self, topic: str, index: int) -> Replica:
        """Return a replica that a consumer with a rack may read: as `leader`, or a follower
        (KIP-392)."""
        replica = self.by_partition.get((topic, index))
        if replica is not None and replica.role is Role.FOLLOWER and not self._directory.offline:
            return replica
        return self.leader(topic, index)

    def preferred_read_replica(self, replica: Replica, rack: str, offset: int) -> NodeId:
        """Return the in-sync follower in this rack from which a consumer should read, NO_NODE if it
        should stay at the leader. Kafka's RackAwareReplicaSelector."""
        leader, brokers = replica.leader, self._metadata.image.brokers
        own = brokers.get(self._node_id)
        if leader is None or self._config["replica.selector.class"] != RACK_AWARE_SELECTOR:
            return NO_NODE
        if own is not None and own.rack == rack:
            return NO_NODE
        candidates = [
            (progress.end_offset, progress.caught_up_ms, -node)
            for node, progress in leader.followers.items()
            if node in leader.isr
            and node in brokers
            and brokers[node].rack == rack
            and progress.start_offset <= offset <= progress.end_offset
        ]
        return NodeId(-max(candidates)[2]) if candidates else NO_NODE

    def leaders(self) -> Iterator[tuple[Replica, Leader]]:
        """Return the replicas that this broker leads."""
        for replica in self.by_partition.values():
            if replica.leader is not None:
                yield replica, replica.leader

    def follower_lags(self) -> dict[NodeId, int]:
        """Count the records that each follower has not fetched, in all partitions led here."""
        lags: dict[NodeId, int] = {}
        for replica, leader in self.leaders():
            for node, progress in leader.followers.items():
                lag = replica.log.end_offset - max(progress.end_offset, replica.log.start_offset)
                lags[node] = lags.get(node, 0) + max(lag, 0)
        return lags

    # Images

    def apply(self, old: MetadataImage, new: MetadataImage) -> None:
        """Open, close and reconfigure replicas as `new` says; the first image opens the directory.

        DiskError or WrongOwner if the directory cannot be opened. A topic that fails is logged and
        does not keep the others from being applied.
        """
        is_first = old is EMPTY_IMAGE
        if is_first:
            self._directory.identify(new.cluster_id, self._node_id)
            self._directory.open()
            self._corrupt.start(self._directory.recovery.corrupt_from)
        for before, after in changed_topics(old, new):
            try:
                if after is not None:
                    self._apply_topic(before, after)
                elif before is not None:
                    self._delete_topic(before)
            except Exception:
                changed = after or before
                logger.exception("topic not applied", topic=changed and changed.name)
        if new.brokers is not old.brokers:
            for replica in tuple(self.by_partition.values()):
                replica.brokers_changed()
        if is_first:
            self._report_missing()
            self._set_aside_strays()
            self._schedule_retention()
            self._schedule_isr_check()

    def _apply_topic(self, before: TopicImage | None, after: TopicImage) -> None:
        """Apply the partitions one by one: one that fails does not keep the others back."""
        config = self._log_configs.with_overrides(after.configs)
        reconfigured = before is not None and before.configs != after.configs
        failed = False
        for index, state in enumerate(after.partitions):
            name = TopicPartition(after.name, PartitionIndex(index))
            try:
                self._apply_partition(name, after.id, state, config, reconfigured=reconfigured)
            except (KafkaError, DiskError) as error:
                logger.error("log cannot be opened", log=str(name), reason=str(error))
                failed = True
            except Exception:
                logger.exception("partition not applied", log=str(name))
        if failed:
            self._timer.after(REOPEN_MS, lambda: self._reopen(after))

    def _apply_partition(
        self,
        name: TopicPartition,
        topic_id: TopicId,
        state: PartitionImage,
        config: "LogConfig",
        *,
        reconfigured: bool,
    ) -> None:
        if self._node_id not in state.replicas:
            self._delete(name, KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return
        replica = self.by_partition.get(name)
        if replica is not None and replica.topic_id != topic_id:
            self._delete(name, KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            replica = None
        if replica is None:
            replica = self._open(name, topic_id, config)
        elif reconfigured:
            replica.log.reconfigure(config)
        self._corrupt.heal(replica, state)
        self._apply_role(replica, self._damaged.permitted(replica, state))

    def _apply_role(self, replica: Replica, state: PartitionImage) -> None:
        """Promote or demote a replica, and notify the coordinator of its topic."""
        coordinator = self._coordinators.get(replica.name.topic)
        if coordinator is not None and (
            state.leader != self._node_id or state.leader_epoch > replica.leader_epoch
        ):
            coordinator.resign(replica.name.partition)
        if state.leader == self._node_id:
            replica.lead(state.leader_epoch, state)
            if coordinator is not None:
                coordinator.lead(replica)
        elif state.leader == NO_NODE:
            replica.lose_leader(state.leader_epoch)
        else:
            replica.follow(state.leader_epoch, state.leader, unclean_epoch=state.unclean_epoch)
        self._fetchers.role_changed(replica)

    def reconfigure(self) -> None:
        """Give all logs their configuration after a change of the broker's settings."""
        self._log_configs.broker_changed()
        for name, replica in self.by_partition.items():
            try:
                replica.log.reconfigure(self._log_configs.of_topic(TopicName(name[0])))
            except (KafkaError, DiskError) as error:
                logger.error("log not reconfigured", log=str(replica.name), reason=str(error))

    def _reopen(self, topic: TopicImage) -> None:
        if self._metadata.image.topics.get(topic.name) is topic:
            self._apply_topic(topic, topic)

    # Opening

    def _open(self, name: TopicPartition, topic_id: TopicId, config: "LogConfig") -> Replica:
        log = self._directory.logs.get(name)
        if log is not None and log.topic_id == NO_TOPIC_ID:
            self._identify(log, topic_id)
        elif log is not None and log.topic_id != topic_id:
            self._set_aside(name)
            log = None
        log = log or self._directory.create(name, topic_id, config)
        replica = Replica(log, name, topic_id, self._context)
        self.by_partition[name] = replica
        return replica

    def _identify(self, log: "Log", topic_id: TopicId) -> None:
        """Write the topic id of a log that has none; its records are served even if that fails."""
        if log.is_closed:
            return
        try:
            self._directory.identify_log(log, topic_id)
        except DiskError as error:
            logger.warning("partition.metadata not written", log=str(log.tp), reason=str(error))
            self._timer.after(REOPEN_MS, lambda: self._identify(log, topic_id))

    def _report_missing(self) -> None:
        for name, recovery_point in self._directory.missing.items():
            if name in self.by_partition:
                logger.error(
                    "log is missing and was created empty",
                    log=str(name),
                    recovery_point=recovery_point,
                )
        for name in [
            name for name in self._directory.damaged.entries if not self._is_assigned(name)
        ]:
            self._directory.forget_damage(name)

    def _set_aside_strays(self) -> None:
        """Rename the logs of partitions that the image does not assign to this broker. A log that
        is assigned but cannot be opened now keeps its name."""
        for name in [name for name in self._directory.logs if not self._is_assigned(name)]:
            self._set_aside(name)

    def _is_assigned(self, name: TopicPartition) -> bool:
        state = self._metadata.image.partition(*name)
        return state is not None and self._node_id in state.replicas

    def _set_aside(self, name: TopicPartition) -> None:
        directory = self._directory.set_aside(name)
        logger.warning("stray log set aside", log=str(name), directory=directory)

    # Closing

    def _delete_topic(self, topic: TopicImage) -> None:
        error = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        for index in range(len(topic.partitions)):
            self._delete(TopicPartition(topic.name, PartitionIndex(index)), error)

    def _delete(self, name: TopicPartition, error: KafkaError) -> None:
        """Delete a replica and its log, if this broker has one; its waiters get `error`."""
        replica = self.by_partition.pop(name, None)
        if replica is None:
            return
        coordinator = self._coordinators.get(name.topic)
        if coordinator is not None:
            coordinator.resign(name.partition)
        self._fetchers.closed(name)
        self._corrupt.forget(name)
        replica.close(error)
        self._directory.delete(name)

    def close(self, broker_epoch: int) -> None:
        """Close all logs cleanly. Closing flushes, so requests that wait for a commit succeed. The
        marker of the clean stop has the epoch under which the broker was registered."""
        self._directory.close_cleanly(broker_epoch)
        for replica in self.by_partition.values():
            replica.close(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))

    # In-sync sets

    def _schedule_isr_check(self) -> None:
        """As often as Kafka does: a slow follower leaves after 1 to 1.5 times the maximum lag."""
        lag_max_ms: int = self._config["replica.lag.time.max.ms"]
        self._timer.after(max(lag_max_ms // 2, 1), self._check_in_sync_sets)

    def _check_in_sync_sets(self) -> None:
        self._schedule_isr_check()  # first: an error of one replica must not end the checks
        for log, offset in self._directory.cleaner.damaged_from.items():
            damaged = self.by_partition.get(log.tp)
            if damaged is not None:
                self._corrupt.found(damaged, offset)
        for replica in tuple(self.by_partition.values()):
            replica.check_in_sync_set()
            self._corrupt.check(replica)

    def corruption_reported(self, replica: Replica, offset: int) -> None:
        """A follower could not append the batch that it fetched from this leader at `offset`."""
        if replica.log.segments.is_sound_at(offset, replica.log.end_offset):
            logger.warning(
                "a follower reports a corrupt batch that is sound here",
                log=str(replica.name),
                offset=offset,
            )
        else:
            self._corrupt.found(replica, offset)

    # Retention

    def _schedule_retention(self) -> None:
        self._timer.after(self._retention_check_ms, self._apply_retention)

    def _apply_retention(self) -> None:
        now_ms = self._clock.now_ms()
        for replica in tuple(self.by_partition.values()):
            try:
                replica.apply_retention(now_ms)
            except (KafkaError, DiskError) as error:
                logger.warning("retention failed", log=str(replica.name), reason=str(error))
        self._schedule_retention()
