"""The results as tables of text, for the terminal and the document. No IO."""

from dataclasses import dataclass

from bench import lakes, many_tables, readers
from bench.brokers import Name
from bench.results import Results
from bench.workloads import Kind, Metric, Target, Workload

NONE = "–"
MANY = 10_000


@dataclass(frozen=True, slots=True)
class Section:
    """One table; the first column is text, the others are numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


OTHERS_TITLE = "CPU of neither broker nor client, s (kernel workers that flush among them)"
PIPELINE_TITLE = (
    "Topics into Spark, local[2], records/s (from Apache Kafka by Spark's own connector)"
)
BESIDE_TITLE = "Latency beside compaction and deletion"
COMPARED = ("Apache Kafka", "Sawlog", "ratio", "target", "reached")


def sections(results: Results) -> list[Section]:
    """All tables that are not empty."""
    loads = results.of(Kind.PRODUCE, Kind.CONSUME, Kind.CONSUME_JAVA)
    paced = results.of(Kind.PACE_JAVA, Kind.PACE_LIBRDKAFKA)
    pipelines = results.of(Kind.PIPELINE)
    compactions = results.of(Kind.COMPACT)
    beside = results.of(Kind.PACE_COMPACTION, Kind.PACE_RETENTION, Kind.PACE_TOPIC_DELETION)
    rebalances, commits = results.of(Kind.REBALANCE), results.of(Kind.COMMIT)
    made = [
        _section(results, "Throughput, records/s", loads, Metric.RATE),
        _section(results, "CPU of the broker, s", loads, Metric.BROKER_CPU),
        _section(
            results, "CPU of the broker per GB of records, s", loads, Metric.BROKER_CPU_PER_GB
        ),
        _section(results, "CPU of the client, s (information only)", loads, Metric.CLIENT_CPU),
        _section(results, "Rebalance of a group, ms", rebalances, Metric.REBALANCE),
        _section(results, "Offset commits/s", commits, Metric.RATE),
        _section(
            results, "CPU of the broker for groups, s", [*rebalances, *commits], Metric.BROKER_CPU
        ),
        _section(results, "Latency at a fixed rate, median, ms", paced, Metric.P50),
        _section(results, "Latency at a fixed rate, 99th percentile, ms", paced, Metric.P99),
        _section(results, "CPU of the broker at a fixed rate, s", paced, Metric.BROKER_CPU),
        _section(results, "Compaction, MB/s", compactions, Metric.MEGABYTES),
        _section(
            results, "Compaction, MB per second of CPU", compactions, Metric.MEGABYTES_PER_CPU
        ),
        _section(results, f"{BESIDE_TITLE}, 99th percentile, ms", beside, Metric.P99),
        _section(
            results, f"{BESIDE_TITLE}, the same without that work, ms", beside, Metric.P99_QUIET
        ),
        _section(results, f"{BESIDE_TITLE}, with over without", beside, Metric.P99_FACTOR),
        _section(results, f"{BESIDE_TITLE}, the largest, ms", beside, Metric.MAX),
        _section(results, OTHERS_TITLE, [*loads, *rebalances, *commits, *paced], Metric.OTHERS_CPU),
        _section(results, PIPELINE_TITLE, pipelines, Metric.RATE),
        _memory(results, pipelines),
        *(_lakes(results, work) for work in results.of(Kind.LAKES)),
        _cold_landings(results),
        *(_readers(results, work) for work in results.of(Kind.READ)),
        _starts(results),
        _restarts(results),
        *_transactions(results),
        *_clusters(results),
    ]
    return [section for section in made if section.rows]


def _transactions(results: Results) -> list[Section]:
    """The tables of transactional producers on one broker."""
    sent = results.of(Kind.TRANSACTIONAL_PRODUCE)
    commits = results.of(Kind.TRANSACTION_COMMIT_JAVA, Kind.TRANSACTION_COMMIT_LIBRDKAFKA)
    paced = results.of(Kind.TRANSACTION_LATENCY)
    latency = "Transactions: from their start to a read_committed consumer"
    tables = (
        ("Transactions: throughput of ProducerPerformance, records/s", sent, Metric.RATE),
        ("Transactions: commits/s of one producer", commits, Metric.RATE),
        (f"{latency}, median, ms", paced, Metric.P50),
        (f"{latency}, 99th percentile, ms", paced, Metric.P99),
        ("Transactions: CPU of the broker, s", [*sent, *commits, *paced], Metric.BROKER_CPU),
        ("Transactions: CPU of the client, s", [*sent, *commits, *paced], Metric.CLIENT_CPU),
    )
    return [_section(results, title, works, metric) for title, works, metric in tables]


def _clusters(results: Results) -> list[Section]:
    """The tables of three brokers with three replicas."""
    loads = results.of(Kind.REPLICATED_PRODUCE, Kind.REPLICATED_CONSUME)
    sent = results.of(Kind.REPLICATED_PRODUCE)
    away, many = results.of(Kind.CATCH_UP), results.of(Kind.REPLICATED_PARTITIONS)
    lost = results.of(Kind.FAILOVER)
    cluster = "Three brokers, three replicas"
    whole = "of the whole cluster (ZooKeeper included)"
    tables = (
        ("throughput, records/s", loads, Metric.RATE),
        (f"CPU {whole}, s", loads, Metric.BROKER_CPU),
        (f"CPU {whole} per GB of records, s", loads, Metric.BROKER_CPU_PER_GB),
        ("the last replica behind the last acknowledgement, s", sent, Metric.BEHIND),
        ("catch-up of a follower, MB/s", away, Metric.MEGABYTES),
        ("CPU of the cluster for it, the start included, s", away, Metric.BROKER_CPU),
        ("start of that follower to all in sync, s", away, Metric.IN_SYNC_AGAIN),
        ("creation, s", many, Metric.CREATE),
        ("creation, CPU in s", many, Metric.CREATE_CPU),
        ("idle, cores used", many, Metric.IDLE_CORES),
        ("kill of a broker (session 6 s) to all have leaders, s", many, Metric.LEADERS_AGAIN),
        ("longest time without an acknowledgement, session 6 s, s", lost, Metric.OUTAGE),
        (f"resident memory {whole}, MB", [*loads, *away, *many], Metric.RESIDENT_AFTER),
    )
    return [_section(results, f"{cluster}: {title}", works, one) for title, works, one in tables]


def _section(results: Results, title: str, works: list[Workload], metric: Metric) -> Section:
    """A table; it has target columns only if a workload has a target."""
    columns: tuple[str, ...] = ("work", *COMPARED)
    if not any(target.metric is metric for work in works for target in work.targets):
        columns = columns[:4]
    rows = (_compared(results, work, work.title, metric) for work in works)
    return Section(title, columns, tuple(row[: len(columns)] for row in rows))


START_TITLES = {
    Metric.FIRST_ANSWER: "start to first answer, s",
    Metric.RESIDENT_IDLE: "resident memory idle, MB",
    Metric.RESIDENT_AFTER: "resident memory after the runs, MB",
}


RESTART_METRICS = {
    Metric.OPEN_5000: "",
    Metric.RECOVER_10GB: "",
    Metric.LOAD_OFFSETS: "",
    Metric.LOAD_DIRTY_OFFSETS: " (before the first cleaning)",
}
"""The metrics of restarts, and what is added to the title of the workload."""


def _starts(results: Results) -> Section:
    works = results.of(Kind.START)
    rows = tuple(
        _compared(results, work, title, metric)
        for work in works
        for metric, title in START_TITLES.items()
        if results.values[work.name] and _any(results, work, metric)
    )
    return Section("Start and memory", ("", *COMPARED), rows)


def _any(results: Results, work: Workload, metric: Metric) -> bool:
    return any(results.all(work.name, name, metric) for name in Name)


def _restarts(results: Results) -> Section:
    rows = tuple(
        _restart(results, work, metric)
        for work in results.of(Kind.RESTART)
        for metric in RESTART_METRICS
        if _any(results, work, metric)
    )
    return Section("Restart", ("", "Apache Kafka", "Sawlog", "target", "reached"), rows)


READER_COLUMNS = (
    "client", "records/s", f"ratio to {readers.COMPARED}", "CPU, s", "compiling, s", "target",
    "reached",
)  # fmt: skip


def _readers(results: Results, work: Workload) -> Section:
    """The comparison of Python clients."""
    (target,) = work.targets
    verdict = results.verdict(work.name, target)
    rows = []
    for name, reader in readers.READERS.items():
        judged = (bound(target), word(verdict.reached)) if name == Name.SAWLOG else ("", "")
        rows.append(
            (
                reader.title,
                _with_spread(results, work, name, Metric.RATE),
                ratio(readers.ratio(results, work, name)),
                number(results.median(work.name, name, Metric.CLIENT_CPU)),
                number(results.median(work.name, name, Metric.COMPILE)),
                *judged,
            )
        )
    return Section(f"Reading into a client: {work.title}", READER_COLUMNS, tuple(rows))


def _memory(results: Results, works: list[Workload]) -> Section:
    """Memory of Sawlog's Python workers; the connector works inside the JVM."""
    rows = tuple(
        (
            work.title,
            number(results.median(work.name, Name.SAWLOG, Metric.WORKER_PEAK)),
            number(results.median(work.name, Name.SAWLOG, Metric.WORKERS_TOGETHER)),
        )
        for work in works
        if results.all(work.name, Name.SAWLOG, Metric.WORKER_PEAK)
    )
    columns = ("work", "the largest", "all together")
    return Section("Peak memory of Spark's Python workers for Sawlog, MB", columns, rows)


LAKE_COLUMNS = ("lake", "records/s", "ratio to a directory", "largest Python worker, MB")


def _lakes(results: Results, work: Workload) -> Section:
    """The comparison of lakes."""
    rows = tuple(
        (
            title,
            _with_spread(results, work, kind, Metric.RATE),
            ratio(lakes.ratio(results, work, kind)),
            number(results.median(work.name, kind, Metric.WORKER_PEAK)),
        )
        for kind, title in lakes.TITLES.items()
        if results.all(work.name, kind, Metric.RATE)
    )
    return Section(f"Landing by kind of lake, local[2]: {work.title}", LAKE_COLUMNS, rows)


COLD_TITLE = "Landing from a cold start: `sawlog pipeline run --once`, local[2], all its processes"
COLD_METRICS = {
    Metric.FIRST_ROWS: "first rows committed, s",
    Metric.LANDED: "all landed and ended, s",
    Metric.LANDING_CPU: "CPU, s",
    Metric.LANDING_MEMORY: "peak memory (proportional set size), MB",
    Metric.IDLE_CORES: "afterwards idle, cores used",
    Metric.RATE: "changed rows/s",
    Metric.WRITTEN: "bytes written per changed byte",
}


def _cold_landings(results: Results) -> Section:
    rows = tuple(
        (
            f"{work.title}: {title}",
            number(results.median(work.name, many_tables.DELTA_SPARK, metric)),
            _with_spread(results, work, Name.SAWLOG, metric),
            bound(target) if target else "",
            word(results.verdict(work.name, target).reached) if target else "",
        )
        for work in results.of(Kind.COLD_LANDING)
        for metric, title in COLD_METRICS.items()
        if results.all(work.name, Name.SAWLOG, metric)
        for target in [next((each for each in work.targets if each.metric is metric), None)]
    )
    columns = ("work", "Spark with delta-spark's MERGE", "Sawlog", "target", "reached")
    return Section(COLD_TITLE, columns, rows)


def _restart(results: Results, work: Workload, metric: Metric) -> tuple[str, ...]:
    target = next((target for target in work.targets if target.metric is metric), None)
    kafka, sawlog = (
        NONE if value is None else f"{number(value)} s"
        for value in (results.median(work.name, name, metric) for name in Name)
    )
    title = f"{work.title}{RESTART_METRICS[metric]}"
    sawlog += _read(results, work)
    if target is None:
        return (title, kafka, sawlog, "", "")
    verdict = results.verdict(work.name, target)
    return (title, kafka, sawlog, f"{bound(target)} s", word(verdict.reached))


def _read(results: Results, work: Workload) -> str:
    read_mb = results.median(work.name, Name.SAWLOG, Metric.RECOVERY_READ)
    return "" if read_mb is None else f" ({number(read_mb)} MB read)"


def _compared(results: Results, work: Workload, title: str, metric: Metric) -> tuple[str, ...]:
    target = next((target for target in work.targets if target.metric is metric), None)
    verdict = results.verdict(work.name, target) if target else None
    return (
        title,
        _with_spread(results, work, Name.KAFKA, metric),
        _with_spread(results, work, Name.SAWLOG, metric),
        ratio(results.ratio(work.name, metric)),
        bound(target) if target else "",
        word(verdict.reached) if verdict else "",
    )


def _with_spread(results: Results, work: Workload, name: str, metric: Metric) -> str:
    value = number(results.median(work.name, name, metric))
    spread = results.spread(work.name, name, metric)
    if spread is None or len(results.all(work.name, name, metric)) < 2:
        return value
    return f"{value} ±{spread / 2:.0%}"


def number(value: float | None) -> str:
    """A number with three significant digits and k for thousands."""
    if value is None:
        return NONE
    if value >= MANY:
        return f"{value / 1000:,.0f} k"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def ratio(value: float | None) -> str:
    if value is None:
        return NONE
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def bound(target: Target) -> str:
    value = f"{target.bound:g}" if target.bound < MANY else number(target.bound)
    return f"{'>=' if target.at_least else '<='} {value}"


def word(reached: bool | None) -> str:
    return NONE if reached is None else "yes" if reached else "no"
