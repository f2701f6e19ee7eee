"""Sawlog's Spark jobs as separate programs: `python -m bench.spark_jobs WORK ...`.

Each runs over a small topic as a warm-up, then over the real one, and prints a line of JSON:
records, seconds, and the peak memory of Spark's Python workers. It fails if the number of rows is
wrong.
"""

import argparse
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, Self

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from bench.spark_topics import SCHEMA, broken_of
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.landing.configuration.pipeline_config import PipelineConfig
from sawlog.pipeline.landing.configuration.pipeline_file import parse_pipeline
from sawlog.pipeline.landing.driver.driver_records import RunState
from sawlog.pipeline.landing.driver.events import LandedBatch
from sawlog.pipeline.landing.driver.landed_tables import open_table
from sawlog.pipeline.landing.driver.pipeline_runner import run_pipeline
from sawlog.pipeline.landing.driver.spark_session import session
from sawlog.pipeline.landing.failures import LandingFailure
from sawlog.pipeline.landing.planning.batch_progress import BatchProgress

LOOK_S = 0.1
MASTER = "local[2]"
PIPELINE = """\
brokers: {bootstrap}
lake: {lake}
{lake_settings}spark:
  spark.driver.memory: 2g
tables:
  landed:
    topic: {topic}
    group: bench-{topic}
    commit: {{every: 10s, rows: 2000000, bytes: 512MB}}
{format}
"""
FORMATS = {
    "raw": "    format: raw",
    "json": f'    format: json\n    schema: "{SCHEMA}"',
}
AGGREGATE = ("count(value)", "sum(length(value))", "max(offset)")


class WorkerMemory:
    """The peak resident memory of all Python processes below this one, during a block.

    The kernel keeps the peak of each process, so sampling is exact for a single process; the sum is
    the maximum over the samples.
    """

    def __init__(self) -> None:
        self.largest_mb = 0.0
        self.together_mb = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_S):
            self._look()

    def _look(self) -> None:
        peaks_and_sizes = [memory_mb(pid) for pid in python_below(os.getpid())]
        self.largest_mb = max([self.largest_mb, *(peak for peak, _ in peaks_and_sizes)])
        self.together_mb = max(self.together_mb, sum(size for _, size in peaks_and_sizes))


def python_below(root: int) -> list[int]:
    """The descendants of a process that run Python."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                head, _, rest = (entry / "stat").read_text().rpartition(")")
            except OSError:  # the process has ended
                continue
            names[int(entry.name)] = head.partition("(")[2]
            parents[int(entry.name)] = int(rest.split()[1])
    found: list[int] = []
    for pid in parents:
        above = parents[pid]
        while above not in (0, root):
            above = parents.get(above, 0)
        if above == root and names[pid].startswith("python"):
            found.append(pid)
    return found


def memory_mb(pid: int) -> tuple[float, float]:
    """Peak and current resident memory; zeros if the process has ended."""
    sizes = {"VmHWM": 0.0, "VmRSS": 0.0}
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in sizes:
                sizes[name] = int(value.split()[0]) * 1024 / 1e6
    except OSError:
        return 0.0, 0.0
    return sizes["VmHWM"], sizes["VmRSS"]


class Silent:
    """A pipeline listener that keeps error messages."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def report(self, table: str, text: str) -> None:
        self.messages.append(f"{table}: {text}")

    def batch_progressed(self, table: str, progress: BatchProgress) -> None:
        pass

    def batch_landed(self, table: str, batch: LandedBatch, done: int) -> None:
        pass

    def progress_measured(self, table: str, done: int, ends: int) -> None:
        pass

    def state_changed(
        self, table: str, state: RunState, failure: LandingFailure | None = None
    ) -> None:
        pass


def aggregate(spark: SparkSession, bootstrap: str, topic: str, records: int) -> None:
    reader = spark.read.format("sawlog").option("kafka.bootstrap.servers", bootstrap)
    frame = reader.option("subscribe", topic).option("columns", "value,offset").load()
    (row,) = frame.selectExpr(*AGGREGATE).collect()
    check("read", int(row[0]), records)


def land(spark: SparkSession, pipeline: PipelineConfig, records: int, broken: int) -> None:
    events = Silent()
    outcomes = run_pipeline(spark.sparkContext, pipeline, events, threading.Event(), once=True)
    failures = [str(outcome.failure) for outcome in outcomes if outcome.failure is not None]
    if failures:
        raise SystemExit("\n".join([*failures, *events.messages]))
    (table,) = pipeline.landed
    check("landed", open_table(table).detail().rows, records - broken)
    dead = Table.open(table.dead_path) if Table.exists(table.dead_path) else None
    check("put aside", 0 if dead is None else dead.detail().rows, broken)


def rows_in(path: str) -> int:
    if not DeltaTable.is_deltatable(path):
        return 0
    actions: Any = DeltaTable(path).get_add_actions(flatten=True)
    return int(sum(actions["num_records"].to_pylist()))


def check(what: str, found: int, expected: int) -> None:
    if found != expected:
        raise SystemExit(f"{found} records were {what}, expected {expected}")


def pipeline_of(given: argparse.Namespace, topic: str, directory: Path) -> PipelineConfig:
    kind = given.work.removeprefix("land-")
    settings = ""
    if given.lake_options:
        settings += f"lake_options: {given.lake_options}\n"
    if given.table_format != "delta":
        settings += f"table_format: {given.table_format}\n"
    content = PIPELINE.format(
        bootstrap=given.bootstrap,
        lake=f"{given.lake or directory}/lake-{topic}",
        lake_settings=settings,
        topic=topic,
        format=FORMATS.get(kind, FORMATS["raw"]),
    )
    return parse_pipeline(os.fspath(directory / "bench.yaml"), content)


def run(given: argparse.Namespace) -> dict[str, float]:
    directory = Path(given.directory)
    directory.mkdir(parents=True, exist_ok=True)
    topics = ((given.warm_topic, given.warm_records), (given.topic, given.records))
    first = pipeline_of(given, given.topic, directory)
    elapsed_s = 0.0
    with session(first, MASTER) as spark:
        for topic, records in topics:
            with WorkerMemory() as memory:
                began = time.monotonic()
                if given.work == "aggregate":
                    aggregate(spark, given.bootstrap, topic, records)
                else:
                    pipeline = pipeline_of(given, topic, directory)
                    broken = broken_of(records) if given.work == "land-json" else 0
                    land(spark, pipeline, records, broken)
                elapsed_s = time.monotonic() - began
    return {
        "records": given.records,
        "elapsed_s": elapsed_s,
        "largest_mb": memory.largest_mb,
        "together_mb": memory.together_mb,
    }


def arguments(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.spark_jobs")
    parser.add_argument("work", choices=("aggregate", "land-raw", "land-json"))
    parser.add_argument("bootstrap")
    parser.add_argument("warm_topic")
    parser.add_argument("warm_records", type=int)
    parser.add_argument("topic")
    parser.add_argument("records", type=int)
    parser.add_argument("directory")
    parser.add_argument("--lake", help="the lake, instead of a part of the directory")
    parser.add_argument("--lake-options", help="as JSON")
    parser.add_argument("--table-format", choices=("delta", "iceberg"), default="delta")
    return parser.parse_args(given)


def main(given: list[str]) -> int:
    print(json.dumps(run(arguments(given))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
