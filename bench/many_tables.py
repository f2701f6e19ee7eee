"""Cold starts of `sawlog pipeline run --once`: many tables, one, a keyed one; then idle tables.

Measured are the driver and all processes below it: Spark's JVM and its Python workers.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from bench import brokers, spark_topics, topics, upserts
from bench.brokers import Broker, Name
from bench.process import ChildFailed, Server
from bench.runs import MEGABYTE, Measured
from bench.spark_jobs import rows_in
from bench.spark_topics import broken_of
from bench.workloads import Metric, Workload
from sawlog.pipeline.delta.table import Table
from tools import spark_connector
from tools.spark_connector import ConnectorUnavailable

LOOK_S = 0.1
TIMEOUT_S = 900.0
SETTLE_S = 30.0
IDLE_S = 60.0
MASTER = "local[2,4]"
FORMATS = {"tables-100": "raw", "cold-100k": "json"}
MOST_ROUNDS = 3
DELTA_SPARK = "delta-spark"

Listener = Callable[[str, Measured | None], None]


class ProcessTree:
    """The CPU and memory of a process and all processes below it.

    Memory is the proportional set size: pages that workers share with the daemon that forked them
    count once.
    """

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._cpu_s: dict[int, float] = {}
        self.peak_bytes = 0

    def look(self) -> None:
        together = 0
        for process in [self._root, *self._root.children(recursive=True)]:
            try:
                times = process.cpu_times()
                self._cpu_s[process.pid] = times.user + times.system
                together += process.memory_full_info().pss
            except psutil.Error:  # it has ended; its CPU time stays
                continue
        self.peak_bytes = max(self.peak_bytes, together)

    @property
    def cpu_s(self) -> float:
        return sum(self._cpu_s.values())


def measure(
    works: Sequence[Workload],
    directory: Path,
    rounds: int,
    listener: Listener,
    keep: Callable[[str, str, Measured], None],
) -> None:
    """Run each workload in every round, on a broker of its own; many tables only once."""
    for work in works:
        has_spark = work.name == "upsert" and _has_delta_spark(listener)
        for number in range(rounds_of(work, rounds)):
            step = f"round {number + 1}: {work.name}"
            listener(step, None)
            place = directory / work.name
            broker = brokers.start(Name.SAWLOG, place / "broker")
            try:
                measured = (land_upserts if work.name == "upsert" else run)(work, broker, place)
                keep(work.name, Name.SAWLOG, measured)
                listener(step, measured)
                if has_spark:
                    listener(f"{step}, {DELTA_SPARK}", None)
                    merged = upserts.merge_with_spark(
                        broker.bootstrap, work.records, work.partitions, place / "merged"
                    )
                    keep(work.name, DELTA_SPARK, merged)
                    listener(f"{step}, {DELTA_SPARK}", merged)
            finally:
                broker.server.stop()
                shutil.rmtree(place, ignore_errors=True)


def rounds_of(work: Workload, rounds: int) -> int:
    return 1 if work.name == "tables-100" else min(rounds, MOST_ROUNDS)


def _has_delta_spark(listener: Listener) -> bool:
    listener("Spark and delta-spark are made ready", None)
    try:
        spark_connector.prepare_delta()
    except ConnectorUnavailable as missing:
        listener(f"without delta-spark: {missing}", None)
        return False
    return True


def run(work: Workload, broker: Broker, directory: Path) -> Measured:
    """Land all tables from a cold start; then, with many tables, leave them idle."""
    names = [f"t{number}" for number in range(work.partitions)]
    records = work.records // len(names)
    kind = FORMATS[work.name]
    for name in names:
        topics.create(broker.bootstrap, name, 1)
        values = "json" if kind == "json" else "opaque"
        records = spark_topics.fill(broker.bootstrap, name, values, 1, records)
    file = directory / "pipeline.yaml"
    tables = "".join(f"  {name}: {{topic: {name}, format: {kind}}}\n" for name in names)
    file.write_text(f"brokers: {broker.bootstrap}\nlake: ./lake\ntables:\n{tables}")
    measured = land_once(file, directory)
    broken = broken_of(records) if kind == "json" else 0
    for name in names:
        found = rows_in(os.fspath(directory / "lake" / name))
        if found != records - broken:
            raise ChildFailed(f"{name} has {found} rows instead of {records - broken}")
    if len(names) > 1:
        measured[Metric.IDLE_CORES] = idle_cores(file, directory)
    return measured


def land_upserts(work: Workload, broker: Broker, directory: Path) -> Measured:
    """Load a keyed table; then land changes of its rows, which is measured."""
    topics.create(broker.bootstrap, upserts.TOPIC, work.partitions)
    file = directory / "pipeline.yaml"
    file.write_text(upserts.pipeline_text(broker.bootstrap, work.records))
    upserts.fill(broker.bootstrap, upserts.rows(work.records))
    loading = directory / "load"
    loading.mkdir()
    land_once(file, loading)
    path = directory / "lake" / upserts.TABLE
    loaded = Table.open(path).version
    upserts.fill(broker.bootstrap, upserts.changes(work.records))
    file.write_text(upserts.pipeline_text(broker.bootstrap, work.records // upserts.ONE_IN))
    measured = land_once(file, directory)
    upserts.check(path, work.records)
    return {**measured, **upserts.figures(path, loaded, work.records)}


def start_driver(file: Path, directory: Path, *options: str) -> Server:
    command = [sys.executable, "-m", "sawlog.cli.main", "pipeline", "run", os.fspath(file)]
    return Server([*command, "--master", MASTER, *options], directory / "output")


def land_once(file: Path, directory: Path) -> Measured:
    began_s = time.monotonic()
    driver = start_driver(file, directory, "--once")
    tree = ProcessTree(driver.pid)
    first_s: float | None = None
    try:
        while driver.exit_code is None:
            tree.look()
            if first_s is None and " rows, " in driver.output.read_text(errors="replace"):
                first_s = time.monotonic() - began_s
            if time.monotonic() - began_s > TIMEOUT_S:
                raise ChildFailed(f"not all landed within {TIMEOUT_S:.0f} s:\n{driver.tail()}")
            time.sleep(LOOK_S)
    finally:
        driver.stop()
    elapsed_s = time.monotonic() - began_s
    if driver.exit_code or first_s is None:
        raise ChildFailed(f"the run ended with code {driver.exit_code}:\n{driver.tail()}")
    return {
        Metric.FIRST_ROWS: first_s,
        Metric.LANDED: elapsed_s,
        Metric.LANDING_CPU: tree.cpu_s,
        Metric.LANDING_MEMORY: tree.peak_bytes / MEGABYTE,
    }


def idle_cores(file: Path, directory: Path) -> float:
    driver = start_driver(file, directory)
    try:
        time.sleep(SETTLE_S)
        driver.check_running()
        tree = ProcessTree(driver.pid)
        tree.look()
        cpu_s, began_s = tree.cpu_s, time.monotonic()
        time.sleep(IDLE_S)
        driver.check_running()
        tree.look()
        return (tree.cpu_s - cpu_s) / (time.monotonic() - began_s)
    finally:
        driver.stop()
