"""Spark jobs on topics: Sawlog's source and landing compared with Spark's connector on Kafka.

Both brokers have the same topics; each job is a separate process that warms up on a small topic.
The connector needs its own environment (`tools.spark_connector`); without it only Sawlog is
measured.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench import brokers, topics
from bench.brokers import Broker, Name
from bench.process import run_to_end
from bench.runs import CLIENT_TIMEOUT_S, ROOT, Measured
from bench.spark_topics import BATCH_RECORDS, SCHEMA
from bench.workloads import Metric, Workload
from tools import spark_connector
from tools.spark_connector import ConnectorUnavailable

WARM_RECORDS = 200_000
MOST_ROUNDS = 3
VALUES = {"spark-aggregate": "opaque", "land-raw": "opaque", "land-json": "json"}
JOBS = {"spark-aggregate": "aggregate", "land-raw": "land-raw", "land-json": "land-json"}

Listener = Callable[[str, Measured | None], None]
Keep = Callable[[str, Name, Measured], None]


def measure(
    works: Sequence[Workload],
    names: Sequence[Name],
    directory: Path,
    rounds: int,
    listener: Listener,
    keep: Keep,
) -> None:
    """Run each workload once per round on each broker, in alternating order."""
    sides = _sides(names, listener)
    with filled(works, sides, directory, listener) as running:
        for number in range(rounds_of(rounds)):
            for work in works:
                for broker in running if number % 2 == 0 else reversed(running):
                    step = f"round {number + 1}, {broker.name}: {work.name}"
                    listener(step, None)
                    measured = run(work, broker, directory / "jobs")
                    keep(work.name, broker.name, measured)
                    listener(step, measured)


def rounds_of(rounds: int) -> int:
    return min(rounds, MOST_ROUNDS)


def _sides(names: Sequence[Name], listener: Listener) -> list[Name]:
    if Name.KAFKA in names:
        listener("Spark's own connector is made ready", None)
        try:
            spark_connector.prepare()
        except ConnectorUnavailable as missing:
            listener(f"without Spark's own connector: {missing}", None)
            return [name for name in names if name is not Name.KAFKA]
    return list(names)


@contextmanager
def filled(
    works: Sequence[Workload], names: Sequence[Name], directory: Path, listener: Listener
) -> Iterator[list[Broker]]:
    """Start the brokers and fill all topics."""
    with ExitStack() as stack:
        running: list[Broker] = []
        for name in names:
            broker = brokers.start(name, directory / name)
            stack.callback(broker.server.stop)
            running.append(broker)
            for values in sorted({VALUES[work.name] for work in works}):
                records = max(work.records for work in works if VALUES[work.name] == values)
                listener(f"fill {name}: {values}", None)
                _fill(broker, f"warm-{values}", values, works[0].partitions, WARM_RECORDS)
                _fill(broker, values, values, works[0].partitions, records)
        os.sync()
        yield running


def _fill(broker: Broker, topic: str, values: str, partitions: int, records: int) -> None:
    topics.create(broker.bootstrap, topic, partitions)
    place = [broker.bootstrap, topic, values, str(partitions), str(records)]
    run_to_end([sys.executable, "-m", "bench.spark_topics", *place], CLIENT_TIMEOUT_S, cwd=ROOT)


def run(work: Workload, broker: Broker, directory: Path) -> Measured:
    """Run one job and delete its files."""
    directory.mkdir(parents=True, exist_ok=True)
    try:
        client = run_to_end(_command(work, broker, directory), CLIENT_TIMEOUT_S, cwd=ROOT)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    result = json.loads(client.output.splitlines()[-1])
    measured = {Metric.RATE: result["records"] / result["elapsed_s"]}
    if "largest_mb" in result:
        measured[Metric.WORKER_PEAK] = result["largest_mb"]
        measured[Metric.WORKERS_TOGETHER] = result["together_mb"]
    return measured


def _command(work: Workload, broker: Broker, directory: Path) -> list[str]:
    values = VALUES[work.name]
    records = max(1, work.records // BATCH_RECORDS) * BATCH_RECORDS
    job = [JOBS[work.name], broker.bootstrap, f"warm-{values}", str(WARM_RECORDS)]
    job += [values, str(records), os.fspath(directory)]
    if broker.name is Name.SAWLOG:
        return [sys.executable, "-m", "bench.spark_jobs", *job]
    jars = ",".join(map(os.fspath, spark_connector.jars()))
    script = ROOT / "bench" / "connector_jobs.py"
    # -P: modules next to the script (profile) must not shadow the standard library.
    return [os.fspath(spark_connector.python()), "-P", os.fspath(script), jars, SCHEMA, *job]
