"""A load from the Java client: Kafka's VerifiableProducer and VerifiableConsumer, which report each
record. The consumer is in a group of its own and commits after each poll."""

import json
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sawlog.simulation.history.history import (
    ACKS_ALL,
    History,
    OffsetRead,
    Outcome,
    Poll,
    Write,
)
from tools.faults.load import GUARD_S, REQUEST_MS, Load
from tools.kafka_node import SMALL_JVM, java_command

PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
OPTIONS = ("-Xmx128m", *SMALL_JVM, "-Xshare:auto")
RECORDS_PER_S = 200
REPORT_S = 1.0
"""The producer does not report when it sent a record: it counts as sent so long before the report,
so that reports of records from before a fault do not look like the end of it."""
QUICK = {"reconnect.backoff.max.ms": "100", "metadata.max.age.ms": "1000"}
PRODUCER_SETTINGS = QUICK | {
    "acks": "all",
    "retry.backoff.ms": "20",
    "request.timeout.ms": str(REQUEST_MS),
    "delivery.timeout.ms": str(int(GUARD_S * 1000)),
    # The default partitioner prefers partitions whose broker answers quickly.
    "partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner",
}


IDEMPOTENT = {"enable.idempotence": "true", "retries": str(2**31 - 1)}
PLAIN = {"enable.idempotence": "false", "retries": "0"}
"""Unlike librdkafka, the Java client sends nothing again then: no value is in the log twice."""
CONSUMER_SETTINGS = QUICK | {"fetch.max.wait.ms": "100"}
CLASSIC = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "500"}


class JavaLoad(Load):
    """The writes of the history are the acknowledged ones; the producer does not report others."""

    def __init__(
        self,
        bootstrap: str,
        partitions: int,
        directory: Path,
        *,
        topic: str,
        is_idempotent: bool = True,
        group_protocol: str = "classic",
    ) -> None:
        self._directory = directory
        self._is_idempotent = is_idempotent
        self._group_protocol = group_protocol
        self._group = f"{topic}-group"
        super().__init__(bootstrap, partitions, topic=topic)

    def _produce(self, name: str) -> None:
        settings = PRODUCER_SETTINGS | (IDEMPOTENT if self._is_idempotent else PLAIN)
        for event in self._events(PRODUCER, settings, "--throughput", str(RECORDS_PER_S)):
            self._produced(name, event)

    def _produced(self, name: str, event: dict[str, Any]) -> None:
        now = time.monotonic()
        if event["name"] == "producer_send_error" and self._is_idempotent:
            self._errors.append(f"a record of the Java producer failed: {event}")
        if event["name"] != "producer_send_success":
            return
        partition, value = int(event["partition"]), event["value"].encode()
        write = Write(name, partition, value, ACKS_ALL, self._is_idempotent, self._now_ms())
        write.outcome = Outcome.ACKNOWLEDGED
        write.offset = int(event["offset"])
        write.ended_ms = self._now_ms()
        self.history.writes.append(write)
        self._acknowledged[partition].append((now - REPORT_S, now))

    def _consume(self, name: str) -> None:
        """Each assignment is a consumer of its own in the history: it starts at the committed
        offset, which is not below one that was acknowledged before."""
        settings = CONSUMER_SETTINGS | (CLASSIC if self._group_protocol == "classic" else {})
        group = ("--group-id", self._group, "--group-protocol", self._group_protocol)
        reader = GroupReader(name, self._group, self.history)
        for event in self._events(CONSUMER, settings, *group, "--verbose"):
            reader.handle(event)

    def _events(
        self, tool: str, settings: dict[str, str], *options: str
    ) -> Iterator[dict[str, Any]]:
        """Run a tool until the load is over, and return the lines that it prints."""
        config = self._directory / f"{self.topic}-{tool.rpartition('.')[2]}.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        place = ("--bootstrap-server", self._bootstrap, "--topic", self.topic)
        how = (*options, "--command-config", str(config))
        command = java_command(tool, *place, *how, options=OPTIONS, log_level="off")
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdout is not None
            ending = threading.Thread(target=self._end, args=(process,), daemon=True)
            ending.start()
            for line in process.stdout:
                if line.startswith(b"{"):
                    yield json.loads(line)
            ending.join()

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        """Terminate the tool at the end of the load: it sends or commits what it has first."""
        self._is_over.wait()
        process.terminate()

    def check(self) -> None:
        assert self.history.committed, "the Java consumer has committed nothing"
        super().check()


class GroupReader:
    """Turns the lines of a VerifiableConsumer into polls, commits and reads of offsets."""

    def __init__(self, name: str, group: str, history: History) -> None:
        self._name = name
        self._group = group
        self._history = history
        self._records: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
        self._assignments = 0
        self._consumers: dict[int, str] = {}
        """By partition: the name of the consumer in the history."""
        self._at_least: dict[int, int] = {}
        """By partition whose first record after its assignment is awaited: its acknowledged
        commit at that time."""

    def handle(self, event: dict[str, Any]) -> None:
        name = event["name"]
        if name == "partitions_assigned":
            self._assigned([each["partition"] for each in event["partitions"]])
        elif name == "record_data":
            record = (event["offset"], event["value"].encode())
            self._records[event["partition"]].append(record)
        elif name == "records_consumed":
            self._polled()
        elif name == "offsets_committed" and event["success"]:
            for each in event["offsets"]:
                key = (self._group, each["partition"])
                known = self._history.committed.get(key, -1)
                self._history.committed[key] = max(known, each["offset"])

    def _assigned(self, partitions: list[int]) -> None:
        self._assignments += 1
        for partition in partitions:
            self._consumers[partition] = f"{self._name}/{self._assignments}"
            known = self._history.committed.get((self._group, partition), -1)
            self._at_least[partition] = known

    def _polled(self) -> None:
        records, self._records = self._records, defaultdict(list)
        for partition, found in records.items():
            consumer, first = self._consumers[partition], found[0][0]
            if partition in self._at_least:
                at_least = self._at_least.pop(partition)
                self._history.offset_reads.append(OffsetRead(consumer, partition, first, at_least))
            poll = Poll(consumer, partition, first, tuple(found), self._group)
            self._history.polls.append(poll)
