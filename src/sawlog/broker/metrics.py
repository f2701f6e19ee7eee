"""The broker's metrics: plain counters on the hot path, and their names in Prometheus."""

from collections import Counter
from typing import TYPE_CHECKING

from sawlog.core.metrics import Registry
from sawlog.core.store import SessionState
from sawlog.protocol.apis import ApiKey

if TYPE_CHECKING:
    from sawlog.broker.components import Components


class BrokerMetrics:
    """Totals since the start of the broker."""

    __slots__ = ("bytes_in", "bytes_out", "records_in", "replicated_bytes_out", "requests")

    def __init__(self) -> None:
        self.records_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.replicated_bytes_out = 0
        self.requests: Counter[int] = Counter()

    def appended(self, records: int, size: int) -> None:
        self.records_in += records
        self.bytes_in += size

    def served(self, size: int, *, to_follower: bool) -> None:
        if to_follower:
            self.replicated_bytes_out += size
        else:
            self.bytes_out += size

    def received(self, api_key: int) -> None:
        self.requests[api_key] += 1


def declare_metrics(registry: Registry, broker: "Components") -> None:
    """Register all metrics of a broker; they are read when Prometheus scrapes."""
    totals = broker.metrics
    registry.read_counter(
        "sawlog_records_appended_total", "Records appended.", lambda: totals.records_in
    )
    registry.read_counter(
        "sawlog_appended_bytes_total",
        "Bytes of record batches appended.",
        lambda: totals.bytes_in,
    )
    registry.read_counter(
        "sawlog_fetched_bytes_total",
        "Bytes of record batches served to clients.",
        lambda: totals.bytes_out,
    )
    registry.read_gauge(
        "sawlog_topics", "Topics in the metadata image.", lambda: len(broker.metadata.image.topics)
    )
    registry.read_gauge(
        "sawlog_partitions", "Replicas on this broker.", lambda: len(broker.replicas)
    )
    registry.read_gauge(
        "sawlog_fetch_sessions", "Open fetch sessions.", lambda: len(broker.fetch_sessions)
    )
    _declare_store_metrics(registry, broker)
    _declare_directory_metrics(registry, broker)
    _declare_replication_metrics(registry, broker)
    _declare_follower_metrics(registry, broker)
    _declare_throttle_metrics(registry, broker)
    _declare_cleaner_metrics(registry, broker)
    registry.read_gauges(
        "sawlog_groups",
        "Groups that this broker coordinates.",
        ["type", "state"],
        lambda: list(broker.groups.count().items()),
    )
    registry.read_gauge(
        "sawlog_pending_offsets",
        "Partitions of groups with an offset of an open transaction.",
        broker.groups.count_pending_offsets,
    )
    registry.read_counters(
        "sawlog_requests_total",
        "Requests received.",
        ["api"],
        lambda: [((ApiKey(key).name,), count) for key, count in totals.requests.items()],
    )


def _declare_store_metrics(registry: Registry, broker: "Components") -> None:
    member = broker.member
    registry.read_gauge(
        "sawlog_store_connected",
        "Whether the broker is connected to ZooKeeper, or its embedded store works.",
        lambda: int(member.store.state is SessionState.CONNECTED),
    )
    registry.read_gauge(
        "sawlog_broker_registered",
        "Whether the broker is registered in its present session, as far as it knows.",
        lambda: int(member.broker_epoch >= 0),
    )


def _declare_directory_metrics(registry: Registry, broker: "Components") -> None:
    registry.read_gauge(
        "sawlog_offline_log_directories",
        "Log directories that failed and are out of use.",
        lambda: int(broker.directory.offline is not None),
    )
    registry.read_counter(
        "sawlog_refused_writes_total",
        "Writes refused because the disk was full or no descriptor was left.",
        lambda: broker.directory.refused_writes,
    )
    registry.read_gauge(
        "sawlog_last_stop_was_clean",
        "Whether the last stop was clean: 0 after a kill or a crash, and on a new directory.",
        lambda: int(broker.directory.was_clean),
    )
    registry.read_gauge(
        "sawlog_damaged_logs",
        "Logs that were found damaged below their recovery point at the start.",
        lambda: broker.directory.recovery.damaged_logs,
    )


def _declare_replication_metrics(registry: Registry, broker: "Components") -> None:
    replicas = broker.replicas
    totals = replicas.isr_totals
    registry.read_gauge(
        "sawlog_leader_partitions",
        "Partitions that this broker leads.",
        lambda: sum(1 for _ in replicas.leaders()),
    )
    registry.read_gauge(
        "sawlog_under_replicated_partitions",
        "Partitions led here with fewer in-sync replicas than replicas.",
        lambda: sum(leader.is_under_replicated for _, leader in replicas.leaders()),
    )
    registry.read_gauge(
        "sawlog_under_min_isr_partitions",
        "Partitions led here with fewer in-sync replicas than min.insync.replicas.",
        lambda: sum(
            leader.is_under_min_isr(replica.log.config.min_insync_replicas)
            for replica, leader in replicas.leaders()
        ),
    )
    registry.read_counter(
        "sawlog_isr_shrinks_total",
        "In-sync sets from which this broker began to remove followers.",
        lambda: totals.shrinks,
    )
    registry.read_counter(
        "sawlog_isr_expands_total",
        "In-sync sets to which this broker began to add a follower.",
        lambda: totals.expands,
    )
    registry.read_counter(
        "sawlog_failed_isr_updates_total",
        "Changes of in-sync sets that were refused or not answered.",
        lambda: totals.failures,
    )
    registry.read_gauges(
        "sawlog_follower_lag_records",
        "Records that a follower of partitions led here has not fetched yet, in all partitions.",
        ["follower"],
        lambda: [((str(node),), lag) for node, lag in sorted(replicas.follower_lags().items())],
    )


def _declare_follower_metrics(registry: Registry, broker: "Components") -> None:
    fetchers = broker.fetchers
    registry.read_gauge(
        "sawlog_replica_fetcher_max_lag_records",
        "The most committed records that a replica here has not fetched from its leader yet.",
        lambda: fetchers.max_lag,
    )
    registry.read_gauge(
        "sawlog_replica_fetcher_failed_partitions",
        "Replicas here that cannot follow their leader until its next epoch.",
        lambda: len(fetchers.failed),
    )
    registry.read_gauge(
        "sawlog_damaged_replicas",
        "Replicas here that lost records and have not caught up with a leader yet.",
        lambda: len(broker.directory.damaged.entries),
    )
    registry.read_counters(
        "sawlog_replica_fetcher_requests_total",
        "Fetch requests sent to a leader.",
        ["leader"],
        lambda: [((str(n),), totals.requests) for n, totals in sorted(fetchers.totals.items())],
    )
    registry.read_counters(
        "sawlog_replication_in_bytes_total",
        "Bytes of record batches fetched from a leader.",
        ["leader"],
        lambda: [((str(n),), totals.bytes) for n, totals in sorted(fetchers.totals.items())],
    )
    registry.read_counter(
        "sawlog_replication_out_bytes_total",
        "Bytes of record batches served to followers.",
        lambda: broker.metrics.replicated_bytes_out,
    )


def _declare_throttle_metrics(registry: Registry, broker: "Components") -> None:
    quotas = {"leader": broker.throttle.leader, "follower": broker.throttle.follower}
    registry.read_counters(
        "sawlog_throttled_replication_bytes_total",
        "Bytes of record batches of throttled replicas, sent as a leader or fetched as a follower.",
        ["role"],
        lambda: [((role,), quota.total_bytes) for role, quota in quotas.items()],
    )


def _declare_cleaner_metrics(registry: Registry, broker: "Components") -> None:
    cleaner = broker.directory.cleaner
    totals = cleaner.totals
    registry.read_counter("sawlog_cleanings_total", "Logs compacted.", lambda: totals.cleanings)
    registry.read_counter(
        "sawlog_failed_cleanings_total",
        "Compactions that failed: damage, a full disk, or a worker that ended.",
        lambda: totals.failures,
    )
    registry.read_counter(
        "sawlog_cleaner_read_bytes_total",
        "Bytes of record batches read by the log cleaner.",
        lambda: totals.bytes_read,
    )
    registry.read_counter(
        "sawlog_cleaner_written_bytes_total",
        "Bytes of record batches written by the log cleaner.",
        lambda: totals.bytes_written,
    )
    registry.read_counter(
        "sawlog_cleaner_removed_records_total",
        "Records removed by compaction.",
        lambda: totals.records_removed,
    )
    registry.read_counter(
        "sawlog_cleaner_keyless_records_total",
        "Records without a key removed by compaction.",
        lambda: totals.keyless_records,
    )
    registry.read_counter(
        "sawlog_cleaner_busy_seconds_total",
        "How long cleanings took, all together.",
        lambda: totals.busy_ms / 1_000,
    )
    registry.read_gauge(
        "sawlog_cleaner_max_dirty_ratio",
        "The largest dirty ratio of a compacted log, at the last check.",
        lambda: cleaner.max_dirty_ratio,
    )
    registry.read_gauge(
        "sawlog_cleaner_max_delay_seconds",
        "How long the oldest dirty record is over max.compaction.lag.ms, at the last check.",
        lambda: cleaner.max_delay_ms / 1_000,
    )
    registry.read_gauge(
        "sawlog_uncleanable_partitions",
        "Logs that are not compacted because they are damaged.",
        lambda: len(cleaner.uncleanable),
    )
    registry.read_gauge(
        "sawlog_uncleanable_bytes",
        "The size of the logs that are not compacted because they are damaged.",
        lambda: cleaner.uncleanable_bytes,
    )
