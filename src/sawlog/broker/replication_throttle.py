"""Throttled replication (KIP-73): the quotas of a broker as a leader and as a follower.

Topics name their throttled replicas (`leader.replication.throttled.replicas`,
`follower.replication.throttled.replicas`), brokers have the rates. While the leader's quota is
exceeded, a throttled partition is served without records; while the follower's is, it is left out
of fetches. In-sync replicas are counted but never held back: that would delay acks=all, and throw
them out of the in-sync set.
"""

from typing import TYPE_CHECKING

from sawlog.cluster.metadata_image import changed_topics
from sawlog.core.config_throttle import (
    ALL_REPLICAS,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    THROTTLED_RATES,
)
from sawlog.replication.replication_quota import ReplicationQuota

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sawlog.broker.metadata_cache import MetadataCache
    from sawlog.cluster.metadata_image import MetadataImage
    from sawlog.core.config_dynamic import DynamicBrokerConfig
    from sawlog.core.ids import NodeId
    from sawlog.core.ports import Clock
    from sawlog.replication.replica import Replica

MAX_INDEX_DIGITS = 10
"""Partition indexes are below 2^31."""


class ReplicationThrottle:
    """Both quotas, as the settings in force and the newest image say."""

    def __init__(
        self,
        node_id: "NodeId",
        config: "DynamicBrokerConfig",
        metadata: "MetadataCache",
        clock: "Clock",
    ) -> None:
        window_ms = config["replication.quota.window.size.seconds"] * 1_000
        count = config["replication.quota.window.num"]
        self.leader = ReplicationQuota(clock, window_ms=window_ms, window_count=count)
        self.follower = ReplicationQuota(clock, window_ms=window_ms, window_count=count)
        self._node_id = node_id
        self._config = config
        self._metadata = metadata
        config.subscribe(THROTTLED_RATES, self._set_rates)
        self._set_rates()

    def _set_rates(self) -> None:
        self.leader.set_rate(self._config.quota(LEADER_RATE))
        self.follower.set_rate(self._config.quota(FOLLOWER_RATE))

    def apply(self, old: "MetadataImage", new: "MetadataImage") -> None:
        """Throttle the replicas that the topics of a new image name."""
        for before, after in changed_topics(old, new):
            if after is not None:
                self._throttle(after.name, after.configs)
            elif before is not None:
                self._throttle(before.name, {})

    def _throttle(self, topic: str, configs: "Mapping[str, str]") -> None:
        self.leader.throttle(topic, _indexes(configs.get(LEADER_REPLICAS, ""), self._node_id))
        self.follower.throttle(topic, _indexes(configs.get(FOLLOWER_REPLICAS, ""), self._node_id))

    # The leader

    def holds_back_records(self, replica: "Replica", follower: "NodeId") -> bool:
        """Whether a fetch of this follower gets no records of a partition now."""
        return (
            self.leader.is_used
            and self.leader.throttles(*replica.name)
            and replica.leader is not None
            and follower not in replica.leader.maximal_isr()
            and self.leader.wait_ms() > 0
        )

    def sent(self, topic: str, index: int, size: int) -> None:
        """Count records that were sent to a follower."""
        if self.leader.throttles(topic, index):
            self.leader.record(size)

    # The follower

    def received(self, topic: str, index: int, size: int) -> None:
        """Count records that were fetched from a leader."""
        if self.follower.throttles(topic, index):
            self.follower.record(size)

    def fetch_delay_ms(self) -> int:
        """How long `holds_back_fetch` partitions are not to be fetched; 0 if the quota is not
        exceeded."""
        return self.follower.wait_ms() if self.follower.is_used else 0

    def holds_back_fetch(self, topic: str, index: int) -> bool:
        """Whether a partition is left out of fetches while the quota is exceeded."""
        if not self.follower.throttles(topic, index):
            return False
        state = self._metadata.image.partition(topic, index)
        return state is not None and self._node_id not in state.isr


def _indexes(text: str, node_id: "NodeId") -> frozenset[int] | None:
    """The partitions whose replica on this broker is in a list like `0:1,0:2`; None means all. An
    item that names no possible partition is ignored: int() raises at thousands of digits."""
    if text.strip() == ALL_REPLICAS:
        return None
    pairs = (item.strip().partition(":") for item in text.split(","))
    return frozenset(
        int(index)
        for index, _, node in pairs
        if node == str(node_id) and index.isdecimal() and len(index) <= MAX_INDEX_DIGITS
    )
