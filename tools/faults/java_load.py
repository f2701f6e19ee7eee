"""A load from the Java client: Kafka's VerifiableProducer, which reports each record."""

import json
import subprocess
import time
from pathlib import Path

from sawlog.simulation.history.history import ACKS_ALL, Outcome, Write
from tools.faults.load import GUARD_S, REQUEST_MS, Load
from tools.kafka_node import SMALL_JVM, java_command

TOOL = "org.apache.kafka.tools.VerifiableProducer"
OPTIONS = ("-Xmx128m", *SMALL_JVM, "-Xshare:auto")
RECORDS_PER_S = 200
SETTINGS = {
    "acks": "all",
    "enable.idempotence": "true",
    "retries": str(2**31 - 1),
    "retry.backoff.ms": "20",
    "reconnect.backoff.max.ms": "100",
    "request.timeout.ms": str(REQUEST_MS),
    "delivery.timeout.ms": str(int(GUARD_S * 1000)),
    "metadata.max.age.ms": "1000",
    # The default partitioner prefers partitions whose broker answers quickly.
    "partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner",
}


class JavaLoad(Load):
    """The writes of the history are the acknowledged ones; the tool does not report others."""

    def __init__(self, bootstrap: str, partitions: int, directory: Path, *, topic: str) -> None:
        self._config = directory / f"{topic}.properties"
        self._config.write_text("".join(f"{key}={value}\n" for key, value in SETTINGS.items()))
        super().__init__(bootstrap, partitions, topic=topic)

    def _produce(self, name: str) -> None:
        place = ("--bootstrap-server", self._bootstrap, "--topic", self.topic)
        how = ("--command-config", str(self._config), "--throughput", str(RECORDS_PER_S))
        command = java_command(TOOL, *place, *how, options=OPTIONS, log_level="off")
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as tool:
            assert tool.stdout is not None
            is_stopped = False
            for line in tool.stdout:
                if line.startswith(b"{"):
                    self._report(name, json.loads(line))
                if self._is_over.is_set() and not is_stopped:
                    is_stopped = True
                    tool.terminate()  # it sends what it has, and ends

    def _report(self, name: str, event: dict[str, str]) -> None:
        now = time.monotonic()
        if event["name"] == "producer_send_error":
            self._errors.append(f"a record of the Java producer failed: {event}")
        if event["name"] != "producer_send_success":
            return
        partition, value = int(event["partition"]), event["value"].encode()
        write = Write(name, partition, value, ACKS_ALL, True, self._now_ms())
        write.outcome = Outcome.ACKNOWLEDGED
        write.offset = int(event["offset"])
        write.ended_ms = self._now_ms()
        self.history.writes.append(write)
        self._acknowledged[partition].append((now, now))
