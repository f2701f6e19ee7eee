"""The landing on a standalone cluster with two workers: executors die, memory is bounded."""

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sawlog.client.net.cluster import Cluster
from sawlog.client.producer.producer import Producer
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.landing.configuration.pipeline_file import read_pipeline
from support.pipeline.drivers import driving, kill_all, version_of
from support.pipeline.landing import create_topic, pipeline_file, records_of, send, values_in
from support.process import ServerProcess, wait_until
from support.programs import require_java
from support.server.broker_process import SawlogServer, running_sawlog
from tools.kafka_node import SMALL_JVM

pytestmark = [pytest.mark.long, pytest.mark.spark]

WORKER_MB = 600  # Python, Arrow and Numba take a third of it before the first row
BACKLOG, VALUE_BYTES = 700_000, 700  # far more than the memory of a worker


class SparkDaemon(ServerProcess):
    """A master or a worker, started by the scripts of the wheel."""

    def __init__(self, directory: Path, name: str, *arguments: str) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        os.environ["SPARK_HOME"] = str(home)
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
        super().__init__([*command, "--host", "127.0.0.1", *arguments], cwd=directory)

    def executors(self) -> list[psutil.Process]:
        found = []
        for process in psutil.Process(self.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if "CoarseGrainedExecutorBackend" in " ".join(process.cmdline()):
                    found.append(process)
        return found


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SawlogServer]:
    require_java()
    with running_sawlog(tmp_path / "broker") as started:
        yield started


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, SparkDaemon]]:
    """The address of the master, and one of its two workers."""
    require_java()
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    for name in ("SPARK_HOME", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, "")
    with contextlib.ExitStack() as stack:
        master = SparkDaemon(tmp_path, "master.Master", "--port", "0", "--webui-port", "0")
        stack.callback(master.kill)
        found = master.wait_for_line(r"Starting Spark master at (spark://[\d.]+:\d+)")
        workers = []
        for number in range(2):
            place = tmp_path / f"worker{number}"
            place.mkdir()
            arguments = ["--cores", "1", "--memory", "1g", "--webui-port", "0", found[1]]
            worker = SparkDaemon(place, "worker.Worker", "--work-dir", str(place), *arguments)
            stack.callback(worker.kill)
            worker.wait_for_line("Successfully registered with master")
            workers.append(worker)
        yield found[1], workers[0]


SETTINGS = f"""\
spark:
  spark.executor.memory: 512m
  spark.driver.host: 127.0.0.1
  spark.driver.bindAddress: 127.0.0.1
  spark.executor.extraJavaOptions: {" ".join(SMALL_JVM)}
"""


def test_executors_that_die_on_a_standalone_cluster_are_replaced(
    server: SawlogServer, cluster: tuple[str, SparkDaemon], tmp_path: Path
) -> None:
    master, worker = cluster
    create_topic(server.bootstrap, "t", 3)
    send(server.bootstrap, "t", (b"value %d" % number for number in range(120_000)))
    tables = "  t: {topic: t, commit: {rows: 10000}}\n"
    file = pipeline_file(tmp_path, server.bootstrap, tables, SETTINGS)
    table = read_pipeline(str(file)).landed[0]
    with driving(file, "--once", "--master", master) as driver:
        for version in (2, 6):
            wait_until(lambda at=version: version_of(table.path) >= at, driver)  # type: ignore[misc]
            kill_all(worker.executors())
        wait_until(lambda: not driver.is_running, driver)
        assert driver.wait() == 0, driver.output
    assert values_in(table.path) == records_of(server.bootstrap, "t")


SHOW_PROGRESS = """\
import sys
from sawlog.pipeline import Pipeline
from sawlog.pipeline.pipeline_events import BatchProgress
def show(event):
    if isinstance(event, BatchProgress):
        print(event.read, event.planned, event.records_per_s > 0, flush=True)
Pipeline.from_file(sys.argv[1], master=sys.argv[2], on_event=show).run_once()
"""


def test_tasks_on_executors_report_their_progress_to_the_driver(
    server: SawlogServer, cluster: tuple[str, SparkDaemon], tmp_path: Path
) -> None:
    create_topic(server.bootstrap, "t", 3)
    send(server.bootstrap, "t", (b"value %d" % number for number in range(50_000)))
    file = pipeline_file(tmp_path, server.bootstrap, "  t: {topic: t}\n", SETTINGS)
    command = [sys.executable, "-c", SHOW_PROGRESS, str(file), cluster[0]]
    driver = ServerProcess(command, cwd=tmp_path)
    try:
        driver.wait_for_line("50000 50000 True")
        assert driver.wait() == 0, driver.output
    finally:
        driver.kill()


def test_an_executor_without_our_packages_is_reported(
    server: SawlogServer, cluster: tuple[str, SparkDaemon], tmp_path: Path
) -> None:
    create_topic(server.bootstrap, "t", 1)
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o755)
    file = pipeline_file(tmp_path, server.bootstrap, "  t: {topic: t}\n", SETTINGS)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYSPARK_PYTHON", str(bare))
        patched.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        with driving(file, "--once", "--master", cluster[0]) as driver:
            wait_until(lambda: not driver.is_running, driver)
            assert driver.wait() == 1, driver.output
    assert re.search("pyarrow", driver.output), driver.output


def test_memory_of_tasks_does_not_depend_on_the_backlog(
    server: SawlogServer, tmp_path: Path
) -> None:
    create_topic(server.bootstrap, "t", 3)
    value = json.dumps({"id": 1, "text": "x" * VALUE_BYTES}).encode()
    with Cluster(server.bootstrap) as cluster, Producer(cluster) as producer:
        for number in range(BACKLOG):
            producer.send("t", value, partition=number % 3)
    tables = "  t: {topic: t, format: json, commit: {rows: 5000000, bytes: 10GB}}\n"
    file = pipeline_file(tmp_path, server.bootstrap, tables)
    table = read_pipeline(str(file)).landed[0]
    highest = 0
    with driving(file, "--once") as driver:
        while driver.is_running:
            for process in driver.below("pyspark.worker"):
                with contextlib.suppress(psutil.NoSuchProcess):
                    highest = max(highest, process.memory_info().rss)
            with contextlib.suppress(psutil.TimeoutExpired):
                psutil.Process(driver.pid).wait(0.2)
        assert driver.wait() == 0, driver.output
    opened = Table.open(table.path)
    assert opened.version == 2, "the columns, then one batch"
    assert opened.detail().rows == BACKLOG
    assert 0 < highest < WORKER_MB * 1024 * 1024, f"{highest / 1e6:.0f} MB"
