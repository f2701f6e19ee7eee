"""`sawlog broker` as a child process that tests start, stop, kill and restart."""

import contextlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from support.process import KEEP_OLD_RECORDS, ServerProcess
from tools.kafka_node import free_port

NODE_ID = 1
READY = r"\bready\b.*?\b(?P<host>\d+\.\d+\.\d+\.\d+):(?P<port>\d+)"


class SawlogServer:
    """One broker on loopback. `restart` keeps its port and data."""

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        node_id: int = NODE_ID,
        *,
        is_started: bool = True,
    ) -> None:
        self.node_id = node_id
        self.data = directory / "data"
        self.host = "127.0.0.1"
        self.port = free_port()
        self.settings = KEEP_OLD_RECORDS | dict(settings or {})
        directory.mkdir(parents=True, exist_ok=True)
        if is_started:
            self.start()

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    def start(self) -> None:
        """Start the broker and wait until it is ready."""
        self.launch()
        ready = self.process.wait_for_line(READY)
        self.port = int(ready["port"])

    def launch(self) -> None:
        """Start the process without waiting until it is ready."""
        command = [sys.executable, "-m", "sawlog.cli.main", "broker"]
        command += ["--data", str(self.data), "--listen", self.bootstrap]
        command += ["--node-id", str(self.node_id)]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        self.process = ServerProcess(command)

    def stop(self) -> None:
        """Send SIGTERM and expect exit code 0."""
        if self.process.is_running:
            code = self.process.terminate()
            assert code == 0, f"sawlog broker ended with {code}:\n{self.process.output}"

    def kill(self) -> None:
        """Send SIGKILL."""
        self.process.kill()

    def restart(self) -> None:
        self.stop()
        self.start()


@contextlib.contextmanager
def running_sawlog(
    directory: Path, settings: Mapping[str, str] | None = None
) -> Iterator[SawlogServer]:
    """Run a broker during a `with` block; kill it if the block fails."""
    server = SawlogServer(directory, settings)
    try:
        yield server
    except BaseException:
        server.kill()
        raise
    server.stop()
