"""Brokers and a ZooKeeper as processes, each reached over links that can be cut.

The advertised address of a broker is a link, and so is each broker's address of ZooKeeper. All
clients and brokers use these addresses; a link finds out which process opens a connection.
"""

import contextlib
import json
import resource
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from sawlog.cluster import znodes
from sawlog.core.ids import NodeId
from sawlog.server.address import Address
from sawlog.server.zookeeper_process import FAST_START, ZooKeeperServer, is_serving
from tools.faults.links import HOST, Links
from tools.faults.process import Child, wait_for
from tools.faults.socket_owner import has_socket, socket_inode
from tools.kafka_node import free_port

ZOOKEEPER = "zookeeper"
CLIENT = "client"
START_S = 180.0
JVM_TERMINATED = 128 + signal.SIGTERM
"""The exit code of a JVM that ran its shutdown hooks after SIGTERM."""
NO_FSYNC = "-Dzookeeper.forceSync=no"
"""No fsync in ZooKeeper: on a busy disk it stalls all sessions; no fault here is a power loss."""


class FaultyProcess:
    """One process that is killed, stopped, paused and started again on its data."""

    def __init__(self, name: str, directory: Path, stop_code: int) -> None:
        self.name = name
        self.child = Child([], directory / f"{name}.log")
        self._stop_code = stop_code

    def start(self) -> None:
        """Start the process without waiting until it is ready."""
        self.child.start()

    def wait_until_ready(self) -> None:
        raise NotImplementedError

    def kill(self) -> None:
        self.child.kill()

    def begin_stop(self) -> None:
        """SIGTERM: a controlled shutdown."""
        self.child.signal(signal.SIGTERM)

    def stop(self) -> None:
        self.begin_stop()
        self.wait_until_stopped()

    def wait_until_stopped(self) -> None:
        code = self.child.wait()
        assert code == self._stop_code, f"{self.name} ended with {code}:\n{self.child.text}"

    def pause(self) -> None:
        self.child.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.child.signal(signal.SIGCONT)


class FaultyBroker(FaultyProcess):
    def __init__(self, node_id: int, directory: Path, listen: Address) -> None:
        super().__init__(f"broker-{node_id}", directory, stop_code=0)
        self.node_id = node_id
        self.data = directory / self.name
        self.listen = listen
        self.advertised = listen

    def wait_until_ready(self) -> None:
        self.child.wait_for_text(f"broker {self.node_id} ready")

    def fail_disk(self) -> None:
        """Let every write to a file fail, as on a broken disk, until the process has ended. It is a
        limit of the process, so no file system has to be broken; the output fails too."""
        _, hard = resource.prlimit(self.child.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.child.pid, resource.RLIMIT_FSIZE, (0, hard))

    def lose_data(self) -> None:
        """Empty the data directory of a process that has ended."""
        assert not self.child.is_running
        for path in self.data.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


class FaultyZooKeeper(FaultyProcess):
    def __init__(self, directory: Path, *, syncs: bool) -> None:
        super().__init__(ZOOKEEPER, directory, stop_code=JVM_TERMINATED)
        self.address = Address(HOST, free_port())
        server = ZooKeeperServer(directory / ZOOKEEPER, self.address)
        server.write_config()
        self.child.command = server.command(FAST_START if syncs else (*FAST_START, NO_FSYNC))

    def wait_until_ready(self) -> None:
        assert is_serving(self.address, START_S), self.child.text


class FaultyCluster:
    """ZooKeeper and `brokers` brokers, all running when this is made."""

    def __init__(
        self,
        directory: Path,
        *,
        session_ms: int,
        brokers: int = 3,
        settings: Mapping[str, str] | None = None,
        data: Mapping[int, Path] | None = None,
        zookeeper_syncs: bool = False,
        is_linked: bool = True,
    ) -> None:
        """Without links (`is_linked`), processes reach each other directly and cannot be cut."""
        directory.mkdir(parents=True, exist_ok=True)
        self._is_linked = is_linked
        self.session_ms = session_ms
        self.links = Links()
        self.zookeeper = FaultyZooKeeper(directory, syncs=zookeeper_syncs)
        self.zookeeper.start()
        self.brokers = [
            FaultyBroker(node_id, directory, Address(HOST, free_port()))
            for node_id in range(1, brokers + 1)
        ]
        for broker in self.brokers:
            broker.data = (data or {}).get(broker.node_id, broker.data)
            self._configure(broker, settings or {})
        self.zookeeper.wait_until_ready()
        self._client = KazooClient(str(self.zookeeper.address), timeout=60)
        self._client.start(START_S)
        for broker in self.brokers:
            broker.start()
        for broker in self.brokers:
            broker.wait_until_ready()

    def _configure(self, broker: FaultyBroker, settings: Mapping[str, str]) -> None:
        advertised, store = broker.listen, self.zookeeper.address
        if self._is_linked:
            advertised = self.links.add(broker.name, broker.listen, self._owner)
            store = self.links.add(ZOOKEEPER, self.zookeeper.address, lambda _, __: broker.name)
        command = [sys.executable, "-m", "sawlog", "broker", "--data", str(broker.data)]
        command += ["--node-id", str(broker.node_id), "--listen", str(broker.listen)]
        command += ["--advertise", str(advertised), "--zookeeper", str(store)]
        own = {
            "zookeeper.session.timeout.ms": str(self.session_ms),
            "zookeeper.connection.timeout.ms": "60000",
            "min.insync.replicas": "2",
            "default.replication.factor": str(len(self.brokers)),
            "offsets.topic.num.partitions": "3",
        }
        for key, value in {**own, **settings}.items():
            command += ["--set", f"{key}={value}"]
        broker.child.command = command
        broker.advertised = advertised

    def _owner(self, port: int, link_port: int) -> str:
        """Return the name of the process that has this connection to a link: a broker, or a
        client."""
        inode = socket_inode(HOST, port, link_port)
        for broker in self.brokers:
            is_running = broker.child.is_running
            if inode is not None and is_running and has_socket(broker.child.pid, inode):
                return broker.name
        return CLIENT

    @property
    def bootstrap(self) -> str:
        return ",".join(str(broker.advertised) for broker in self.brokers)

    @property
    def data_directories(self) -> list[Path]:
        return [broker.data for broker in self.brokers]

    def close(self) -> None:
        """Kill everything that still runs."""
        self.links.heal()
        self._client.stop()
        self._client.close()
        for broker in self.brokers:
            broker.kill()
        self.zookeeper.kill()
        self.links.close()

    # What ZooKeeper says

    def wait_until_session_ended(self, broker: FaultyProcess) -> None:
        """Wait until the broker's registration has gone."""
        assert isinstance(broker, FaultyBroker)
        path = znodes.broker_path(NodeId(broker.node_id))
        wait_for(
            lambda: self._client.retry(self._client.exists, path) is None,
            f"{broker.name} is not registered",
        )

    def broker(self, node_id: int) -> FaultyBroker:
        return self.brokers[node_id - 1]

    def state(self, topic: str, partition: int) -> dict[str, Any]:
        """The JSON of a partition's state node."""
        data, _ = self._client.retry(self._client.get, znodes.state_path(topic, partition))
        return dict(json.loads(data))

    def leader(self, topic: str, partition: int = 0) -> FaultyBroker:
        return self.broker(int(self.state(topic, partition)["leader"]))

    def controller(self) -> FaultyBroker:
        data, _ = self._client.retry(self._client.get, znodes.CONTROLLER)
        return self.broker(int(json.loads(data)["brokerid"]))

    def wait_until_in_sync(self, topic: str, partitions: int) -> None:
        """Wait until every in-sync set has all brokers."""

        def states() -> list[dict[str, Any]]:
            return [self.state(topic, index) for index in range(partitions)]

        wait_for(
            lambda: all(len(state["isr"]) == len(self.brokers) for state in states()),
            f"all in-sync sets of {topic} are full: {self._describe(topic, partitions)}",
        )

    def _describe(self, topic: str, partitions: int) -> str:
        return "; ".join(
            f"{index}: leader {state['leader']} isr {state['isr']}"
            for index in range(partitions)
            if (state := self.state(topic, index))
        )


@contextlib.contextmanager
def faulty_cluster(
    directory: Path,
    *,
    session_ms: int,
    settings: Mapping[str, str] | None = None,
    data: Mapping[int, Path] | None = None,
    zookeeper_syncs: bool = False,
    is_linked: bool = True,
) -> Iterator[FaultyCluster]:
    """Run a cluster during a `with` block; ZooKeeper calls fsync only with `zookeeper_syncs`."""
    cluster = FaultyCluster(
        directory,
        session_ms=session_ms,
        settings=settings,
        data=data,
        zookeeper_syncs=zookeeper_syncs,
        is_linked=is_linked,
    )
    try:
        yield cluster
    finally:
        cluster.close()
