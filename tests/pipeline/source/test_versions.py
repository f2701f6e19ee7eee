"""The oldest supported PySpark, in its own environment."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.pipeline.topics import making
from support.programs import require, unavailable
from support.server.broker_process import running_sawlog
from support.sources import ROOT

pytestmark = [pytest.mark.soak, pytest.mark.spark]

VERSION = "4.2.0"
JOB = Path(__file__).parents[2] / "support" / "pipeline" / "spark_job.py"
INSTALL_S = 1_200
RUN_S = 400


def python_with_pyspark(version: str) -> Path:
    """Created once and kept; an incomplete environment is created again."""
    directory = ROOT / ".cache" / f"pyspark-{version}-py{sys.version_info.minor}"
    python, ready = directory / "bin" / "python", directory / "ready"
    if ready.exists():
        return python
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    constraints = directory / "constraints.txt"
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(directory)], check=True)
    constraints.write_text("\n".join(pin for pin in pins if not pin.startswith("pyspark==")))
    install = [str(python), "-m", "pip", "install", "-q", "-c", str(constraints)]
    made = subprocess.run(
        [*install, f"pyspark=={version}", "-e", f"{ROOT}[spark]"],
        capture_output=True,
        text=True,
        timeout=INSTALL_S,
    )
    if made.returncode:
        unavailable(f"pyspark {version} cannot be installed: {made.stderr[-500:]}")
    ready.touch()
    return python


def test_the_oldest_pyspark_reads_streams_and_writes(tmp_path: Path, topic: str) -> None:
    require("java")
    python = python_with_pyspark(VERSION)
    with running_sawlog(tmp_path / "broker") as broker, making(broker.bootstrap) as topics:
        for name in (topic, f"{topic}-2", f"{topic}-3"):
            topics.create(name)
        topics.write(topic, 100)
        command = [str(python), str(JOB), "roundtrip", "--brokers", broker.bootstrap]
        command += ["--topic", topic, "--out", str(tmp_path), "--limit", "40"]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S)
        assert ran.returncode == 0, ran.stderr[-5_000:]
        assert json.loads(ran.stdout.splitlines()[-1]) == {
            "version": VERSION,
            "batches": [40, 40, 20],
        }
        assert topics.bounds(f"{topic}-2") == topics.bounds(f"{topic}-3") == (0, 100)
