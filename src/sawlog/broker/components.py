"""The parts of one broker. A handler sees the few that its own context names.

Each handler module declares a Protocol with the attributes it needs; `Components` satisfies them
all, which mypy checks in `dispatch.py`.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sawlog.broker.fetch_sessions import FetchSessions
    from sawlog.broker.group_coordinator import GroupCoordinator
    from sawlog.broker.metadata_cache import MetadataCache
    from sawlog.broker.metrics import BrokerMetrics
    from sawlog.broker.purgatory import Purgatory
    from sawlog.broker.replica_fetchers import ReplicaFetchers
    from sawlog.broker.replicas import Replicas
    from sawlog.broker.replication_throttle import ReplicationThrottle
    from sawlog.broker.transaction_coordinator import TransactionCoordinator
    from sawlog.broker.transaction_marker_writer import TransactionMarkerWriter
    from sawlog.broker.transaction_verification import TransactionVerifier
    from sawlog.cluster.cluster_member import ClusterMember
    from sawlog.cluster.ordered_elections import OrderedElections
    from sawlog.cluster.producer_ids import ProducerIds
    from sawlog.cluster.reassignments import Reassignments
    from sawlog.cluster.resource_configs import ResourceConfigs
    from sawlog.cluster.topics import Topics
    from sawlog.core.config_dynamic import DynamicBrokerConfig
    from sawlog.core.ids import NodeId
    from sawlog.core.ports import Clock, Timer
    from sawlog.storage.log_directory import LogDirectory


@dataclass(slots=True, eq=False)
class Components:
    """Built once by `assemble`; no attribute is assigned later."""

    node_id: "NodeId"
    config: "DynamicBrokerConfig"
    clock: "Clock"
    timer: "Timer"
    member: "ClusterMember"
    metadata: "MetadataCache"
    topics: "Topics"
    elections: "OrderedElections"
    reassignments: "Reassignments"
    resource_configs: "ResourceConfigs"
    producer_ids: "ProducerIds"
    directory: "LogDirectory"
    replicas: "Replicas"
    fetchers: "ReplicaFetchers"
    groups: "GroupCoordinator"
    transactions: "TransactionCoordinator"
    marker_writer: "TransactionMarkerWriter"
    verifier: "TransactionVerifier"
    fetch_sessions: "FetchSessions"
    fetch_max_bytes: int
    purgatory: "Purgatory"
    metrics: "BrokerMetrics"
    throttle: "ReplicationThrottle"
