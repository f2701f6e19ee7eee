"""The files and the command line of one Apache Kafka node (KRaft, broker and controller in one).

A `KafkaNode` writes server.properties, formats the data directory and returns the command that
starts the broker; `bench/` and `tests/support/kafka/kafka_broker.py` run the process. The jars come
from `tools.kafka_jars`.
"""

import os
import random
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.kafka_jars import classpath

CLUSTER_ID = "c2F3bG9nLWthZmthLW5vZA"
NODE_ID = 1
HOST = "127.0.0.1"
FORMAT_TIMEOUT_S = 120
SERVER_PORTS = (10_000, 32_000)
# The JVM options of Kafka's start scripts.
DEFAULT_JVM = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
# The heap of a broker in Kafka's start scripts.
DEFAULT_HEAP = ("-Xmx1g", "-Xms1g")
SMALL_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")  # fast start, for short runs
_unseeded = random.SystemRandom()  # tests seed the other generator, all with the same seed
_LOG_LEVEL = "-Dorg.slf4j.simpleLogger.defaultLogLevel="


class KafkaUnavailable(Exception):
    """Java or the jars of Kafka are missing; the text says how to get them."""


def free_port(count: int = 1) -> int:
    """The first of `count` consecutive loopback ports that are free at this moment.

    They lie below those that the system gives to outgoing connections: a server that is restarted
    at its port would otherwise find it taken now and then.
    """
    while True:
        first = _unseeded.randrange(*SERVER_PORTS)
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind((HOST, port))
        except OSError:
            continue
        return first


def java_command(
    class_name: str,
    *arguments: str,
    options: Sequence[str] = DEFAULT_JVM,
    log_level: str = "warn",
) -> list[str]:
    """The command line that runs one class of Kafka; raises KafkaUnavailable."""
    if shutil.which("java") is None:
        raise KafkaUnavailable("java is missing: install the package openjdk-17-jre-headless")
    jars = classpath()
    if jars is None:
        raise KafkaUnavailable("the jars of Apache Kafka are not fetched: run `make java`")
    return ["java", *options, _LOG_LEVEL + log_level, "-cp", jars, class_name, *arguments]


class KafkaNode:
    """The files of one node under `directory`; `settings` are added to its server.properties."""

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        *,
        node_id: int = NODE_ID,
        voters: Mapping[int, str] | None = None,
    ) -> None:
        """`voters` has the controller's address of every node; None for a node on its own."""
        self.node_id = node_id
        self.data = directory / "data"
        self.port = free_port()
        self.bootstrap = f"{HOST}:{self.port}"
        self._properties = directory / "server.properties"
        directory.mkdir(parents=True, exist_ok=True)
        self._write_properties(voters or {node_id: f"{HOST}:{free_port()}"}, settings or {})

    def _write_properties(self, voters: Mapping[int, str], settings: Mapping[str, str]) -> None:
        properties = {
            "process.roles": "broker,controller",
            "node.id": str(self.node_id),
            "controller.quorum.voters": ",".join(f"{one}@{at}" for one, at in voters.items()),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{voters[self.node_id]}",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **settings,
        }
        lines = (f"{key}={value}\n" for key, value in properties.items())
        self._properties.write_text("".join(lines))

    def format(self) -> None:
        """Format the data directory, once before the first start."""
        arguments = ("format", "-t", CLUSTER_ID, "-c", os.fspath(self._properties))
        options = ("-Xmx256m", *SMALL_JVM)
        subprocess.run(
            java_command("kafka.tools.StorageTool", *arguments, options=options),
            check=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=FORMAT_TIMEOUT_S,
        )

    def command(
        self, options: Sequence[str] = (*DEFAULT_HEAP, *DEFAULT_JVM), *, log_level: str = "warn"
    ) -> list[str]:
        """The command line that starts the broker."""
        properties = os.fspath(self._properties)
        return java_command("kafka.Kafka", properties, options=options, log_level=log_level)
