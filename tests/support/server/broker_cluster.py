"""Three brokers on one ZooKeeper, each a child process that tests stop and pause by its id."""

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil

from sawlog.broker.replicas import RACK_AWARE_SELECTOR
from sawlog.client import Admin
from sawlog.server.zookeeper_address import ZooKeeperAddress
from support.process import ServerProcess, wait_until
from support.server.broker_process import SawlogServer
from support.server.known_brokers import wait_until_brokers_know_each_other

SETTINGS = {
    "zookeeper.session.timeout.ms": "10000",
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "2",
    "group.initial.rebalance.delay.ms": "0",
    "replica.selector.class": RACK_AWARE_SELECTOR,
}
RACKS = {1: "a", 2: "b", 3: "c"}


class BrokerCluster:
    """Brokers 1 to 3, in the racks a to c."""

    def __init__(self, directory: Path, zookeeper: ZooKeeperAddress) -> None:
        settings = SETTINGS | {"zookeeper.connect": str(zookeeper)}
        self.zookeeper = zookeeper
        self.servers = {
            node: SawlogServer(directory / str(node), {**settings, "broker.rack": rack}, node)
            for node, rack in RACKS.items()
        }
        wait_until_brokers_know_each_other(self.bootstrap, *self._processes)

    @property
    def _processes(self) -> list[ServerProcess]:
        return [server.process for server in self.servers.values()]

    @property
    def bootstrap(self) -> str:
        return ",".join(server.bootstrap for server in self.servers.values())

    def stop(self) -> None:
        for server in self.servers.values():
            server.stop()

    def delete_topics(self) -> None:
        """Delete all topics but the internal ones."""
        with Admin(self.bootstrap) as admin:
            admin.delete_topics([topic.name for topic in admin.list_topics()])

    def controller(self) -> int:
        with Admin(self.bootstrap) as admin:
            return int(admin.describe_cluster().controller)

    def follower_nodes(self) -> list[int]:
        """The brokers that are not the controller."""
        controller = self.controller()
        return [node for node in self.servers if node != controller]

    def wait_until_in_sync(self) -> None:
        """Wait until each broker has heard of all and all replicas of all topics are in sync.

        One broker is not enough: one that was paused may not know yet that its session has ended.
        """

        def is_in_sync() -> bool:
            with Admin(self.bootstrap) as admin:
                topics = admin.list_topics(include_internal=True)
                return all(
                    sorted(partition.in_sync) == sorted(partition.replicas)
                    and partition.leader >= 0
                    for topic in topics
                    for partition in topic.partitions.values()
                )

        wait_until_brokers_know_each_other(self.bootstrap, *self._processes)
        wait_until(is_in_sync, *self._processes)

    def wait_until_known(self, topic: str) -> None:
        """Wait until each broker knows the topic: the one that creates it answers before others."""

        def is_known(server: SawlogServer) -> bool:
            with Admin(server.bootstrap) as admin:
                return topic in {each.name for each in admin.list_topics()}

        wait_until(lambda: all(map(is_known, self.servers.values())), *self._processes)

    @contextlib.contextmanager
    def stopped(self, node: int) -> Iterator[None]:
        """Stop a broker during a `with` block, and wait after it until the cluster is in sync."""
        self.servers[node].stop()
        try:
            yield
        finally:
            self.servers[node].start()
            self.wait_until_in_sync()

    @contextlib.contextmanager
    def paused(self, node: int) -> Iterator[None]:
        """Pause a broker during a `with` block; it stays registered for some seconds."""
        process = psutil.Process(self.servers[node].process.pid)
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)
            self.wait_until_in_sync()
