"""The fetchers of the partitions that this broker follows (Kafka's ReplicaFetcherManager).

`Replicas` tells which replica follows which leader; the image has the leaders' addresses.
"""

from typing import TYPE_CHECKING

from sawlog.broker.replica_fetcher import FetchLimits, FetchTotals, ReplicaFetcher
from sawlog.core.ids import NodeId, TopicPartition

if TYPE_CHECKING:
    from sawlog.broker.metadata_cache import MetadataCache
    from sawlog.broker.replication_throttle import ReplicationThrottle
    from sawlog.core.config import BrokerConfig
    from sawlog.core.ports import Timer
    from sawlog.protocol.peers import Peers
    from sawlog.replication.replica import Replica


class ReplicaFetchers:
    """Invariant: a partition is fetched by the fetcher of its leader, and by no other; a fetcher
    has at least one partition."""

    def __init__(
        self,
        node_id: NodeId,
        config: "BrokerConfig",
        metadata: "MetadataCache",
        peers: "Peers",
        timer: "Timer",
        throttle: "ReplicationThrottle",
    ) -> None:
        self._node_id = node_id
        self._limits = FetchLimits.of(config)
        self._metadata = metadata
        self._peers = peers
        self._timer = timer
        self._throttle = throttle
        self._fetchers: dict[NodeId, ReplicaFetcher] = {}
        self.totals: dict[NodeId, FetchTotals] = {}  # by leader, also of former ones
        self._followed: dict[TopicPartition, Replica] = {}
        self._leaders: dict[TopicPartition, NodeId] = {}
        self._is_closed = False

    @property
    def failed(self) -> list[str]:
        """The partitions that cannot follow their leader until its next epoch."""
        return [name for fetcher in self._fetchers.values() for name in fetcher.failed]

    @property
    def max_lag(self) -> int:
        """The largest lag of a partition that this broker follows, in records."""
        return max((fetcher.max_lag for fetcher in self._fetchers.values()), default=0)

    def role_changed(self, replica: "Replica") -> None:
        """A replica has a new role or epoch: follow its leader, if it has another one."""
        if self._is_closed:
            return
        follower = replica.follower
        known = self._leaders.get(replica.name)
        if known is not None and (
            follower is None
            or follower.leader != known
            or self._followed[replica.name] is not replica
        ):
            self.closed(replica.name)
        if follower is None:
            return
        self._followed[replica.name] = replica
        self._leaders[replica.name] = follower.leader
        fetcher = self._fetchers.get(follower.leader)
        if fetcher is None:
            fetcher = self._fetchers[follower.leader] = ReplicaFetcher(
                follower.leader,
                self._node_id,
                self._peers,
                self._timer,
                self._limits,
                self._broker_epoch,
                self.totals.setdefault(follower.leader, FetchTotals()),
                self._throttle,
            )
            fetcher.set_address(self._address(follower.leader))
        fetcher.follow(replica, follower)

    def closed(self, name: TopicPartition) -> None:
        """A replica was closed, or does not follow its leader any more."""
        leader = self._leaders.pop(name, None)
        if leader is None:
            return
        replica = self._followed.pop(name)
        fetcher = self._fetchers[leader]
        fetcher.unfollow((replica.topic_id, name.partition))
        if not len(fetcher):
            del self._fetchers[leader]
            fetcher.close()

    def brokers_changed(self) -> None:
        """Brokers have joined, left or moved: connect to the new addresses."""
        for leader, fetcher in self._fetchers.items():
            fetcher.set_address(self._address(leader))

    def close(self) -> None:
        """Stop fetching for good: the broker stops, or its data directory is offline."""
        self._is_closed = True
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()
        self._followed.clear()
        self._leaders.clear()

    def _address(self, leader: NodeId) -> tuple[str, int] | None:
        broker = self._metadata.image.brokers.get(leader)
        return None if broker is None else (broker.host, broker.port)

    def _broker_epoch(self) -> int:
        broker = self._metadata.image.brokers.get(self._node_id)
        return -1 if broker is None else broker.epoch
