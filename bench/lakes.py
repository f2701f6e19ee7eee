"""The same topic landed in lakes of different kinds: a directory, an object store, Iceberg.

Each job is a process of its own, as those of `bench.pipeline`. The object store is versitygw, an S3
server that keeps objects as files on the same disk; without it that row is left out.
"""

import json
import os
import shutil
import socket
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from bench import brokers, pipeline, spark_topics, topics
from bench.brokers import Broker, Name
from bench.process import ChildFailed, Server, run_to_end
from bench.results import Results
from bench.runs import CLIENT_TIMEOUT_S, ROOT, Measured
from bench.workloads import Metric, Workload
from tools import versitygw
from tools.kafka_node import HOST, free_port

DIRECTORY, S3, ICEBERG = str(Name.SAWLOG), "s3", "iceberg"
TITLES = {
    DIRECTORY: "Delta, a directory",
    S3: "Delta, an S3 server on the same disk (versitygw)",
    ICEBERG: "Iceberg, a directory, the embedded catalog",
}
WARM, TOPIC, BUCKET = "warm", "lake", "lake"
START_S = 30.0
ACCESS_KEY, SECRET_KEY = "bench-access-key", "bench-secret-key"

Listener = Callable[[str, Measured | None], None]


class Store(NamedTuple):
    """A running S3 server and where it keeps its objects."""

    server: Server
    port: int
    objects: Path

    def options(self) -> dict[str, str]:
        return {
            "endpoint": f"http://{HOST}:{self.port}",
            "region": "us-east-1",
            "access_key_id": ACCESS_KEY,
            "secret_access_key": SECRET_KEY,
        }


def measure(
    work: Workload,
    directory: Path,
    rounds: int,
    listener: Listener,
    keep: Callable[[str, Measured], None],
) -> None:
    """Land the topic once per round in each kind of lake, in alternating order."""
    with ExitStack() as stack:
        broker = brokers.start(Name.SAWLOG, directory / "broker")
        stack.callback(broker.server.stop)
        listener(f"fill {TOPIC}", None)
        records = _fill(work, broker)
        kinds = [DIRECTORY, S3, ICEBERG]
        store: Store | None = None
        if versitygw.program() is None:
            listener("without S3: versitygw is not built, `make versitygw` builds it", None)
            kinds.remove(S3)
        else:
            store = stack.enter_context(running_store(directory / S3))
        for number in range(pipeline.rounds_of(rounds)):
            for kind in kinds if number % 2 == 0 else kinds[::-1]:
                step = f"round {number + 1}, {kind}: {work.name}"
                listener(step, None)
                measured = land(kind, broker, records, directory / "jobs", store)
                keep(kind, measured)
                listener(step, measured)


def _fill(work: Workload, broker: Broker) -> int:
    found = 0
    for topic, records in ((WARM, pipeline.WARM_RECORDS), (TOPIC, work.records)):
        topics.create(broker.bootstrap, topic, work.partitions)
        found = spark_topics.fill(broker.bootstrap, topic, "json", work.partitions, records)
    os.sync()
    return found


@contextmanager
def running_store(directory: Path) -> Iterator[Store]:
    program = versitygw.program()
    assert program is not None
    objects, metadata = directory / "objects", directory / "metadata"
    for needed in (objects / BUCKET, metadata):  # a directory of the first is a bucket
        needed.mkdir(parents=True)
    port = free_port()
    options = ["--port", f"{HOST}:{port}", "--access", ACCESS_KEY, "--secret", SECRET_KEY]
    place = ["posix", "--sidecar", os.fspath(metadata), os.fspath(objects)]
    command = [os.fspath(program), *options, "--keep-alive", "--quiet", *place]
    server = Server(command, directory / "output")
    try:
        _wait_until_open(server, port)
        yield Store(server, port, objects)
    finally:
        server.stop()


def _wait_until_open(server: Server, port: int) -> None:
    deadline = time.monotonic() + START_S
    while True:
        server.check_running()
        try:
            socket.create_connection((HOST, port), timeout=1.0).close()
        except OSError:
            if time.monotonic() > deadline:
                raise ChildFailed(f"nothing listens at {port}:\n{server.tail()}") from None
            time.sleep(0.05)
        else:
            return


def land(kind: str, broker: Broker, records: int, directory: Path, store: Store | None) -> Measured:
    """Run one job in a new lake, which is deleted afterwards."""
    directory.mkdir(parents=True, exist_ok=True)
    job = ["land-json", broker.bootstrap, WARM, str(pipeline.WARM_RECORDS), TOPIC, str(records)]
    job += [os.fspath(directory), *_lake_options(kind, store)]
    try:
        client = run_to_end(
            [sys.executable, "-m", "bench.spark_jobs", *job], CLIENT_TIMEOUT_S, cwd=ROOT
        )
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        if store is not None:
            for prefix in (store.objects / BUCKET).iterdir():
                shutil.rmtree(prefix, ignore_errors=True)
    result = json.loads(client.output.splitlines()[-1])
    return {
        Metric.RATE: result["records"] / result["elapsed_s"],
        Metric.WORKER_PEAK: result["largest_mb"],
        Metric.WORKERS_TOGETHER: result["together_mb"],
    }


def _lake_options(kind: str, store: Store | None) -> list[str]:
    if kind == ICEBERG:
        return ["--table-format", "iceberg"]
    if kind == S3:
        assert store is not None
        # versitygw keeps the attributes of objects apart, so no name is used twice.
        lake = f"s3://{BUCKET}/{time.time_ns()}"
        return ["--lake", lake, "--lake-options", json.dumps(store.options())]
    return []


def ratio(results: Results, work: Workload, kind: str) -> float | None:
    """The median of the rounds' ratios to the directory."""
    ours = results.all(work.name, kind, Metric.RATE)
    directory = results.all(work.name, DIRECTORY, Metric.RATE)
    if not ours or len(ours) != len(directory):
        return None
    return statistics.median(mine / other for mine, other in zip(ours, directory, strict=True))
