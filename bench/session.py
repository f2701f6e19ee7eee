"""The whole comparison: starts, warm-up and alternating rounds, with a progress listener.

Both brokers run during all rounds, so that Kafka stays warm, but only one has load at a time, and
the order alternates.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bench import (
    brokers,
    clusters,
    lakes,
    many_tables,
    outages,
    pipeline,
    readers,
    replication,
    restarts,
    runs,
    transactions,
    upkeep,
)
from bench.brokers import Broker, Name
from bench.clusters import Cluster
from bench.process import wait_for_calm
from bench.results import Results
from bench.workloads import BY_NAME, Kind, Metric, Workload

IDLE_S = 3.0
MAX_TRIES = 3
DISTURBED_CORES = 0.3
# Several million records: a cold JVM would be slow.
WARMUP_SHARE = {
    "produce-6": 0.6,
    "produce-1": 0.4,
    "produce-all": 0.4,
    "single": 0.3,
    "consume": 0.5,
    "rebalance-classic-200": 1.0,
    "rebalance-consumer-200": 1.0,
    "commits": 1.0,
}
UPKEEP_WARMUP_SHARE = {"compaction-100": 0.5}
REPLICATION_WARMUP_SHARE = {"replicated-1": 0.6, "replicated-all": 0.6}
TRANSACTION_WARMUP_SHARE = {"transactions-100": 0.6, "transaction-commits": 0.5}
MAX_PARTITION_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a comparison; `factor` scales the number of records."""

    workloads: tuple[Workload, ...]
    names: tuple[Name, ...]
    rounds: int
    factor: float
    warmup_factor: float
    directory: Path
    patience_s: float

    def of(self, *kinds: Kind) -> list[Workload]:
        return [workload for workload in self.workloads if workload.kind in kinds]

    @property
    def loads(self) -> list[Workload]:
        return [workload.scaled(self.factor) for workload in self.of(*runs.LOADS)]

    @property
    def upkeeps(self) -> list[Workload]:
        return [workload.scaled(self.factor) for workload in self.of(*upkeep.LOADS)]

    @property
    def reads(self) -> list[Workload]:
        works = self.of(Kind.READ) if Name.SAWLOG in self.names else []
        return [workload.scaled(self.factor) for workload in works]

    @property
    def pipelines(self) -> list[Workload]:
        return [workload.scaled(self.factor) for workload in self.of(Kind.PIPELINE)]

    @property
    def cold_landings(self) -> list[Workload]:
        works = self.of(Kind.COLD_LANDING) if Name.SAWLOG in self.names else []
        return [workload.scaled(self.factor) for workload in works]

    @property
    def lakes(self) -> list[Workload]:
        works = self.of(Kind.LAKES) if Name.SAWLOG in self.names else []
        return [workload.scaled(self.factor) for workload in works]

    def replicated(self, policy: str) -> list[Workload]:
        """The rows of one flush policy that run against one cluster, round after round."""
        works = [
            workload.scaled(self.factor)
            for workload in self.of(*replication.LOADS)
            if workload.flush_policy == policy
        ]
        return [work for work in works if work.kind is not Kind.REPLICATED_PARTITIONS]

    def transactional(self, policy: str) -> list[Workload]:
        """The rows of one flush policy that run on one broker, round after round."""
        return [
            workload.scaled(self.factor)
            for workload in self.of(*transactions.LOADS)
            if workload.flush_policy == policy
        ]

    @property
    def failovers(self) -> list[Workload]:
        return self.of(Kind.FAILOVER)

    @property
    def partition_rounds(self) -> int:
        return min(self.rounds, MAX_PARTITION_ROUNDS)

    def restarted(self, workload: Workload) -> list[Name]:
        """The brokers whose restart is measured."""
        return [name for name in self.names if workload.beside_kafka or name is Name.SAWLOG]

    def steps(self) -> int:
        starts = (1 + self.rounds) * len(self.of(Kind.START))
        warmups = 0
        if self.warmup_factor:
            warmups += len(WARMUP_SHARE) if self.loads else 0
            warmups += len(UPKEEP_WARMUP_SHARE) if self.upkeeps else 0
        rows = len(self.loads + self.upkeeps)
        for policy in replication.POLICIES:
            if works := self.replicated(policy):
                rows += len(works)
                warmups += len(REPLICATION_WARMUP_SHARE) if self.warmup_factor else 0
        for policy in transactions.POLICIES:
            if works := self.transactional(policy):
                rows += len(works)
                warmups += len(TRANSACTION_WARMUP_SHARE) if self.warmup_factor else 0
        rows += len(self.failovers)
        per_broker = starts + warmups + self.rounds * rows
        per_broker += self.partition_rounds * len(self.of(Kind.REPLICATED_PARTITIONS))
        restarts = sum(len(self.restarted(workload)) for workload in self.of(Kind.RESTART))
        reads = self.rounds * len(readers.READERS) * len(self.reads)
        jobs = pipeline.rounds_of(self.rounds) * len(self.pipelines) * len(self.names)
        for work in self.cold_landings:
            sides = 2 if work.name == "upsert" else 1  # also Spark's MERGE
            jobs += sides * many_tables.rounds_of(work, self.rounds)
        jobs += pipeline.rounds_of(self.rounds) * len(lakes.TITLES) * len(self.lakes)
        return per_broker * len(self.names) + restarts + reads + jobs


Running = TypeVar("Running", Broker, Cluster)
Run = Callable[[Workload, Running, str], runs.Measured]
# Called at the start of a step (without values) and at its end (with values).
Listener = Callable[[str, runs.Measured | None], None]


def alternating(names: Sequence[Name], round_number: int) -> Sequence[Name]:
    return names if round_number % 2 == 0 else names[::-1]


def compare(plan: Plan, results: Results, listener: Listener) -> None:
    """Run the plan and fill `results`; values before a failure are kept."""
    shutil.rmtree(plan.directory, ignore_errors=True)
    plan.directory.mkdir(parents=True)
    try:
        if plan.of(Kind.START):
            _measure_starts(plan, results, listener)
        if plan.loads:
            with _running(plan) as started:
                _warm_up(plan, WARMUP_SHARE, runs.run, started, listener)
                _measure_rounds(plan, plan.loads, runs.run, started, results, listener)
                _measure_memory(plan, started, results)
        if plan.upkeeps:
            with _running(plan, upkeep.SETTINGS) as started:
                _warm_up(plan, UPKEEP_WARMUP_SHARE, upkeep.run, started, listener)
                _measure_rounds(plan, plan.upkeeps, upkeep.run, started, results, listener)
        for workload in plan.reads:
            _measure_reads(plan, workload, results, listener)
        if plan.pipelines:
            _measure_pipelines(plan, results, listener)
        for workload in plan.lakes:
            _measure_lakes(plan, workload, results, listener)
        if plan.cold_landings:
            _measure_cold_landings(plan, results, listener)
        for workload in plan.of(Kind.RESTART):
            for name in plan.restarted(workload):
                _measure_restart(plan, workload, name, results, listener)
        for policy in replication.POLICIES:
            if works := plan.replicated(policy):
                with _running_clusters(plan, policy) as clustered:
                    run = replication.run
                    _warm_up(plan, REPLICATION_WARMUP_SHARE, run, clustered, listener)
                    _measure_rounds(plan, works, run, clustered, results, listener)
        for policy in transactions.POLICIES:
            if works := plan.transactional(policy):
                with _running(plan, {"flush.policy": policy}) as started:
                    _warm_up(plan, TRANSACTION_WARMUP_SHARE, transactions.run, started, listener)
                    _measure_rounds(plan, works, transactions.run, started, results, listener)
        for workload in plan.of(Kind.REPLICATED_PARTITIONS):
            _measure_partitions(plan, workload, results, listener)
        if works := plan.failovers:
            with _running_clusters(plan, outages.POLICY) as clustered:
                _measure_rounds(plan, works, outages.run, clustered, results, listener)
    finally:
        shutil.rmtree(plan.directory, ignore_errors=True)


def _measure_starts(plan: Plan, results: Results, listener: Listener) -> None:
    """The first start of each broker is discarded: it fills page cache and bytecode cache."""
    for round_number in range(-1, plan.rounds):
        for name in alternating(plan.names, round_number):
            listener(f"start {name}", None)
            wait_for_calm(plan.patience_s)
            directory = plan.directory / f"start-{name}"
            broker = brokers.start(name, directory)
            try:
                time.sleep(IDLE_S)
                measured = {
                    Metric.FIRST_ANSWER: broker.first_answer_s,
                    Metric.RESIDENT_IDLE: broker.server.resident_bytes() / runs.MEGABYTE,
                }
            finally:
                broker.server.stop()
                shutil.rmtree(directory)
            if round_number >= 0:
                _keep(results, "start", name, measured)
            listener(f"start {name}", measured)


@contextmanager
def _running(plan: Plan, settings: dict[str, str] | None = None) -> Iterator[list[Broker]]:
    with ExitStack() as stack:
        started: list[Broker] = []
        for name in plan.names:
            broker = brokers.start(name, plan.directory / name, settings)
            stack.callback(broker.server.stop)
            started.append(broker)
        yield started


@contextmanager
def _running_clusters(plan: Plan, policy: str) -> Iterator[list[Cluster]]:
    with ExitStack() as stack:
        settings = {"flush.policy": policy}
        yield [
            stack.enter_context(clusters.running(name, plan.directory / f"{name}-three", settings))
            for name in plan.names
        ]


def _measure_partitions(
    plan: Plan, workload: Workload, results: Results, listener: Listener
) -> None:
    """Every run has a cluster of its own, which loses a broker."""
    for round_number in range(plan.partition_rounds):
        for name in alternating(plan.names, round_number):
            step = f"round {round_number + 1}, {name}: {workload.name}"
            listener(step, None)
            wait_for_calm(plan.patience_s)
            settings = {"flush.policy": workload.flush_policy}
            with clusters.running(name, plan.directory / f"{name}-three", settings) as cluster:
                measured = replication.run(workload, cluster, workload.name)
            _keep(results, workload.name, name, measured)
            listener(step, measured)


def _warm_up(
    plan: Plan,
    shares: Mapping[str, float],
    run: Run[Running],
    started: list[Running],
    listener: Listener,
) -> None:
    if not plan.warmup_factor:
        return
    for broker in started:
        for name, share in shares.items():
            workload = BY_NAME[name].scaled(share * plan.warmup_factor)
            step = f"warm up {broker.name}: {name}"
            listener(step, None)
            listener(step, run(workload, broker, f"warm-{name}"))


def _measure_rounds(
    plan: Plan,
    loads: list[Workload],
    run: Run[Running],
    started: list[Running],
    results: Results,
    listener: Listener,
) -> None:
    by_name = {broker.name: broker for broker in started}
    for round_number in range(plan.rounds):
        for workload in loads:
            for name in alternating(plan.names, round_number):
                step = f"round {round_number + 1}, {name}: {workload.name}"
                listener(step, None)
                measured = _least_disturbed(
                    plan, run, workload, by_name[name], f"{workload.name}.{round_number}"
                )
                _keep(results, workload.name, name, measured)
                listener(step, measured)


def _measure_memory(plan: Plan, started: list[Broker], results: Results) -> None:
    if plan.of(Kind.START):
        for broker in started:
            resident_mb = broker.server.resident_bytes() / runs.MEGABYTE
            results.add("start", broker.name, Metric.RESIDENT_AFTER, resident_mb)


def _least_disturbed(
    plan: Plan, run: Run[Running], workload: Workload, broker: Running, topic: str
) -> runs.Measured:
    """With patience, repeat a run that was disturbed by others; keep the least disturbed one."""
    tries: list[runs.Measured] = []
    for number in range(MAX_TRIES if plan.patience_s else 1):
        wait_for_calm(plan.patience_s)
        tries.append(run(workload, broker, f"{topic}.{number}"))
        if tries[-1].get(Metric.OTHERS, 0.0) < DISTURBED_CORES:
            break
    return min(tries, key=lambda measured: measured.get(Metric.OTHERS, 0.0))


def _measure_reads(plan: Plan, workload: Workload, results: Results, listener: Listener) -> None:
    wait_for_calm(plan.patience_s)

    def keep(reader: str, measured: runs.Measured) -> None:
        _keep(results, workload.name, reader, measured)

    directory = plan.directory / workload.name
    try:
        readers.measure(workload, directory, plan.rounds, listener, keep)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _measure_pipelines(plan: Plan, results: Results, listener: Listener) -> None:
    wait_for_calm(plan.patience_s)

    def keep(workload: str, name: Name, measured: runs.Measured) -> None:
        _keep(results, workload, name, measured)

    directory = plan.directory / "pipeline"
    try:
        pipeline.measure(plan.pipelines, plan.names, directory, plan.rounds, listener, keep)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _measure_lakes(plan: Plan, workload: Workload, results: Results, listener: Listener) -> None:
    wait_for_calm(plan.patience_s)

    def keep(lake: str, measured: runs.Measured) -> None:
        _keep(results, workload.name, lake, measured)

    directory = plan.directory / workload.name
    try:
        lakes.measure(workload, directory, plan.rounds, listener, keep)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _measure_cold_landings(plan: Plan, results: Results, listener: Listener) -> None:
    wait_for_calm(plan.patience_s)

    def keep(workload: str, name: str, measured: runs.Measured) -> None:
        _keep(results, workload, name, measured)

    many_tables.measure(plan.cold_landings, plan.directory, plan.rounds, listener, keep)


def _measure_restart(
    plan: Plan, workload: Workload, name: Name, results: Results, listener: Listener
) -> None:
    step = f"restart {name}: {workload.name}"
    listener(step, None)
    directory = plan.directory / workload.name
    try:
        measured = restarts.MEASURES[workload.name](directory, name)
        _keep(results, workload.name, name, measured)
        listener(step, measured)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _keep(results: Results, workload: str, name: str, measured: runs.Measured) -> None:
    """Add the values of a run, and the machine's load average at its end."""
    for metric, value in {**measured, Metric.LOAD: os.getloadavg()[0]}.items():
        results.add(workload, name, metric, value)
