"""Apache Kafka 4.3.0 as one KRaft node on loopback, and its command-line tools.

It is what the conformance tests and transcripts are proved against; nothing here is shipped.
"""

import contextlib
import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from support.process import ServerProcess
from support.programs import require_java

CLUSTER_ID = "c2F3bG9nLXRlc3RzLTAwMQ"
NODE_ID = 1
TOOL_TIMEOUT_S = 300
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
SERVER_LOG = "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class KafkaServer:
    """One broker that is its own controller. `settings` are added to its server.properties."""

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        *,
        heap: str = "512m",
        java_options: tuple[str, ...] = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    ) -> None:
        self.data = directory / "data"
        self.host = "127.0.0.1"
        self.port = free_port()
        self._jars = require_java()
        self._java_options = (f"-Xmx{heap}", f"-Xms{heap}", *java_options)
        self._properties = directory / "server.properties"
        directory.mkdir(parents=True, exist_ok=True)
        self._write_properties(settings or {})
        self._format()
        self.start()

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    def _write_properties(self, settings: Mapping[str, str]) -> None:
        controller_port = free_port()
        properties = {
            "process.roles": "broker,controller",
            "node.id": str(NODE_ID),
            "controller.quorum.voters": f"{NODE_ID}@{self.host}:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{self.host}:{controller_port}",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **settings,
        }
        lines = (f"{key}={value}\n" for key, value in properties.items())
        self._properties.write_text("".join(lines))

    def _format(self) -> None:
        arguments = ("format", "-t", CLUSTER_ID, "-c", str(self._properties))
        run_tool("kafka.tools.StorageTool", *arguments).check_returncode()

    def start(self) -> None:
        options = [*self._java_options, QUIET, SERVER_LOG]
        self.process = ServerProcess(
            ["java", *options, "-cp", self._jars, "kafka.Kafka", str(self._properties)]
        )
        self.process.wait_for_line("Kafka Server started")

    def stop(self) -> None:
        if self.process.is_running:
            self.process.terminate()

    def kill(self) -> None:
        self.process.kill()

    def restart(self) -> None:
        self.stop()
        self.start()


@contextlib.contextmanager
def running_kafka(
    directory: Path, settings: Mapping[str, str] | None = None
) -> Iterator[KafkaServer]:
    server = KafkaServer(directory, settings)
    try:
        yield server
    finally:
        server.stop()


def run_tool(
    class_name: str, *arguments: str, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs one of Kafka's tools by its class, to its end; the caller looks at the exit code."""
    options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", QUIET]
    return subprocess.run(
        ["java", *options, "-cp", require_java(), class_name, *arguments],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=TOOL_TIMEOUT_S,
    )
