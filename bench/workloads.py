"""Workloads and targets. Ratios are Sawlog's value over Apache Kafka's.

A workload is data; `bench.runs` runs each kind.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any


class Metric(StrEnum):
    RATE = "records_per_s"
    MEGABYTES = "mb_per_s"
    BROKER_CPU = "broker_cpu_s"
    BROKER_CPU_PER_GB = "broker_cpu_s_per_gb"
    CLIENT_CPU = "client_cpu_s"
    OTHERS = "others_cores"
    LOAD = "load_average"
    P50 = "p50_ms"
    P99 = "p99_ms"
    P99_QUIET = "p99_quiet_ms"
    P99_FACTOR = "p99_factor"
    MAX = "max_ms"
    MAX_QUIET = "max_quiet_ms"
    MEGABYTES_PER_CPU = "mb_per_cpu_s"
    FIRST_ANSWER = "first_answer_s"
    RESIDENT_IDLE = "resident_idle_mb"
    RESIDENT_AFTER = "resident_after_mb"
    OPEN_5000 = "open_5000_s"
    RECOVER_10GB = "recover_10gb_s"
    RECOVERY_READ = "recovery_read_mb"
    OTHERS_CPU = "others_cpu_s"
    REBALANCE = "rebalance_ms"
    LOAD_OFFSETS = "load_offsets_s"
    LOAD_DIRTY_OFFSETS = "load_dirty_offsets_s"
    WORKER_PEAK = "worker_peak_mb"
    WORKERS_TOGETHER = "workers_together_mb"
    COMPILE = "compile_s"
    BEHIND = "behind_s"
    IN_SYNC_AGAIN = "in_sync_again_s"
    CREATE = "create_s"
    CREATE_CPU = "create_cpu_s"
    IDLE_CORES = "idle_cores"
    LEADERS_AGAIN = "leaders_again_s"
    OUTAGE = "outage_s"
    FIRST_ROWS = "first_rows_s"
    LANDED = "landed_s"
    LANDING_CPU = "landing_cpu_s"
    LANDING_MEMORY = "landing_memory_mb"
    WRITTEN = "written_per_changed_byte"


class Kind(StrEnum):
    PRODUCE = "produce"
    CONSUME = "consume"
    CONSUME_JAVA = "consume with ConsumerPerformance"
    PACE_JAVA = "pace with ProducerPerformance"
    PACE_LIBRDKAFKA = "pace with librdkafka"
    REBALANCE = "rebalance"
    COMMIT = "commit"
    READ = "read into a client"
    COMPACT = "compact"
    PACE_COMPACTION = "pace beside a compaction"
    PACE_RETENTION = "pace beside retention"
    PACE_TOPIC_DELETION = "pace beside the deletion of a topic"
    PIPELINE = "pipeline on Spark"
    COLD_LANDING = "landing from a cold start"
    LAKES = "landing in lakes of different kinds"
    START = "start"
    RESTART = "restart"
    REPLICATED_PRODUCE = "replicated produce"
    REPLICATED_CONSUME = "replicated consume"
    CATCH_UP = "catch-up of a follower"
    REPLICATED_PARTITIONS = "many replicated partitions"
    FAILOVER = "failover"
    TRANSACTIONAL_PRODUCE = "produce in transactions"
    TRANSACTION_COMMIT_LIBRDKAFKA = "small transactions with librdkafka"
    TRANSACTION_COMMIT_JAVA = "small transactions with the Java client"
    TRANSACTION_LATENCY = "latency under read_committed"


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on a ratio, or on Sawlog's value if Kafka is not measured."""

    metric: Metric
    bound: float
    at_least: bool = False
    absolute: bool = False


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    title: str
    kind: Kind
    records: int = 0
    record_bytes: int = 100
    partitions: int = 6
    properties: Mapping[str, str] = field(default_factory=dict)
    targets: tuple[Target, ...] = ()
    protocol: str = ""
    members: int = 0
    rebalances: int = 0
    beside_kafka: bool = True
    flush_policy: str = ""
    transaction_ms: int = 0

    def scaled(self, factor: float) -> "Workload":
        return replace(
            self,
            records=max(1, int(self.records * factor)),
            rebalances=max(1, int(self.rebalances * factor)),
        )


def _targets(rate: float, cpu: float) -> tuple[Target, ...]:
    return (Target(Metric.RATE, rate, at_least=True), Target(Metric.BROKER_CPU, cpu))


LARGE_BATCHES = {"batch.size": "65536", "linger.ms": "5"}
AT_ONCE = {"linger.ms": "0"}
P99_NOT_ABOVE = (Target(Metric.P99, 1.0),)
PACE_PER_S = 2_000
COMMIT_CONNECTIONS = 20
PARTITIONS_A_MEMBER = 2
COMPACTED_KEYS = 200_000
DELETED_SEGMENTS = 1_000
P99_DOUBLED = (Target(Metric.P99_FACTOR, 2.0, absolute=True),)


def _rebalance(protocol: str, members: int, rebalances: int) -> Workload:
    return Workload(
        f"rebalance-{protocol}-{members}",
        f"{members} members, {protocol} protocol",
        Kind.REBALANCE,
        partitions=members * PARTITIONS_A_MEMBER,
        targets=(Target(Metric.REBALANCE, 1.0),),
        protocol=protocol,
        members=members,
        rebalances=rebalances,
    )


def _compaction(name: str, title: str, record_bytes: int, codec: str) -> Workload:
    return Workload(
        f"compaction-{name}",
        f"{title}, 400 MB, {COMPACTED_KEYS:,} keys, 16 KB batches, 50 MB segments",
        Kind.COMPACT,
        records=400_000_000 // record_bytes,
        record_bytes=record_bytes,
        partitions=1,
        properties={"compression.type": codec},
        targets=(Target(Metric.MEGABYTES_PER_CPU, 0.5, at_least=True),),
    )


def _pace_beside(name: str, title: str, kind: Kind) -> Workload:
    return Workload(
        name,
        f"2,000 records/s, acks=1, librdkafka, {title}",
        kind,
        records=10_000,
        properties={"acks": "1"},
        targets=P99_DOUBLED,
    )


IN_PAGE_CACHE = "Sawlog with flush.policy=os"
ON_DISK = "Sawlog flushing on three brokers"
MEMORY_QUARTER = Target(Metric.RESIDENT_AFTER, 0.25)


def _replicated(name: str, kind: Kind, title: str, policy: str, **fields: Any) -> Workload:
    """A row for three brokers. The targets are for Kafka's way of flushing, none."""
    is_durable = policy == "commit"
    return Workload(
        f"{name}-durable" if is_durable else name,
        f"{title}, {ON_DISK if is_durable else IN_PAGE_CACHE}",
        kind,
        targets=() if is_durable else (*_targets(1.0, 0.7), MEMORY_QUARTER),
        flush_policy=policy,
        **fields,
    )


def _replicated_rows(policy: str) -> tuple[Workload, ...]:
    return (
        _replicated(
            "replicated-1",
            Kind.REPLICATED_PRODUCE,
            "produce 100 B, 6 partitions, 64 KB batches, acks=1",
            policy,
            records=3_000_000,
            properties={"acks": "1", **LARGE_BATCHES},
        ),
        _replicated(
            "replicated-all",
            Kind.REPLICATED_PRODUCE,
            "produce 1 KB, 6 partitions, 64 KB batches, acks=all",
            policy,
            records=600_000,
            record_bytes=1_000,
            properties={"acks": "all", **LARGE_BATCHES},
        ),
    )


def _failover(name: str, title: str, most_s: float) -> Workload:
    """A fault of a cluster: shorter than Kafka's outage, and no longer than `most_s`."""
    return Workload(
        f"failover-{name}",
        f"12 partitions, acks=all, {title}",
        Kind.FAILOVER,
        partitions=12,
        targets=(Target(Metric.OUTAGE, 1.0), Target(Metric.OUTAGE, most_s, absolute=True)),
        flush_policy="commit",
    )


TRANSACTIONS_PER_S = 20


def _transactional(policy: str, name: str, kind: Kind, title: str, **fields: Any) -> Workload:
    """A row of one broker. The target is for Kafka's way of flushing, none."""
    is_durable = policy == "commit"
    is_commit = kind in (Kind.TRANSACTION_COMMIT_JAVA, Kind.TRANSACTION_COMMIT_LIBRDKAFKA)
    reached = (Target(Metric.RATE, 1.0, at_least=True),) if is_commit else ()
    return Workload(
        f"{name}-durable" if is_durable else name,
        f"{title}, {'Sawlog flushing' if is_durable else IN_PAGE_CACHE}",
        kind,
        targets=() if is_durable else reached,
        flush_policy=policy,
        **fields,
    )


def _transactional_rows(policy: str) -> tuple[Workload, ...]:
    return (
        *(
            _transactional(
                policy,
                f"transactions-{duration_ms}",
                Kind.TRANSACTIONAL_PRODUCE,
                f"100 B, 6 partitions, 64 KB batches, a commit every {duration_ms:,} ms",
                records=3_000_000,
                properties={"acks": "all", **LARGE_BATCHES},
                transaction_ms=duration_ms,
            )
            for duration_ms in (100, 1_000)
        ),
        _transactional(
            policy,
            "transaction-commits-java",
            Kind.TRANSACTION_COMMIT_JAVA,
            "one record a transaction, one Java producer (transaction.version 2)",
            records=2_000,
            partitions=1,
        ),
        _transactional(
            policy,
            "transaction-commits",
            Kind.TRANSACTION_COMMIT_LIBRDKAFKA,
            "one record a transaction, one librdkafka producer (AddPartitionsToTxn)",
            records=2_000,
            partitions=1,
        ),
        _transactional(
            policy,
            "transaction-latency",
            Kind.TRANSACTION_LATENCY,
            f"{TRANSACTIONS_PER_S} transactions/s of 10 records, librdkafka",
            records=200,
            partitions=1,
        ),
    )


SESSION_S = 6.0
WORKLOADS = (
    Workload(
        "start",
        "start to first answer, and memory",
        Kind.START,
        targets=(
            Target(Metric.FIRST_ANSWER, 0.1),
            Target(Metric.RESIDENT_IDLE, 0.1),
            Target(Metric.RESIDENT_AFTER, 0.1),
        ),
    ),
    Workload(
        "produce-6",
        "produce 100 B, 6 partitions, 64 KB batches, acks=1",
        Kind.PRODUCE,
        records=5_000_000,
        properties={"acks": "1", **LARGE_BATCHES},
        targets=_targets(1.0, 0.75),
    ),
    Workload(
        "produce-1",
        "produce 100 B, 1 partition, 16 KB batches, acks=1",
        Kind.PRODUCE,
        records=3_000_000,
        partitions=1,
        properties={"acks": "1", "batch.size": "16384", "linger.ms": "5"},
        targets=_targets(1.2, 0.5),
    ),
    Workload(
        "produce-all",
        "produce 1 KB, 6 partitions, 64 KB batches, acks=all, Sawlog flushing",
        Kind.PRODUCE,
        records=1_000_000,
        record_bytes=1_000,
        properties={"acks": "all", **LARGE_BATCHES},
        targets=_targets(1.0, 0.9),
    ),
    Workload(
        "single",
        "one record a request, 1 connection, acks=1",
        Kind.PRODUCE,
        records=100_000,
        partitions=1,
        properties={"acks": "1", "batch.size": "1", **AT_ONCE},
        targets=_targets(1.3, 0.55),
    ),
    Workload(
        "consume",
        "consume 100 B, 6 partitions",
        Kind.CONSUME,
        records=4_000_000,
        properties={"acks": "1", **LARGE_BATCHES},
        targets=_targets(1.2, 0.8),
    ),
    Workload(
        "consume-java",
        "consume 100 B, 6 partitions, ConsumerPerformance, a group of one",
        Kind.CONSUME_JAVA,
        records=4_000_000,
        properties={"acks": "1", **LARGE_BATCHES},
    ),
    _rebalance("classic", 2, 40),
    _rebalance("classic", 20, 20),
    _rebalance("classic", 200, 10),
    _rebalance("consumer", 2, 40),
    _rebalance("consumer", 20, 20),
    _rebalance("consumer", 200, 5),
    Workload(
        "commits",
        f"offset commits, {COMMIT_CONNECTIONS} connections and groups, Sawlog flushing",
        Kind.COMMIT,
        records=40_000,
        partitions=1,
        targets=(Target(Metric.RATE, 1.0, at_least=True),),
    ),
    Workload(
        "latency-1",
        "2,000 records/s, acks=1, librdkafka",
        Kind.PACE_LIBRDKAFKA,
        records=20_000,
        properties={"acks": "1"},
        targets=P99_NOT_ABOVE,
    ),
    Workload(
        "latency-all",
        "2,000 records/s, acks=all, Sawlog flushing, librdkafka",
        Kind.PACE_LIBRDKAFKA,
        records=20_000,
        properties={"acks": "all"},
    ),
    Workload(
        "latency-java-1",
        "2,000 records/s, acks=1, ProducerPerformance (whole ms)",
        Kind.PACE_JAVA,
        records=20_000,
        properties={"acks": "1", **AT_ONCE},
        targets=P99_NOT_ABOVE,
    ),
    Workload(
        "latency-java-all",
        "2,000 records/s, acks=all, Sawlog flushing, ProducerPerformance (whole ms)",
        Kind.PACE_JAVA,
        records=20_000,
        properties={"acks": "all", **AT_ONCE},
    ),
    _compaction("100", "100 B records", 100, "none"),
    _compaction("1000", "1,000 B records", 1_000, "none"),
    _compaction("zstd", "100 B records, zstd (sizes before it)", 100, "zstd"),
    _pace_beside("produce-p99-compaction", "while a log is compacted", Kind.PACE_COMPACTION),
    _pace_beside(
        "produce-p99-retention",
        f"while retention deletes {DELETED_SEGMENTS:,} segments",
        Kind.PACE_RETENTION,
    ),
    _pace_beside(
        "produce-p99-topic-deletion",
        f"while a topic of {DELETED_SEGMENTS:,} segments is deleted",
        Kind.PACE_TOPIC_DELETION,
    ),
    Workload(
        "clients",
        "keys, values of 20 to 180 B, a header on every tenth, no compression, 6 partitions",
        Kind.READ,
        records=3_000_000,
        targets=(Target(Metric.RATE, 2_500_000, at_least=True, absolute=True),),
        beside_kafka=False,
    ),
    Workload(
        "spark-aggregate",
        "opaque values of 100 B, 6 partitions, into an aggregate",
        Kind.PIPELINE,
        records=5_000_000,
        targets=(Target(Metric.RATE, 2.5, at_least=True),),
    ),
    Workload(
        "land-raw",
        "opaque values of 100 B, 6 partitions, into a table (the connector: into Parquet)",
        Kind.PIPELINE,
        records=5_000_000,
        targets=(Target(Metric.RATE, 3.0, at_least=True),),
    ),
    Workload(
        "land-json",
        "JSON of 100 B, 1 % broken, into a table and its dead letters (the connector: from_json"
        " into Parquet)",
        Kind.PIPELINE,
        records=5_000_000,
        targets=(Target(Metric.RATE, 1.5, at_least=True),),
    ),
    Workload(
        "lakes",
        "JSON of 100 B, 1 % broken, 6 partitions, into a table and its dead letters",
        Kind.LAKES,
        records=5_000_000,
        beside_kafka=False,
    ),
    Workload(
        "tables-100",
        "100 topics of 1,000 opaque values of 100 B into 100 tables",
        Kind.COLD_LANDING,
        records=100_000,
        partitions=100,
        targets=(
            Target(Metric.LANDED, 120.0, absolute=True),
            Target(Metric.LANDING_MEMORY, 2_000.0, absolute=True),
            Target(Metric.IDLE_CORES, 0.1, absolute=True),
        ),
        beside_kafka=False,
    ),
    Workload(
        "cold-100k",
        "100,000 JSON values of 100 B, 1 % broken, columns inferred, into one table",
        Kind.COLD_LANDING,
        records=100_000,
        partitions=1,
        beside_kafka=False,
    ),
    Workload(
        "upsert",
        "a keyed table of 1,000,000 rows of 100 B, ten batches that change 1 % at random",
        Kind.COLD_LANDING,
        records=1_000_000,
        partitions=2,
        beside_kafka=False,
    ),
    Workload(
        "partitions",
        "open 5,000 partitions after a clean stop",
        Kind.RESTART,
        targets=(Target(Metric.OPEN_5000, 2.0, absolute=True),),
        beside_kafka=False,
    ),
    Workload(
        "recovery",
        "recover 10 GB of log after kill -9",
        Kind.RESTART,
        targets=(Target(Metric.RECOVER_10GB, 5.0, absolute=True),),
        beside_kafka=False,
    ),
    Workload(
        "offsets",
        "load 100,000 committed offsets of 1,000 groups after a clean stop",
        Kind.RESTART,
    ),
    Workload(
        "offsets-2m",
        "load the offsets of 1,000 groups after 2,000,000 commits",
        Kind.RESTART,
    ),
    *_replicated_rows("os"),
    _replicated(
        "replicated-consume",
        Kind.REPLICATED_CONSUME,
        "consume 100 B, 6 partitions",
        "os",
        records=3_000_000,
        properties={"acks": "1", **LARGE_BATCHES},
    ),
    Workload(
        "catch-up",
        "600 MB of 1 KB records on 6 partitions, written while the follower was away",
        Kind.CATCH_UP,
        records=600_000,
        record_bytes=1_000,
        properties={"acks": "1", **LARGE_BATCHES},
        targets=(
            Target(Metric.MEGABYTES, 1.0, at_least=True),
            Target(Metric.BROKER_CPU, 0.7),
            Target(Metric.IN_SYNC_AGAIN, 1.0),
        ),
        flush_policy="os",
    ),
    *_replicated_rows("commit"),
    Workload(
        "replicated-partitions",
        "1,000 partitions with three replicas",
        Kind.REPLICATED_PARTITIONS,
        partitions=1_000,
        targets=(
            Target(Metric.CREATE, 1.0),
            Target(Metric.IDLE_CORES, 0.7),
            Target(Metric.LEADERS_AGAIN, 1.0),
            MEMORY_QUARTER,
        ),
        flush_policy="os",
    ),
    *_transactional_rows("os"),
    *_transactional_rows("commit"),
    _failover("kill", "a broker killed", SESSION_S + 2.0),
    _failover("kill-all", "all brokers killed and started at once", SESSION_S + 3.0),
    _failover("sigterm", "SIGTERM of a broker", 0.5),
    _failover("pause", "a broker paused beyond its session", SESSION_S + 2.0),
)
BY_NAME = {workload.name: workload for workload in WORKLOADS}
