"""The Java consumer as a member of a group: Kafka's own VerifiableConsumer, in a JVM of its own."""

import json
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from support.programs import require_java
from support.readers.host import END_S
from support.readers.journal import (
    ASSIGNED,
    CLOSED,
    COMMITTED,
    DIED,
    JOINED,
    READ,
    REFUSED,
    REVOKED,
    Event,
    Journal,
)
from tools.kafka_server import SMALL_JVM, java_command

TOOL = "org.apache.kafka.tools.VerifiableConsumer"
OPTIONS = ("-Xmx128m", *SMALL_JVM, "-Xshare:auto")
CLOCK_S = 0.002
"""Its clock shows milliseconds: events of it and of others are compared no closer than this."""


class JavaMember:
    def __init__(
        self,
        journal: Journal,
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
                    self._journal.tell(event)

    def _event(self, told: dict[str, Any]) -> Event | None:
        at = told["timestamp"] / 1_000 + self._offset_s
        kind = told["name"]
        if kind in ("partitions_assigned", "partitions_revoked"):
            partitions = {each["partition"]: None for each in told["partitions"]}
            what = ASSIGNED if kind == "partitions_assigned" else REVOKED
            return Event(at, self.name, what, partitions)
        if kind == "records_consumed":
            self._last_read = at
            runs = {
                each["partition"]: (each["minOffset"], each["maxOffset"])
                for each in told["partitions"]
            }
            return Event(at, self.name, READ, runs)
        if kind == "offsets_committed":
            offsets = {each["partition"]: each["offset"] for each in told["offsets"]}
            what = COMMITTED if told["success"] else REFUSED
            return Event(at, self.name, what, offsets, self._last_read, words=told.get("error", ""))
        if kind in ("startup_complete", "shutdown_complete"):
            what = JOINED if kind == "startup_complete" else CLOSED
            return Event(at, self.name, what, {})
        return None

    def kill(self) -> None:
        self._process.kill()
        self._finish()
        self._journal.tell(Event(time.monotonic(), self.name, DIED, {}))

    def end(self) -> None:
        """SIGTERM: it leaves the group."""
        self._process.terminate()
        self._finish()

    def _finish(self) -> None:
        self._process.wait(END_S)
        self._reader.join(END_S)
        if self._process.stdout is not None:
            self._process.stdout.close()
