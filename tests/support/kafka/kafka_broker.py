"""Apache Kafka 4.3.0 as a process of one KRaft node on loopback, and its command-line tools.

Conformance tests and transcripts compare Sawlog with it.
"""

import contextlib
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from support.process import KEEP_OLD_RECORDS, ServerProcess
from support.programs import require_java
from tools.kafka_node import HOST, SMALL_JVM, KafkaNode, java_command

TOOL_TIMEOUT_S = 300
# Kafka also applies retention soon after its start, regardless of the check interval.
DEFAULTS = KEEP_OLD_RECORDS | {"log.initial.task.delay.ms": str(24 * 60 * 60 * 1000)}
SERVER_LOG = "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info"


class KafkaServer:
    """One broker with its own controller; `settings` are added to its server.properties."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        require_java()
        self._node = KafkaNode(directory, DEFAULTS | dict(settings or {}))
        self._node.format()
        self.data = self._node.data
        self.host = HOST
        self.port = self._node.port
        self.bootstrap = self._node.bootstrap
        self.start()

    def start(self) -> None:
        options = ("-Xmx512m", "-Xms512m", *SMALL_JVM, SERVER_LOG)
        self.process = ServerProcess(self._node.command(options, log_level="error"))
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
    """Run one of Kafka's tools by its class name; the caller checks the exit code."""
    require_java()
    options = ("-Xmx256m", *SMALL_JVM, "-Xshare:auto")
    return subprocess.run(
        java_command(class_name, *arguments, options=options, log_level="error"),
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=TOOL_TIMEOUT_S,
    )
