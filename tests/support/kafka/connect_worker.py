"""A distributed worker of Kafka Connect as a process, and its REST interface on loopback."""

import contextlib
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from support.process import ServerProcess, wait_until
from tools.kafka_node import HOST, SMALL_JVM, free_port, java_command

PROGRAM = "org.apache.kafka.connect.cli.ConnectDistributed"
STARTED_LOG = "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.connect.runtime.Connect=info"
OPTIONS = ("-Xmx384m", *SMALL_JVM, "-Xshare:auto", STARTED_LOG)
REST_TIMEOUT_S = 60.0
PATIENCE_S = 180.0
NOT_FOUND, CONFLICT = 404, 409  # 409: the worker is rebalancing
STRINGS = "org.apache.kafka.connect.storage.StringConverter"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


class ConnectWorker:
    """One worker that is a Connect cluster of its own; a restart keeps its group and topics."""

    def __init__(self, directory: Path, bootstrap: str, group: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.internal_topics = {name: f"{group}-{name}" for name in ("config", "offset", "status")}
        self._properties = directory / "worker.properties"
        self._url = f"http://{HOST}:{free_port()}"
        lines = (f"{key}={value}\n" for key, value in self._settings(bootstrap, group).items())
        self._properties.write_text("".join(lines))
        self.start()

    def _settings(self, bootstrap: str, group: str) -> dict[str, str]:
        topics = {
            f"{name}.storage.{key}": value
            for name, topic in self.internal_topics.items()
            for key, value in {
                "topic": topic,
                "replication.factor": "1",
                "internal.segment.bytes": "16384",
                "min.cleanable.dirty.ratio": "0.01",
            }.items()
        }
        return {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "listeners": self._url,
            "key.converter": STRINGS,
            "value.converter": STRINGS,
            "plugin.discovery": "service_load",  # without the slow scan of all classes
            "offset.storage.partitions": "1",
            "status.storage.partitions": "1",
            "offset.flush.interval.ms": "200",
            "scheduled.rebalance.max.delay.ms": "0",
            **topics,
        }

    def start(self) -> None:
        command = java_command(PROGRAM, os.fspath(self._properties), options=OPTIONS)
        self.process = ServerProcess(command)
        self.process.wait_for_line("Kafka Connect started")

    def stop(self) -> None:
        """Stop the worker: its tasks store their offsets, and it leaves its group."""
        if self.process.is_running:
            self.process.terminate()
            assert "Kafka Connect stopped" in self.process.output, self.process.output

    @contextlib.contextmanager
    def running(self, connector: str, config: Mapping[str, str]) -> Iterator[None]:
        """Create a connector, wait until it and its task run, and delete it after the block."""
        self.call("PUT", f"/connectors/{connector}/config", config)
        self.wait_until(lambda: self.runs(connector))
        yield
        self.call("DELETE", f"/connectors/{connector}")

    def connectors(self) -> set[str]:
        return set(self.call("GET", "/connectors"))

    def runs(self, connector: str) -> bool:
        """True if the connector and its task run; a failed one fails the test."""
        status = self.call("GET", f"/connectors/{connector}/status")
        parts = [status.get("connector", {}), *status.get("tasks", [])]
        failed = [part["trace"] for part in parts if part.get("state") == "FAILED"]
        assert not failed, "\n".join(failed)
        return len(parts) > 1 and all(part.get("state") == "RUNNING" for part in parts)

    def offsets(self, connector: str) -> list[dict[str, Any]]:
        """The stored offsets of a connector, each with its partition."""
        reply: dict[str, list[dict[str, Any]]] = self.call(
            "GET", f"/connectors/{connector}/offsets"
        )
        return reply["offsets"]

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        wait_until(is_so, self.process, patience_s=PATIENCE_S)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Call the REST interface; an error fails the test, a rebalance is waited for."""
        replies: list[Any] = []

        def is_answered() -> bool:
            reply = self._request(method, path, body)
            if reply is not None:
                replies.append(reply)
            return bool(replies)

        self.wait_until(is_answered)
        return replies[0]

    def _request(self, method: str, path: str, body: Any) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(
            self._url + path, data=data, headers=headers, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=REST_TIMEOUT_S) as response:
                return json.loads(response.read() or b"{}")
        except urllib.error.HTTPError as refusal:
            text = refusal.read().decode()
            if refusal.code == CONFLICT:
                return None
            if refusal.code == NOT_FOUND and path.endswith("/status"):
                return {}  # the connector is so new that it has none yet
            raise AssertionError(f"{method} {path}: {refusal.code} {text}") from None
