"""A run that is stopped during its start reports the stop, and no errors of Spark."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from support.pipeline.tables import land, new_table
from support.process import wait_until
from support.programs import require_java

pytestmark = [pytest.mark.long, pytest.mark.spark]

TABLES = """\
brokers: 127.0.0.1:1
lake: ./lake
tables:
  t: {topic: a}
  q: {sql: SELECT * FROM t, every: 100ms}
"""
EXPECTED = ("starting Spark ...", "sawlog: stopping", "t: no broker can be reached")


class PipelineProcess:
    """`sawlog pipeline run` in a process group of its own, as a terminal or systemd starts it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        table = new_table(directory / "lake" / "t")
        land(table, 0, 0, 10)
        file = directory / "p.yaml"
        file.write_text(TABLES)
        self._stderr = directory / "stderr"
        self._stdout = directory / "stdout"
        with self._stdout.open("w") as stdout, self._stderr.open("w") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "sawlog.cli.main", "pipeline", "run", str(file)],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )

    @property
    def stderr(self) -> str:
        return self._stderr.read_text()

    @property
    def printed(self) -> str:
        return self._stdout.read_text()

    def has_a_jvm(self) -> bool:
        for process in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if "java" in process.name():
                    return True
        return False

    def has_a_gateway(self) -> bool:
        """Whether the driver has called its JVM."""
        return bool(psutil.Process(self.process.pid).net_connections("tcp"))

    def has_a_query(self) -> bool:
        return (self.directory / "lake" / "_checkpoints" / "q").exists()


MOMENTS: dict[str, Callable[[PipelineProcess], bool]] = {
    "jvm": PipelineProcess.has_a_jvm,
    "gateway": PipelineProcess.has_a_gateway,
    "looking for brokers": lambda run: "waiting for the brokers" in run.stderr,
    "query": PipelineProcess.has_a_query,
}


OTHER_MOMENTS = [
    (signal.SIGTERM, "gateway"),
    (signal.SIGTERM, "looking for brokers"),
    (signal.SIGINT, "looking for brokers"),
]


@pytest.mark.parametrize(
    ("sign", "moment"),
    [
        (signal.SIGTERM, "jvm"),  # which ends the JVM too
        (signal.SIGTERM, "query"),
        (signal.SIGINT, "gateway"),
        *(pytest.param(*each, marks=pytest.mark.soak) for each in OTHER_MOMENTS),
    ],
)
def test_a_run_that_is_stopped_during_its_start_reports_only_the_stop(
    tmp_path: Path, sign: signal.Signals, moment: str
) -> None:
    require_java()
    run = PipelineProcess(tmp_path)
    try:
        wait_until(lambda: MOMENTS[moment](run) or run.process.poll() is not None)
        assert run.process.poll() is None, run.stderr
        os.killpg(run.process.pid, sign)
        run.process.wait(120)
    finally:
        if run.process.poll() is None:
            os.killpg(run.process.pid, signal.SIGKILL)
            run.process.wait()
    unexpected = [
        line for line in run.stderr.splitlines() if line and not line.startswith(EXPECTED)
    ]
    assert unexpected == []
    assert run.printed == ""
    assert run.process.returncode in (0, 130, -sign)
