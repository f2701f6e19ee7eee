"""The Java consumer as a group member: Kafka's VerifiableConsumer in a JVM of its own."""

import json
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from support.group_consumers.consumer_process import END_S
from support.group_consumers.event_journal import (
    ASSIGNED,
    CLOSED,
    COMMITTED,
    DIED,
    JOINED,
    READ,
    REFUSED,
    REVOKED,
    Event,
    EventJournal,
)
from support.programs import require_java
from tools.kafka_node import SMALL_JVM, java_command

TOOL = "org.apache.kafka.tools.VerifiableConsumer"
OPTIONS = ("-Xmx128m", *SMALL_JVM, "-Xshare:auto")
CLOCK_S = 0.002
"""The tolerance in comparisons with other members: its timestamps are in milliseconds."""


class JavaConsumer:
    """One VerifiableConsumer; its events go to the journal."""

    def __init__(
        self,
        journal: EventJournal,
        bootstrap: str,
        group: str,
        topic: str,
        name: str,
        directory: Path,
        protocol: str = "classic",
    ) -> None:
        self.name = name
        self._journal = journal
        self._offset_s = time.monotonic() - time.time()
        self._last_read = 0.0
        config = directory / f"{name}.properties"
        classic = "session.timeout.ms=6000\nheartbeat.interval.ms=500\n"
        common = f"client.id={name}\nreconnect.backoff.max.ms=200\nfetch.max.wait.ms=100\n"
        config.write_text(common + (classic if protocol == "classic" else ""))
        place = ["--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group]
        how = ["--group-protocol", protocol, "--command-config", str(config)]
        require_java()
        self._process = subprocess.Popen(
            java_command(TOOL, *place, *how, options=OPTIONS, log_level="error"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{") and line.endswith("}\n"):
                event = self._event(json.loads(line))
                if event is not None:
                    self._journal.record(event)

    def _event(self, line: dict[str, Any]) -> Event | None:
        at = line["timestamp"] / 1_000 + self._offset_s
        name = line["name"]
        if name in ("partitions_assigned", "partitions_revoked"):
            partitions = {each["partition"]: None for each in line["partitions"]}
            kind = ASSIGNED if name == "partitions_assigned" else REVOKED
            return Event(at, self.name, kind, partitions)
        if name == "records_consumed":
            self._last_read = at
            runs = {
                each["partition"]: (each["minOffset"], each["maxOffset"])
                for each in line["partitions"]
            }
            return Event(at, self.name, READ, runs)
        if name == "offsets_committed":
            offsets = {each["partition"]: each["offset"] for each in line["offsets"]}
            kind = COMMITTED if line["success"] else REFUSED
            return Event(
                at, self.name, kind, offsets, self._last_read, message=line.get("error", "")
            )
        if name in ("startup_complete", "shutdown_complete"):
            kind = JOINED if name == "startup_complete" else CLOSED
            return Event(at, self.name, kind, {})
        return None

    def kill(self) -> None:
        self._process.kill()
        self._finish()
        self._journal.record(Event(time.monotonic(), self.name, DIED, {}))

    def stop(self) -> None:
        """Send SIGTERM: the consumer leaves the group."""
        self._process.terminate()
        self._finish()

    def _finish(self) -> None:
        self._process.wait(END_S)
        self._reader.join(END_S)
        if self._process.stdout is not None:
            self._process.stdout.close()
