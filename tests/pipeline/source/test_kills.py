"""Failures during a stream: its driver dies in the first batch, the broker dies under its tasks."""

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Self

import psutil
import pytest

from sawlog.client.net.cluster import Cluster
from sawlog.client.producer.producer import Producer
from support.pipeline.topics import Topics, making
from support.process import ServerProcess
from support.server.broker_process import SawlogServer, running_sawlog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.long, pytest.mark.spark]

JOB = Path(__file__).parents[2] / "support" / "pipeline" / "spark_job.py"
START_S = 300
STEPS = 600


class Load:
    """Sends numbers to a topic, one by one, until stopped."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.written = 0
        self._bootstrap = bootstrap
        self._topic = topic
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._enough.set()
        self._thread.join()

    def _run(self) -> None:
        with Cluster(self._bootstrap) as cluster, Producer(cluster) as producer:
            while not self._enough.wait(0.01):
                for _ in range(10):
                    producer.send(self._topic, b"%d" % self.written, partition=0)
                    self.written += 1


@contextlib.contextmanager
def running_job(broker: SawlogServer, topic: str, out: Path, *more: str) -> Iterator[ServerProcess]:
    """A job in its own process group, so that its children die with it."""
    command = [sys.executable, str(JOB), "stream", "--brokers", broker.bootstrap]
    command += ["--topic", topic, "--out", str(out), *more]
    process = ServerProcess(["setsid", "--wait", *command])
    try:
        yield process
    finally:
        if process.is_running:
            kill_all_of(process)


def kill_all_of(process: ServerProcess) -> None:
    for child in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
    process.kill()


def test_a_driver_killed_in_its_first_batch_loses_and_duplicates_nothing(
    tmp_path: Path, topic: str
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with running_sawlog(tmp_path / "broker") as broker, making(broker.bootstrap) as topics:
        topics.create(topic)
        topics.write(topic, 1_000)  # sent before the stream starts: latest is after them
        with Load(broker.bootstrap, topic) as load:
            with running_job(broker, topic, out, "--stop-in", "0") as job:
                job.wait_for_line("in the batch", START_S)
                kill_all_of(job)
            attempt = json.loads((out / "attempt").read_text())
            assert not (out / "0").exists()
            begun = json.loads((out / "checkpoint/offsets/0").read_text().splitlines()[-1])
            with running_job(broker, topic, out) as job:
                job.wait_for_line("batch 1 ", START_S)
                load.stop()
                end = topics.bounds(topic)[1]
                wait_for_all(job, out, end)
    assert json.loads((out / "0").read_text()) == attempt
    start = begun["@start"][topic]["0"]
    assert start >= 1_000
    assert read_by(out) == list(range(start - 1_000, end - 1_000))


def wait_for_all(job: ServerProcess, out: Path, end: int) -> None:
    for _ in range(STEPS):
        if read_by(out)[-1:] == [end - 1_001]:
            break
        assert job.is_running, job.output
        threading.Event().wait(0.5)
    (out / "enough").touch()
    assert job.wait() == 0, job.output


def read_by(out: Path) -> list[int]:
    """The values of all batches, in batch order."""
    batches = sorted(int(path.name) for path in out.iterdir() if path.name.isdecimal())
    return [value for batch in batches for value in json.loads((out / str(batch)).read_text())]


def test_tasks_wait_for_a_broker_that_restarts(
    spark: "SparkSession", tmp_path: Path, topic: str
) -> None:
    found: list[int] = []
    with running_sawlog(tmp_path / "broker") as broker, making(broker.bootstrap) as topics:
        topics.create(topic, 2)
        fill(topics, topic)
        restarts: list[threading.Thread] = []

        def take(rows: "DataFrame", batch: int) -> None:
            if batch == 1:  # the workers have connections to the broker that is killed
                broker.kill()
                restarts.append(threading.Thread(target=broker.start))
                restarts[0].start()
            found.extend(int(row.value) for row in rows.collect())

        reader = spark.readStream.format("sawlog")
        query = (
            reader.option("kafka.bootstrap.servers", broker.bootstrap)
            .options(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=700)
            .load()
            .writeStream.foreachBatch(take)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(START_S)
        finally:
            query.stop()
            for restart in restarts:
                restart.join()
    assert sorted(found) == list(range(2_000))


def fill(topics: Topics, topic: str) -> None:
    topics.write(topic, 1_000)
    topics.write(topic, 1_000, 1, first=1_000)
