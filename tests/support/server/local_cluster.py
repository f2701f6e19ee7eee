"""`sawlog up` as a child process that tests start, stop and kill."""

import contextlib
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from sawlog.client import Admin
from sawlog.server.zookeeper_address import ZooKeeperAddress
from support.process import ServerProcess, wait_until
from support.server.known_brokers import wait_until_brokers_know_each_other
from tools.kafka_node import free_port

READY = r"cluster ready: bootstrap servers (?P<servers>\S+);"
STARTED = r"\b(?P<name>\S+) started \(process (?P<pid>\d+)\)"


def up_command(data: Path, brokers: int, *options: str) -> list[str]:
    command = [sys.executable, "-m", "sawlog", "up", "--data", str(data)]
    return [*command, "--brokers", str(brokers), *options]


class LocalCluster:
    """A cluster with a ZooKeeper of its own, unless one is named; `start` after a stop keeps its
    ports and data."""

    def __init__(
        self,
        data: Path,
        brokers: int,
        settings: Sequence[str] = (),
        zookeeper: ZooKeeperAddress | None = None,
    ) -> None:
        self.data = data
        self.brokers = brokers
        first = free_port(brokers + 1)
        self.options = ["--port", str(first + 1)]
        if zookeeper is None:
            self.options += ["--zookeeper-port", str(first)]
        else:
            self.options += ["--zookeeper", str(zookeeper)]
        for setting in settings:
            self.options += ["--set", setting]
        self.start()

    def start(self) -> None:
        self.process = ServerProcess(up_command(self.data, self.brokers, *self.options))
        self.bootstrap = self.process.wait_for_line(READY)["servers"]
        wait_until_brokers_know_each_other(self.bootstrap, self.process)

    def started(self, name: str) -> list[int]:
        """The ids of the processes of this name, the present one last."""
        found = (re.search(STARTED, line) for line in self.process.lines)
        return [int(match["pid"]) for match in found if match and match["name"] == name]

    def kill_child(self, name: str) -> None:
        """Kill the present process of this name, and wait until its successor is started."""
        count = len(self.started(name))
        psutil.Process(self.started(name)[-1]).kill()
        wait_until(lambda: len(self.started(name)) > count, self.process)

    def kill_broker(self, node_id: int) -> None:
        """Kill the present process of a broker, and wait until its successor is ready."""
        ready = rf"\bbroker {node_id} ready"
        count = self._count(ready)
        self.kill_child(f"broker-{node_id}")
        wait_until(lambda: self._count(ready) > count, self.process)

    def _count(self, pattern: str) -> int:
        return sum(re.search(pattern, line) is not None for line in self.process.lines)

    @property
    def data_directories(self) -> list[Path]:
        return [self.data / f"broker-{node_id}" for node_id in range(1, self.brokers + 1)]

    def controller(self) -> int:
        with Admin(self.bootstrap) as admin:
            return int(admin.describe_cluster().controller)

    def wait_until_in_sync(self, topic: str, partitions: int) -> None:
        """Wait until every in-sync set has all brokers."""

        def sizes() -> list[int]:
            with Admin(self.bootstrap) as admin:
                (found,), _ = admin.describe_topics([topic])
                return [len(partition.in_sync) for partition in found.partitions.values()]

        wait_until(lambda: sizes() == [self.brokers] * partitions, self.process)

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)


@contextlib.contextmanager
def running_cluster(
    data: Path,
    brokers: int,
    settings: Sequence[str] = (),
    zookeeper: ZooKeeperAddress | None = None,
) -> Iterator[LocalCluster]:
    """Run a cluster during a `with` block, and stop it in order after it."""
    cluster = LocalCluster(data, brokers, settings, zookeeper)
    try:
        yield cluster
    except BaseException:
        cluster.process.kill()
        raise
    assert cluster.process.terminate() == 0, cluster.process.output
