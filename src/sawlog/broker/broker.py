"""One broker: a synchronous machine that the shell feeds with frames, timers and images.

It owns the replicas of this node and hands each request to its handler. It never waits: a handler
answers now or parks, and the event that fulfils the wait wakes it. Everything it needs of the world
comes through ports, so that the same broker runs on a machine and in a simulation.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from sawlog.broker.api.api_versions import unsupported_version
from sawlog.broker.dispatch import error_response, served_apis
from sawlog.broker.fetch_sessions import FetchSessions
from sawlog.broker.group_coordinator import GroupCoordinator
from sawlog.broker.metrics import BrokerMetrics
from sawlog.broker.purgatory import Parking
from sawlog.broker.request import Api, Request
from sawlog.broker.topic_log_config import log_config
from sawlog.cluster.cluster_member import ClusterMember
from sawlog.cluster.metadata_image import (
    EMPTY_IMAGE,
    GROUP_TOPIC,
    MetadataImage,
    TopicImage,
    changed_topics,
)
from sawlog.cluster.producer_ids import ProducerIds
from sawlog.cluster.topics import Topics
from sawlog.core.errors import ErrorCode, KafkaError, MalformedFrame
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import NO_TOPIC_ID, NodeId, PartitionIndex, TopicId, TopicName, TopicPartition
from sawlog.core.ports import DiskError
from sawlog.protocol.apis import ApiKey
from sawlog.protocol.headers import read_request_header
from sawlog.replication.partition import Partition
from sawlog.storage.log_directory import LogDirectory

if TYPE_CHECKING:
    from sawlog.core.config import BrokerConfig
    from sawlog.core.ports import Client, Clock, Disk, Exchange, Random, Timer
    from sawlog.storage.log import Log
    from sawlog.storage.log_config import LogConfig

logger = EventLogger(__name__)

REOPEN_MS = 5_000
"""After this time a log that could not be opened (a full disk, say) is tried again."""

MAX_LOG_CONFIGS = 1_000

COMMIT = "commit"
"""The flush policy under which a record is committed only when it is on the disk."""


class Broker:
    """Invariant: `partitions` holds exactly the replicas that the image gives to this node and
    whose logs are open; `image` is the newest one applied."""

    def __init__(
        self,
        node_id: NodeId,
        config: "BrokerConfig",
        disk: "Disk",
        *,
        clock: "Clock",
        timer: "Timer",
        random: "Random",
    ) -> None:
        self.node_id = node_id
        self.config = config
        self._commits_on_flush: bool = config["flush.policy"] == COMMIT
        self.directory = LogDirectory(
            disk,
            clock,
            timer,
            random,
            config_for=self._config_for,
            flushes_at_checkpoint=self._commits_on_flush,
        )
        self.clock = clock
        self.timer = timer
        self.random = random
        self.metrics = BrokerMetrics(self)
        self.image: MetadataImage = EMPTY_IMAGE
        self.partitions: dict[tuple[str, int], Partition] = {}
        self.apis: dict[int, Api] = served_apis()
        self.fetch_sessions = FetchSessions(
            clock, random, config["max.incremental.fetch.session.cache.slots"]
        )
        self.fetch_max_bytes: int = config["fetch.max.bytes"]
        self.parking = Parking()
        self.groups = GroupCoordinator(self)
        self._log_configs: dict[tuple[tuple[str, str], ...], LogConfig] = {}

    def join(self, member: ClusterMember) -> None:
        """Takes its part in a cluster; whoever made the member has it call `apply`."""
        self.member = member
        self.topics = Topics(member, self.config, self.random)
        self.producer_ids = ProducerIds(member.store, self.node_id)

    # Connections and requests

    def connected(self, client: "Client") -> None:
        """Nothing is kept of a client that asks for nothing."""

    def disconnected(self, client: "Client") -> None:
        self.parking.abandon(client)

    def receive(self, exchange: "Exchange", frame: memoryview) -> None:
        """One request frame, without its length. Whatever the bytes are, it does not raise."""
        try:
            (api_key, version, correlation_id, client_id), position = read_request_header(frame)
            api = self.apis.get(api_key)
            if api is None:
                exchange.close(f"API {api_key} is not served here")
                return
            request = Request(exchange, api, version, correlation_id, client_id)
            if not api.min_version <= version <= api.max_version:
                self._refuse_version(request, api, version)
                return
            message = api.decode(version, frame, position)
        except MalformedFrame as error:
            exchange.close(f"malformed frame: {error}")
            return
        try:
            response = api.handle(self, request, message)
            if response is not None:
                request.reply(response)
        except Exception as error:
            self._failed(request, error)
        self.metrics.received(api_key)

    def _refuse_version(self, request: Request, api: Api, version: int) -> None:
        if api.key is ApiKey.API_VERSIONS:
            request.reply_in_version(0, unsupported_version(api))
        else:
            request.close(
                f"{api.key.name} version {version} is not served here; "
                f"{api.min_version} to {api.max_version} are"
            )

    def _failed(self, request: Request, error: Exception) -> None:
        api = request.api
        code = ErrorCode.UNKNOWN_SERVER_ERROR
        if isinstance(error, KafkaError):
            code = error.code
        else:
            logger.exception("request failed", api=api.key.name, version=request.api_version)
        response = error_response(api, int(code))
        if response is None:
            request.close(f"{api.key.name} failed: {error}")
        else:
            request.reply(response)

    # Look-ups for handlers

    def topic_name(self, topic_id: bytes) -> str | None:
        return self.image.names.get(TopicId(topic_id))

    def leading(self, name: str | None, index: int, missing: ErrorCode) -> Partition:
        """The replica that this broker leads; else the error that a client is told."""
        if name is None:
            raise KafkaError(missing)
        replica = self.partitions.get((name, index))
        if replica is not None:
            if self.directory.offline is not None:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(self.directory.offline))
            return replica
        if self.image.partition(name, index) is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def reply_after_commit(
        self, names: Iterable[tuple[str, int]], request: Request, answer: Callable[[], object]
    ) -> None:
        """Replies with `answer()` once all that is written to these partitions now is committed, as
        far as that takes no more than a flush; so that a client which flushed its producer sees
        what it sent, whatever it asks for."""
        waiting = [
            (replica, replica.log.end_offset)
            for name in names
            if (replica := self.partitions.get(name)) is not None
            and replica.high_watermark < replica.log.end_offset
            and len(replica.in_sync) == 1
        ]
        left = len(waiting)

        def reply() -> None:
            try:
                request.reply(answer())
            except Exception as error:
                self._failed(request, error)

        def committed(_: KafkaError | None) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                reply()

        if left == 0:
            reply()
        for replica, end in waiting:
            replica.when_committed(end, committed)

    def current_leader(self, name: str | None, index: int) -> tuple[int, int]:
        """Leader and leader epoch as the image has them, for a client that asked the wrong node."""
        partition = None if name is None else self.image.partition(name, index)
        return (-1, -1) if partition is None else (partition.leader, partition.leader_epoch)

    # Images

    def apply(self, old: MetadataImage, new: MetadataImage) -> None:
        """Opens, closes and reconfigures replicas so that they are what the image says."""
        is_first = self.image is EMPTY_IMAGE
        self.image = new
        if is_first:
            self.directory.identify(new.cluster_id, self.node_id)
            self.directory.open()
        for before, after in changed_topics(old, new):
            try:
                self._apply_change(before, after)
            except Exception:  # one topic that cannot be must not keep others from their place
                changed = after or before
                logger.exception("topic not applied", topic=changed and changed.name)
        self.groups.image_changed(old, new)
        if is_first:
            self._report_missing()
            self._set_aside_strays()
            self._retain_later()

    def _apply_change(self, before: TopicImage | None, after: TopicImage | None) -> None:
        if after is not None:
            self._apply_topic(before, after)
        elif before is not None:
            self._drop_topic(before)

    def _apply_topic(self, before: TopicImage | None, after: TopicImage) -> None:
        config = self._log_config(after.configs)
        reconfigured = before is not None and before.configs != after.configs
        is_whole = True
        for index, state in enumerate(after.partitions):
            if self.node_id not in state.replicas:
                continue
            name = TopicPartition(after.name, PartitionIndex(index))
            replica = self.partitions.get(name)
            if replica is not None and replica.topic_id != after.id:
                self._drop(name)
                replica = None
            if replica is None:
                try:
                    replica = self._open(name, after, config)
                except (KafkaError, DiskError) as error:
                    logger.error("log cannot be opened", log=str(name), reason=str(error))
                    is_whole = False
                    continue
            elif reconfigured:
                replica.log.reconfigure(config)
            if state.leader == self.node_id:
                replica.lead(state.leader_epoch, state.isr)
                if name.topic == GROUP_TOPIC:
                    self.groups.lead(replica)
        if not is_whole:
            self.timer.after(REOPEN_MS, lambda: self._apply_again(after))

    def _apply_again(self, topic: TopicImage) -> None:
        """Another try at a topic whose logs could not be opened, if it is still wanted."""
        if self.image.topics.get(topic.name) is topic:
            self._apply_topic(topic, topic)

    def _open(self, name: TopicPartition, topic: TopicImage, config: "LogConfig") -> Partition:
        found = self.directory.logs.get(name)
        if found is not None and found.topic_id == NO_TOPIC_ID:
            self._identify(found, topic.id)
        elif found is not None and found.topic_id != topic.id:
            self._set_aside(name)
            found = None
        replica = Partition(
            found or self.directory.create(name, topic.id, config),
            name,
            topic.id,
            commits_on_flush=self._commits_on_flush,
        )
        self.partitions[name] = replica
        return replica

    def _identify(self, found: "Log", topic_id: TopicId) -> None:
        """A log that does not know its topic learns it. Where that cannot be written down, for lack
        of room say, its records are served all the same, and it is tried again."""
        if found.is_closed:
            return
        try:
            self.directory.identify_log(found, topic_id)
        except DiskError as error:
            logger.warning("partition.metadata not written", log=str(found.tp), reason=str(error))
            self.timer.after(REOPEN_MS, lambda: self._identify(found, topic_id))

    def _config_for(self, topic: TopicName) -> "LogConfig":
        known = self.image.topics.get(topic)
        return self._log_config(known.configs if known else {})

    def _log_config(self, overrides: Mapping[str, str]) -> "LogConfig":
        """Most topics have the same settings: they are worked out once."""
        key = tuple(sorted(overrides.items()))
        config = self._log_configs.get(key)
        if config is None:
            if len(self._log_configs) >= MAX_LOG_CONFIGS:
                self._log_configs.clear()
            config = self._log_configs[key] = log_config(self.config, overrides)
        return config

    def _report_missing(self) -> None:
        for name, point in self.directory.missing.items():
            if name in self.partitions:
                logger.error("a log is gone, and begins anew", log=str(name), lost_up_to=point)

    def _set_aside_strays(self) -> None:
        """Logs of topics that nobody knows, left by a crash in a deletion or brought by somebody:
        out of the way, so that a new topic of that name starts empty, but not lost. One that only
        cannot be opened for now stays where it is."""
        for name in [name for name in self.directory.logs if not self._is_ours(name)]:
            self._set_aside(name)

    def _is_ours(self, name: TopicPartition) -> bool:
        state = self.image.partition(*name)
        return state is not None and self.node_id in state.replicas

    def _set_aside(self, name: TopicPartition) -> None:
        kept = self.directory.set_aside(name)
        logger.warning("log of no known topic set aside", log=str(name), directory=kept)

    def _drop_topic(self, topic: TopicImage) -> None:
        for index in range(len(topic.partitions)):
            self._drop(TopicPartition(topic.name, PartitionIndex(index)))

    def _drop(self, name: TopicPartition) -> None:
        replica = self.partitions.pop(name, None)
        if replica is not None:
            if name.topic == GROUP_TOPIC:
                self.groups.resign(name.partition)
            replica.close(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            self.directory.delete(name)

    # Retention

    def _retain_later(self) -> None:
        self.timer.after(self.config["log.retention.check.interval.ms"], self._retain)

    def _retain(self) -> None:
        now_ms = self.clock.now_ms()
        for replica in tuple(self.partitions.values()):
            try:
                replica.log.retain(now_ms, replica.high_watermark)
            except (KafkaError, DiskError) as error:
                logger.warning("retention failed", log=str(replica.name), reason=str(error))
        self._retain_later()

    # The end

    def stop(self, done: Callable[[], None]) -> None:
        """Answers whoever waits, leaves the cluster, and closes all logs cleanly."""
        self.parking.finish()
        self.groups.close()
        gone = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

        def left() -> None:
            self.directory.close_cleanly()
            for replica in self.partitions.values():
                replica.close(gone)
            done()

        self.member.stop(left)
