"""The text of docs/benchmarks.md: verdicts, tables, machine and instructions. No IO."""

import statistics

from bench.merge import PIPE, merged, read_tables
from bench.results import Results, Verdict
from bench.tables import START_TITLES, Section, bound, number, ratio, sections, word
from bench.workloads import Kind, Metric

INTRODUCTION = """\
# Sawlog beside Apache Kafka

Written by `make bench`; change it by running that again. Both brokers run on the same machine and
the same file system, on loopback, and only one is loaded at a time. The producer is Kafka's own
`ProducerPerformance`, the consumer is librdkafka with `assign`, and Kafka's `ConsumerPerformance`
in a group. Apache Kafka 4.3.0 has its usual 1 GB heap and G1, and several million records behind it
before anything counts. Values are medians; `±` is half the distance between the best and the worst
round. The two brokers take turns, and a ratio is the median of the rounds' ratios, Sawlog's value
over Kafka's: a machine that is slower for a minute is so for both.

Under `acks=all` Sawlog answers when the records are on the disk (`fdatasync`, in groups), Kafka
when they are in the page cache. So it is with offset commits, and with whatever else a group must
remember.

A rebalance takes from the last JoinGroup sent (in the consumer protocol: from the last heartbeat
that joins) to the last assignment received, with two partitions a member and no initial delay.
Members of the classic protocol join again, those of the consumer protocol are new every time. All
members are one driver that answers at once.

The compaction rows send the same batches to both brokers, hold the log cleaner back until they are
written, and take its time from the broker's log; the CPU is that of the broker, of which Sawlog's
cleaner is a child process. What is left must be the same records. Beside a compaction or the
deletion of a thousand segments, the latency of a paced producer is compared with that of the same
producer just before.

Clients in Python read the same topic from Sawlog, each in a process of its own: their CPU holds
the imports, their time does not, nor what compiling took. The decoding alone compiles anew in every
round; the others find the compiled loop in their cache.

Spark jobs run on `local[2]`, each in a process of its own, which has done the same over a small
topic before its time begins. Sawlog's are its source and its landing (Delta tables, dead letters,
exactly once) on PySpark 4.3; beside them stands Spark 4.0.0's own Kafka connector, the newest that
could be fetched, reading the same records from Apache Kafka into Parquet. Three rounds at most.
Lakes of other kinds stand beside the directory: an S3 server (versitygw) that keeps objects as
files on the same disk, and Iceberg tables with the embedded catalog.

A landing from a cold start is a process of `sawlog pipeline run --once`, measured from its start to
its first commit and to its end, with the CPU and memory of its JVM and its workers. The keyed table
is loaded first; its changes per second count from the first commit of changes to the last. Beside
it, Spark 4.0.0 with its Kafka connector and delta-spark 4.0.0 reads the same batches from the same
broker, keeps the last record of each key and merges them with MERGE into a table with its defaults.

The rows of three brokers have three replicas of every partition. Kafka's nodes are broker and
controller in one, with a heap of 1 GB each; Sawlog's brokers have one ZooKeeper with a heap of
128 MB, which counts. CPU and memory are those of all processes of a cluster; the CPU counts until
the last replica has the last record, also with `acks=1`. With `flush.policy=os` Sawlog acknowledges
as Kafka does, before anything is on a disk; with its default a record is on three of them, which
are one disk here. A lost broker is noticed after a session of 6 s in both.

The rows of transactions run on one broker, with `acks=all`. `ProducerPerformance` commits after
100 and after 1,000 ms. The rows of small transactions commit one record after another; the log must
then have one record and one marker of each. A latency is the time from the due start of a
transaction to the arrival of each of its records at a consumer with `read_committed`. With
`flush.policy=os` Sawlog acknowledges from the page cache as Kafka does; by default each step of a
commit is on the disk.

After a fault, the rows of twelve partitions have the longest time in which one of them acknowledged
nothing, until all have acknowledged a record that was sent after the fault. The client is the same,
an idempotent librdkafka producer with `acks=all`; Sawlog flushes, the broker that fails is not the
controller, and with all brokers Kafka's controllers are killed, too, but not Sawlog's ZooKeeper.

![Sawlog's values as ratios to Apache Kafka's](benchmarks.svg)
"""
REPEAT = """\
## How to repeat it

`make bench` takes about eighty minutes and 15 GB of disk; nothing else should run on the machine.
It installs Java where it can and fetches Kafka with Maven. `python -m bench --help` tells how to
run fewer rounds (`--rounds 1`), some of the work (`--only produce-6,consume`) or everything with a
quarter of the records (`--quick`, which writes no document). With `--merge` the rows of some of the
work replace those in this page, and the other rows stay; the chart is that of the last whole run.
"""
RUNS_NOTE = """\
The order of the brokers changes from round to round. The load average is that of the machine at the
end of a run, the measured processes included; cores used by others are those that neither broker
nor client used (kernel, other processes). Both are medians over the runs of a row.

"""
SHORT = {
    Metric.RATE: "throughput",
    Metric.BROKER_CPU: "broker CPU",
    Metric.P99: "99th percentile",
    Metric.P99_FACTOR: "99th percentile, with that work over without",
    Metric.MEGABYTES_PER_CPU: "MB per second of CPU",
    Metric.REBALANCE: "time to rebalance",
    Metric.MEGABYTES: "MB/s",
    Metric.IN_SYNC_AGAIN: "start of the follower to all in sync",
    Metric.CREATE: "creation",
    Metric.IDLE_CORES: "CPU when idle",
    Metric.LANDED: "cold start to all landed",
    Metric.LANDING_MEMORY: "peak memory",
    Metric.OUTAGE: "longest time without an acknowledgement",
    Metric.LEADERS_AGAIN: "time until all have leaders after a kill",
    **{metric: title.rpartition(",")[0] for metric, title in START_TITLES.items()},
}
UNITS = {
    Metric.RATE: "/s",
    Metric.P99_FACTOR: "",
    Metric.LANDING_MEMORY: " MB",
    Metric.IDLE_CORES: " cores",
}


TARGETS, RUNS = "Targets", "Runs"


def render(results: Results, older: str = "") -> str:
    """The document; rows of the older one stay if their work was not measured again."""
    found = merged(read_tables(older), [_verdicts(results), _runs(results), *sections(results)])
    by_title = {section.title: section for section in found}
    targets, runs = by_title.pop(TARGETS), by_title.pop(RUNS)
    parts = [INTRODUCTION, _table(targets, level=2), _missed(targets), "## Measured\n"]
    parts += [_table(section) for section in by_title.values()]
    parts += [_table(runs, RUNS_NOTE, level=2), _machine(results), REPEAT]
    return "\n".join(part for part in parts if part)


def _verdicts(results: Results) -> Section:
    rows = tuple(_verdict_row(verdict) for verdict in results.verdicts())
    return Section(TARGETS, ("work", "what", "measured", "target", "reached"), rows)


def _runs(results: Results) -> Section:
    """When each work was measured, and what the machine did besides."""
    columns = ("work", "measured on", "rounds", "load average", "cores used by others")
    rows = tuple(
        (
            work.title,
            results.day,
            str(results.rounds(work.name)),
            _median(results.of_all_brokers(work.name, Metric.LOAD)),
            _median(results.of_all_brokers(work.name, Metric.OTHERS)),
        )
        for work in results.measured()
    )
    return Section(RUNS, columns, rows)


def _median(values: list[float]) -> str:
    return number(statistics.median(values) if values else None)


def _verdict_row(verdict: Verdict) -> tuple[str, ...]:
    target = verdict.target
    if target.absolute:
        unit = UNITS.get(target.metric, " s")
        measured, wanted = f"{number(verdict.measured)}{unit}", f"{bound(target)}{unit}"
    else:
        measured, wanted = ratio(verdict.measured), bound(target)
    work = "" if verdict.workload.kind is Kind.START else verdict.workload.title
    what = SHORT.get(target.metric, "time")
    return (work or what, "" if not work else what, measured, wanted, word(verdict.reached))


def _missed(targets: Section) -> str:
    """A list of the targets that were missed."""
    missed = [row for row in targets.rows if row[-1] == word(reached=False)]
    if not missed:
        return "Every target was reached.\n"
    lines = [
        f"- {work}{', ' if what else ''}{what}: {measured}, where {target} was asked."
        for work, what, measured, target, _ in missed
    ]
    found = "[What was found](benchmarks-notes.md) behind these."
    return "Not reached:\n\n" + "\n".join(lines) + f"\n\n{found}\n"


def _table(section: Section, note: str = "", level: int = 3) -> str:
    return f"{'#' * level} {section.title}\n\n{note}{markdown(section.columns, section.rows)}"


def markdown(columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> str:
    lines = [f"| {' | '.join(columns)} |", "|---|" + "---:|" * (len(columns) - 1)]
    lines += [f"| {' | '.join(cell.replace('|', PIPE) for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _machine(results: Results) -> str:
    facts = [f"- {name}: {value}" for name, value in results.machine.items()]
    return "## The machine\n\n" + "\n".join(facts) + "\n"
