"""The two measured clusters: three brokers each, on loopback.

Apache Kafka's nodes are broker and controller in one (KRaft); Sawlog's brokers have one ZooKeeper,
which counts as a process of the cluster. A broker that is lost is noticed after the same time.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.brokers import (
    KAFKA_JVM,
    KAFKA_SETTINGS,
    SETTINGS,
    START_TIMEOUT_S,
    Name,
    wait_for_answer,
)
from bench.process import ChildFailed, Server
from bench.raw import Answer, BadAnswer, Wire, check
from sawlog.protocol.messages.describe_quorum_request import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from sawlog.protocol.messages.describe_quorum_response import DescribeQuorumResponse
from sawlog.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from sawlog.protocol.messages.metadata_response import MetadataResponse
from sawlog.protocol.schema import Message
from sawlog.server.address import Address
from sawlog.server.zookeeper_process import ZooKeeperServer, is_serving
from tools.kafka_node import HOST, KafkaNode, free_port

BROKERS = 3
NODE_IDS = tuple(range(1, BROKERS + 1))
SESSION_MS = "6000"
QUORUM_LOG = "__cluster_metadata"
REPLICATED = {
    "offsets.topic.replication.factor": str(BROKERS),
    "default.replication.factor": str(BROKERS),
    "min.insync.replicas": "2",
}
KAFKA_REPLICATED = {
    **REPLICATED,
    "transaction.state.log.replication.factor": str(BROKERS),
    "broker.session.timeout.ms": SESSION_MS,
}
SAWLOG_REPLICATED = {**REPLICATED, "zookeeper.session.timeout.ms": SESSION_MS}
ASK_AGAIN_S = 0.02
TIMEOUT_S = 120.0


class Node:
    """One broker of a cluster, which can be stopped and started again."""

    def __init__(self, node_id: int, command: list[str], data: Path, port: int) -> None:
        self.node_id = node_id
        self.command = command
        self.data = data
        self.port = port
        self.server: Server | None = None

    def start(self) -> None:
        """Start the process without waiting for its first response."""
        self.data.parent.mkdir(parents=True, exist_ok=True)
        self.server = Server(self.command, self.data.parent / "broker.out")

    def wait_for_answer(self) -> None:
        assert self.server is not None
        wait_for_answer(self.server, self.port)

    def stop(self) -> None:
        if self.server is not None:
            self.server.stop()
            self.server = None

    def kill(self) -> None:
        if self.server is not None:
            self.server.kill()
            self.server = None

    def signal(self, number: int) -> None:
        assert self.server is not None
        self.server.signal(number)

    def log_bytes(self, topic: str) -> int:
        """Return the size of all segments of a topic."""
        found = 0
        for path in self.data.glob(f"{topic}-*/*.log"):
            try:
                found += path.stat().st_size
            except FileNotFoundError:  # deleted meanwhile
                continue
        return found

    def metadata(self, topic: str | None = None) -> MetadataResponse:
        """Return this broker's view of a topic, or of the brokers only."""
        wanted = [] if topic is None else [MetadataRequestTopic(name=topic)]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        return self._ask(request, MetadataResponse)

    def quorum_leader_id(self) -> int:
        """Return the active controller of a KRaft quorum, which Metadata does not tell."""
        partition = PartitionData(partition_index=0)
        log = TopicData(topic_name=QUORUM_LOG, partitions=[partition])
        answer = self._ask(DescribeQuorumRequest(topics=[log]), DescribeQuorumResponse)
        check(answer)
        return int(answer.topics[0].partitions[0].leader_id)

    def _ask(self, request: Message, response_class: type[Answer]) -> Answer:
        wire = Wire(f"{HOST}:{self.port}")
        try:
            return wire.ask(request, response_class)
        finally:
            wire.close()


class Cluster:
    """A running cluster: its brokers, and the processes that they need."""

    def __init__(self, name: Name, nodes: list[Node], others: list[Server]) -> None:
        self.name = name
        self.nodes = nodes
        self._others = others

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{node.port}" for node in self.running)

    @property
    def running(self) -> list[Node]:
        return [node for node in self.nodes if node.server is not None]

    @property
    def servers(self) -> list[Server]:
        return [*self._others, *(node.server for node in self.nodes if node.server is not None)]

    def family_cpu_s(self) -> float:
        return sum(server.family_cpu_s() for server in self.servers)

    def resident_bytes(self) -> int:
        return sum(server.resident_bytes() for server in self.servers)

    def check_running(self) -> None:
        for server in self.servers:
            server.check_running()

    def stop(self) -> None:
        """Kill all processes: the data of a cluster is not used again."""
        for node in self.running:
            node.kill()
        for server in self._others:
            server.kill()

    def wait(self, what: str, is_so: Callable[[], bool]) -> None:
        """Return when `is_so` does; ChildFailed if that takes too long or a process ends."""
        deadline = time.monotonic() + TIMEOUT_S
        while not is_so():
            self.check_running()
            if time.monotonic() > deadline:
                raise ChildFailed(f"{self.name}: {what} after {TIMEOUT_S:.0f} s")
            time.sleep(ASK_AGAIN_S)

    def controller_id(self) -> int:
        node = self.running[0]
        if self.name is Name.KAFKA:
            return node.quorum_leader_id()
        return int(node.metadata().controller_id)

    def wait_for_leaders(self, topic: str, partitions: int, in_sync: int) -> None:
        """Return when all running brokers tell the same: every partition has a running leader, and
        at least `in_sync` in-sync replicas."""
        left = list(self.running)

        def all_lead() -> bool:
            while left and _has_leaders(left[0], topic, partitions, in_sync, self.running):
                del left[0]
            return not left

        self.wait(f"{topic} has partitions without a leader", all_lead)

    def wait_for_replicas(self, topic: str) -> None:
        """Return when the logs of a topic have the same size at all brokers."""

        def are_equal() -> bool:
            return len({node.log_bytes(topic) for node in self.nodes}) == 1

        self.wait(f"the replicas of {topic} differ", are_equal)


def _has_leaders(
    asked: Node, topic: str, partitions: int, in_sync: int, running: list[Node]
) -> bool:
    leaders = {node.node_id for node in running}
    try:
        answer = asked.metadata(topic)
    except (BadAnswer, OSError):
        return False
    (described,) = answer.topics
    return len(described.partitions) == partitions and all(
        partition.leader_id in leaders and len(partition.isr_nodes) >= in_sync
        for partition in described.partitions
    )


@contextmanager
def running(
    name: Name,
    directory: Path,
    settings: Mapping[str, str] | None = None,
    python: tuple[str, ...] = (sys.executable,),
) -> Iterator[Cluster]:
    """A cluster on new data under `directory`; all brokers know each other."""
    start = _kafka if name is Name.KAFKA else _sawlog
    cluster = start(directory, dict(settings or {}), python)
    try:
        for node in cluster.nodes:
            node.start()
        for node in cluster.nodes:
            node.wait_for_answer()
        for node in cluster.nodes:
            cluster.wait("a broker is not registered", partial(_knows_all, node))
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(directory, ignore_errors=True)


def _knows_all(node: Node) -> bool:
    try:
        return len(node.metadata().brokers) == BROKERS
    except (BadAnswer, OSError):
        return False


def _kafka(directory: Path, _settings: dict[str, str], _python: tuple[str, ...]) -> Cluster:
    """Kafka has no policy of flushing but the operating system's."""
    voters = {node_id: f"{HOST}:{free_port()}" for node_id in NODE_IDS}
    settings = {**SETTINGS, **KAFKA_SETTINGS, **KAFKA_REPLICATED}
    nodes = []
    for node_id in NODE_IDS:
        place = directory / f"broker-{node_id}"
        node = KafkaNode(place, settings, node_id=node_id, voters=voters)
        node.format()
        nodes.append(Node(node_id, node.command(KAFKA_JVM), node.data, node.port))
    return Cluster(Name.KAFKA, nodes, [])


def _sawlog(directory: Path, settings: dict[str, str], python: tuple[str, ...]) -> Cluster:
    address = Address(HOST, free_port())
    zookeeper = ZooKeeperServer(directory / "zookeeper", address)
    zookeeper.write_config()
    keeper = Server(zookeeper.command(), directory / "zookeeper.out")
    if not is_serving(address, START_TIMEOUT_S):
        keeper.kill()
        raise ChildFailed(f"ZooKeeper does not serve:\n{keeper.tail()}")
    nodes = []
    for node_id in NODE_IDS:
        data, port = directory / f"broker-{node_id}" / "data", free_port()
        command = [*python, "-m", "sawlog.cli.main", "broker", "--node-id", str(node_id)]
        command += ["--data", os.fspath(data), "--listen", f"{HOST}:{port}"]
        command += ["--zookeeper", str(address)]
        for key, value in {**SETTINGS, **SAWLOG_REPLICATED, **settings}.items():
            command += ["--set", f"{key}={value}"]
        nodes.append(Node(node_id, command, data, port))
    return Cluster(Name.SAWLOG, nodes, [keeper])
