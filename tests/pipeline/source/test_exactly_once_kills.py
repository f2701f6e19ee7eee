"""The exactly-once sink under killed drivers, executors, tasks and commits, as processes.

A gate before the broker kills at a chosen request. The committed records equal the input.
"""

import contextlib
import os
import random
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sawlog.protocol.messages.end_txn_request import EndTxnRequest
from sawlog.protocol.messages.init_producer_id_request import InitProducerIdRequest
from sawlog.protocol.messages.produce_request import ProduceRequest
from sawlog.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from support.kafka.request_gate import (
    GatedRequest,
    RequestGate,
    gated_broker,
    kill_sender,
    nth,
    pass_all,
)
from support.kafka.shared_brokers import QUICK_GROUPS, Server, unique
from support.pipeline.drivers import kill_all
from support.pipeline.exactly_once_copy import committed
from support.pipeline.spark_cluster import EXECUTOR
from support.pipeline.topics import Topics, making
from support.process import ServerProcess, wait_until
from support.programs import require
from support.tiers import rounds

pytestmark = pytest.mark.spark

JOB = Path(__file__).parents[2] / "support" / "pipeline" / "exactly_once_job.py"
WAIT_S = 300
KINDS = (EndTxnRequest, InitProducerIdRequest, ProduceRequest, TxnOffsetCommitRequest)
CLUSTER_EVERY = 5  # rounds


SAWLOG_OR_KAFKA = [
    pytest.param("sawlog", marks=pytest.mark.long),
    pytest.param("kafka", marks=pytest.mark.soak),
]


@pytest.fixture(scope="module")
def gated(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Server, RequestGate]]:
    require("java")
    with gated_broker(request.param, tmp_path_factory.mktemp("gated"), QUICK_GROUPS) as found:
        yield found


class Copy:
    """A job that copies a topic of two partitions, 50 records of each in a batch."""

    def __init__(self, topics: Topics, server: Server, directory: Path, batches: int) -> None:
        self.topics = topics
        self.source = topics.create(unique("source-"), 2)
        self.target = topics.create(unique("target-"), 2)
        markers = topics.create(unique("markers-"))
        self._arguments = [server.bootstrap, self.source, self.target, markers, str(directory)]
        self._count = 50 * batches
        for index in (0, 1):
            topics.write(self.source, self._count, index, first=index * self._count)

    @contextlib.contextmanager
    def job(self, *more: str) -> Iterator[ServerProcess]:
        """The job in its own process group; all its processes end with it."""
        paths = os.pathsep.join((str(JOB.parents[2]), str(JOB.parents[3])))
        command = ["env", f"PYTHONPATH={paths}", sys.executable, str(JOB)]
        process = ServerProcess(["setsid", "--wait", *command, *self._arguments, *more])
        try:
            yield process
        finally:
            kill_job(process)

    def finish(self, *more: str) -> str:
        """Run the job to its end; returns its output."""
        with self.job(*more) as job:
            wait_until(lambda: "done" in job.lines or not job.is_running, job)
            assert "done" in job.lines, job.output
            return job.output

    def is_exact(self) -> bool:
        return committed(self.topics, self.target) == [*range(2 * self._count)]


def kill_job(job: ServerProcess) -> None:
    if job.is_running:
        kill_all(psutil.Process(job.pid).children(recursive=True))
        job.kill()


@pytest.fixture
def gate(gated: tuple[Server, RequestGate]) -> Iterator[RequestGate]:
    yield gated[1]
    gated[1].script = pass_all


@pytest.fixture
def topics(gated: tuple[Server, RequestGate]) -> Iterator[Topics]:
    with making(gated[0].bootstrap) as found:
        yield found


@pytest.mark.parametrize("gated", SAWLOG_OR_KAFKA, indirect=True)
def test_a_driver_killed_between_two_ends_and_killed_tasks_of_its_successor(
    gated: tuple[Server, RequestGate], gate: RequestGate, topics: Topics, tmp_path: Path
) -> None:
    copy = Copy(topics, gated[0], tmp_path, batches=3)
    struck = threading.Event()
    with copy.job() as job:

        def kill_driver(_: GatedRequest) -> bool:
            struck.set()
            kill_job(job)
            return False

        gate.script = nth(4, EndTxnRequest, kill_driver)  # of task 1 of batch 1
        wait_until(lambda: struck.is_set() or not job.is_running, job)
    assert struck.is_set(), job.output
    # The rows of a task are written when its worker is killed; Spark tries the task again.
    gate.script = nth(1, TxnOffsetCommitRequest, kill_sender)
    assert "stopped:" not in copy.finish()
    assert copy.is_exact()


@pytest.mark.parametrize("gated", SAWLOG_OR_KAFKA, indirect=True)
def test_speculation_and_a_zombie_task_of_an_older_batch(
    gated: tuple[Server, RequestGate], gate: RequestGate, topics: Topics, tmp_path: Path
) -> None:
    copy = Copy(topics, gated[0], tmp_path, batches=3)
    zombie = HeldTask(task=1, until_end=3)  # the first EndTxn of batch 1
    gate.script = zombie
    output = copy.finish("--cluster", "--reruns", "1")
    assert zombie.has_begun_again, output
    reason = "the transaction of task 1 of batch 1 was not committed"
    assert re.search(f"stopped: .*{reason}", output), output
    assert copy.is_exact()


class HeldTask:
    """Holds the first attempt of a task before its first request, until a later batch commits.

    A speculative attempt of the task is not held. The later batch is committed after the zombie has
    initialized its transactional id.
    """

    def __init__(self, task: int, until_end: int) -> None:
        self._pattern = rf"sawlog-sink-[0-9a-f-]{{36}}-{task}\b".encode()
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._begun = threading.Event()
        self._port: int | None = None
        self._ends = 0
        self._until_end = until_end

    @property
    def has_begun_again(self) -> bool:
        return self._begun.is_set()

    def __call__(self, request: GatedRequest) -> bool:
        if request.is_a(InitProducerIdRequest) and re.search(self._pattern, request.frame):
            with self._lock:
                is_first = self._port is None
                if is_first:
                    self._port = request.port
            return self._released.wait(WAIT_S) if is_first else True
        if request.port == self._port and self._released.is_set():
            self._begun.set()  # the response to InitProducerId has arrived
        elif request.is_a(EndTxnRequest):
            self._ends += 1
            if self._ends == self._until_end:
                self._released.set()
                return self._begun.wait(WAIT_S)
        return True


@pytest.mark.parametrize("gated", SAWLOG_OR_KAFKA, indirect=True)
@pytest.mark.parametrize("kills", rounds(long=2, soak=50))
def test_killed_drivers_and_executors_lose_and_duplicate_nothing(
    gated: tuple[Server, RequestGate],
    gate: RequestGate,
    topics: Topics,
    tmp_path: Path,
    kills: int,
    random_seed: int,
) -> None:
    """Two batches for each round: a round ends in the first ones that are left."""
    copy = Copy(topics, gated[0], tmp_path, batches=2 * kills + 2)
    chance = random.Random(random_seed)
    for number in range(1, kills + 1):
        more = () if number % CLUSTER_EVERY else ("--cluster",)
        with copy.job(*more) as job:
            if chance.random() < 0.5:
                strike(gate, chance, job, kills_driver=False)
            strike(gate, chance, job, kills_driver=True)
        gate.script = pass_all
    copy.finish()
    assert copy.is_exact()


def strike(
    gate: RequestGate, chance: random.Random, job: ServerProcess, *, kills_driver: bool
) -> None:
    """Kill the driver, or the executor or process that sends, at some request of the next ones."""
    struck = threading.Event()

    def kill(request: GatedRequest) -> bool:
        struck.set()
        if kills_driver:
            kill_job(job)
        else:
            kill_all([executor_of(sender) for sender in request.senders])
        return False

    gate.script = nth(chance.randrange(1, 6), chance.choice(KINDS), kill)
    wait_until(lambda: struck.is_set() or "done" in job.lines or not job.is_running, job)


def executor_of(process: psutil.Process) -> psutil.Process:
    """The executor that runs the process, or the process itself if it is the driver's."""
    for parent in process.parents():
        if EXECUTOR in " ".join(parent.cmdline()):
            return parent
    return process
