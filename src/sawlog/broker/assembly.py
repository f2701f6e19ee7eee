"""Builds a broker from its ports and its configuration, for the server and for the simulator."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sawlog.broker.broker import Broker
from sawlog.broker.components import Components
from sawlog.broker.fetch_sessions import FetchSessions
from sawlog.broker.group_coordinator import GroupCoordinator
from sawlog.broker.log_configs import LogConfigs, cleaner_config
from sawlog.broker.metadata_cache import MetadataCache
from sawlog.broker.metrics import BrokerMetrics
from sawlog.broker.peer_connections import PeerConnections
from sawlog.broker.purgatory import Purgatory
from sawlog.broker.replica_fetchers import ReplicaFetchers
from sawlog.broker.replicas import LeadershipListener, Replicas
from sawlog.broker.replication_throttle import ReplicationThrottle
from sawlog.broker.transaction_coordinator import TransactionCoordinator
from sawlog.broker.transaction_marker_writer import TransactionMarkerWriter
from sawlog.broker.transaction_verification import TransactionVerifier
from sawlog.cluster.broker_registration import Registration
from sawlog.cluster.cluster_member import ClusterMember, OnImage, OnRefused
from sawlog.cluster.embedded_store import EmbeddedStore
from sawlog.cluster.internal_topics import INTERNAL_TOPICS, CoordinatorType
from sawlog.cluster.isr_changes import IsrChanges
from sawlog.cluster.metadata_image import MetadataImage
from sawlog.cluster.ordered_elections import OrderedElections
from sawlog.cluster.producer_ids import ProducerIds
from sawlog.cluster.reassignments import Reassignments
from sawlog.cluster.resource_configs import ResourceConfigs
from sawlog.cluster.topics import Topics
from sawlog.core.config import BrokerConfig
from sawlog.core.config_broker import FLUSH_BEFORE_COMMIT
from sawlog.core.config_dynamic import DynamicBrokerConfig
from sawlog.core.ports import Clock, Disk, Random, Timer
from sawlog.core.store import SessionState, Store
from sawlog.protocol.peers import Peers
from sawlog.storage.cleaner.cleaner_worker import StartWorker
from sawlog.storage.log_directory import LogDirectory

if TYPE_CHECKING:
    from sawlog.broker.transaction_markers import TransactionMarkers

SESSION_SLOTS = "max.incremental.fetch.session.cache.slots"

ImageApplied = Callable[[Exception | None], None]
"""Called after each metadata image, with the error if the broker could not apply it, and with the
error of a registration that is refused."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The broker's access to the machine, real or simulated."""

    clock: Clock
    timer: Timer
    random: Random
    disk: Disk
    store: Store
    peers: Peers
    start_cleaner: StartWorker


def assemble(
    ports: Ports, static: BrokerConfig, registration: Registration, image_applied: ImageApplied
) -> Broker:
    """Build a broker; `Broker.start` makes it join the cluster, and after the first
    `image_applied(None)` it can serve requests."""

    def apply(old: MetadataImage, new: MetadataImage) -> None:
        image_applied(broker.try_apply(old, new))

    config, metadata = DynamicBrokerConfig(static), MetadataCache()
    clock, timer, random, store = ports.clock, ports.timer, ports.random, ports.store
    log_configs = LogConfigs(config, metadata)
    directory = _log_directory(ports, config, log_configs)
    member = _cluster_member(ports, registration, directory, config, apply, image_applied)
    topics = Topics(member, config, random)
    groups = GroupCoordinator(
        config, metadata, topics, directory, store, clock=clock, timer=timer, random=random
    )
    producer_ids = ProducerIds(store, registration.id)
    transactions = _transactions(
        ports, registration, config, metadata, topics, directory, producer_ids, lambda: writer
    )
    throttle = ReplicationThrottle(registration.id, config, metadata, clock)
    fetchers = ReplicaFetchers(registration.id, config, metadata, ports.peers, timer, throttle)
    coordinators = _by_topic(
        {CoordinatorType.GROUP: groups, CoordinatorType.TRANSACTION: transactions}
    )
    replicas = _replicas(
        ports, config, metadata, directory, log_configs, coordinators, fetchers, member
    )
    writer = TransactionMarkerWriter(replicas, groups, clock)
    broker = Broker(
        Components(
            node_id=registration.id,
            config=config,
            clock=clock,
            timer=timer,
            member=member,
            metadata=metadata,
            topics=topics,
            elections=OrderedElections(member),
            reassignments=Reassignments(member, config),
            resource_configs=ResourceConfigs(member),
            producer_ids=producer_ids,
            directory=directory,
            replicas=replicas,
            fetchers=fetchers,
            groups=groups,
            transactions=transactions,
            marker_writer=writer,
            verifier=_verifier(ports, registration, config, metadata, transactions),
            fetch_sessions=FetchSessions(clock, random, config[SESSION_SLOTS]),
            fetch_max_bytes=config["fetch.max.bytes"],
            purgatory=Purgatory(timer),
            metrics=BrokerMetrics(),
            throttle=throttle,
        )
    )
    return broker


def _transactions(
    ports: Ports,
    registration: Registration,
    config: BrokerConfig,
    metadata: MetadataCache,
    topics: Topics,
    directory: LogDirectory,
    producer_ids: ProducerIds,
    writer: Callable[[], TransactionMarkerWriter],
) -> TransactionCoordinator:
    def markers() -> "TransactionMarkers":
        """The sender of markers; its code is imported with the first partition led here."""
        from sawlog.broker.transaction_markers import TransactionMarkers

        return TransactionMarkers(
            registration.id,
            metadata,
            PeerConnections(metadata, ports.peers),
            ports.timer,
            writer(),
            timeout_ms=config["request.timeout.ms"],
        )

    return TransactionCoordinator(
        config,
        metadata,
        topics,
        directory,
        ports.store,
        clock=ports.clock,
        timer=ports.timer,
        producer_ids=producer_ids,
        markers=markers,
    )


def _verifier(
    ports: Ports,
    registration: Registration,
    config: BrokerConfig,
    metadata: MetadataCache,
    transactions: TransactionCoordinator,
) -> TransactionVerifier:
    return TransactionVerifier(
        registration.id,
        config,
        transactions,
        PeerConnections(metadata, ports.peers),
        ports.timer,
        timeout_ms=config["request.timeout.ms"],
    )


def _replicas(
    ports: Ports,
    config: BrokerConfig,
    metadata: MetadataCache,
    directory: LogDirectory,
    log_configs: LogConfigs,
    coordinators: Mapping[str, LeadershipListener],
    fetchers: ReplicaFetchers,
    member: ClusterMember,
) -> Replicas:
    return Replicas(
        member.node_id,
        config,
        metadata,
        directory,
        log_configs,
        coordinators,
        clock=ports.clock,
        timer=ports.timer,
        fetchers=fetchers,
        isr_writer=IsrChanges(member),
        is_suspended=lambda: ports.store.state is not SessionState.CONNECTED,
    )


def _by_topic(
    coordinators: Mapping[CoordinatorType, LeadershipListener],
) -> dict[str, LeadershipListener]:
    """The coordinator of each internal topic."""
    return {topic.name: coordinators[topic.coordinator] for topic in INTERNAL_TOPICS.values()}


def _cluster_member(
    ports: Ports,
    registration: Registration,
    directory: LogDirectory,
    config: BrokerConfig,
    on_image: OnImage,
    on_refused: OnRefused,
) -> ClusterMember:
    return ClusterMember(
        ports.store,
        _registration_of(registration, directory, ports.store, config),
        config,
        clock=ports.clock,
        timer=ports.timer,
        random=ports.random,
        on_image=on_image,
        on_refused=on_refused,
    )


def _registration_of(
    registration: Registration, directory: LogDirectory, store: Store, config: BrokerConfig
) -> Registration:
    """Add what the data directory knows. One that contains the coordination store has no id there:
    it cannot be exchanged without the store."""
    return replace(
        registration,
        directory_id="" if isinstance(store, EmbeddedStore) else directory.directory_id,
        flush_policy=config["flush.policy"],
        clean_stop=directory.has_clean_marker(),
    )


def _log_directory(ports: Ports, config: BrokerConfig, log_configs: LogConfigs) -> LogDirectory:
    return LogDirectory(
        ports.disk,
        ports.clock,
        ports.timer,
        ports.random,
        config_for=log_configs.of_topic,
        flushes_at_checkpoint=config["flush.policy"] == FLUSH_BEFORE_COMMIT,
        watermark_interval_ms=config["replica.high.watermark.checkpoint.interval.ms"],
        cleaner_config=cleaner_config(config),
        start_cleaner=ports.start_cleaner,
    )
