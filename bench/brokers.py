"""The two measured brokers, started on loopback.

"Start to first answer" begins before the process is created and ends with the response to an
ApiVersions request, in the same way for both.
"""

import os
import socket
import struct
import sys
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from bench.process import ChildFailed, Server
from tools.kafka_node import DEFAULT_HEAP, DEFAULT_JVM, HOST, KafkaNode, free_port

START_TIMEOUT_S = 120.0
CONNECT_AGAIN_S = 0.002
API_VERSIONS, VERSION, CORRELATION = 18, 0, 7
# Groups rebalance without delay, and every joining member gets a new target assignment.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
}
# Kafka keeps the files of a deleted topic for a minute, which would disturb the next run.
KAFKA_SETTINGS = {
    "log.segment.delete.delay.ms": "1000",
    "log.initial.task.delay.ms": "1000",
}
# Its log cleaner reports every cleaning at this level.
KAFKA_JVM = (
    *DEFAULT_HEAP,
    *DEFAULT_JVM,
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.storage.internals.log.LogCleaner$CleanerThread=info",
)


class Name(StrEnum):
    KAFKA = "kafka"
    SAWLOG = "sawlog"


@dataclass(frozen=True, slots=True)
class Broker:
    """A running broker."""

    name: Name
    bootstrap: str
    data: Path
    server: Server
    first_answer_s: float


def start(
    name: Name,
    directory: Path,
    settings: dict[str, str] | None = None,
    python: tuple[str, ...] = (sys.executable,),
) -> Broker:
    """Start a broker on the data under `directory` and return after its first response."""
    directory.mkdir(parents=True, exist_ok=True)
    settings = {**SETTINGS, **(settings or {})}
    if name is Name.KAFKA:
        node = KafkaNode(directory, {**KAFKA_SETTINGS, **settings})
        if not node.data.exists():
            node.format()
        return _launch(name, node.command(KAFKA_JVM), node.data, directory, node.port)
    port = free_port()
    data = directory / "data"
    command = [*python, "-m", "sawlog.cli.main", "broker"]
    command += ["--data", os.fspath(data), "--listen", f"{HOST}:{port}"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    return _launch(name, command, data, directory, port)


def _launch(name: Name, command: list[str], data: Path, directory: Path, port: int) -> Broker:
    began = time.monotonic()
    server = Server(command, directory / f"{name}.out")
    try:
        wait_for_answer(server, port)
    except BaseException:
        server.kill()
        raise
    return Broker(name, f"{HOST}:{port}", data, server, time.monotonic() - began)


def wait_for_answer(server: Server, port: int, timeout_s: float = START_TIMEOUT_S) -> None:
    """Return when the broker has answered one ApiVersions request."""
    deadline = time.monotonic() + timeout_s
    while not _answers(server, port, deadline):
        server.check_running()
        if time.monotonic() > deadline:
            raise ChildFailed(f"no response within {timeout_s:.0f} s:\n{server.tail()}")
        time.sleep(CONNECT_AGAIN_S)


def _answers(server: Server, port: int, deadline: float) -> bool:
    """One attempt; a broker may listen long before it answers, so wait for the response."""
    client_id = b"bench"
    request = struct.pack(">hhih", API_VERSIONS, VERSION, CORRELATION, len(client_id)) + client_id
    try:
        with socket.create_connection((HOST, port), timeout=1.0) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            answer = b""
            while len(answer) < 8:
                try:
                    received = connection.recv(4096)
                except TimeoutError:
                    server.check_running()
                    if time.monotonic() > deadline:
                        return False
                    continue
                if not received:
                    return False
                answer += received
    except OSError:
        return False
    correlation: int = struct.unpack(">i", answer[4:8])[0]
    return correlation == CORRELATION
