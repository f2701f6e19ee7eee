"""`sawlog pipeline` prints results on stdout and events on stderr."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.pipeline.landing import create_topic, pipeline_file, send
from support.programs import require_java
from support.server.broker_process import SawlogServer

pytestmark = [pytest.mark.long, pytest.mark.spark]


def pipeline(*arguments: str) -> tuple[str, str]:
    """The stdout and stderr of a command that must succeed."""
    command = [sys.executable, "-m", "sawlog.cli.main", "pipeline", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.fixture
def file(broker: SawlogServer, topic: str, tmp_path: Path) -> str:
    """A pipeline that lands a topic of three records, each in a version of its own."""
    require_java()
    create_topic(broker.bootstrap, topic, 1)
    send(broker.bootstrap, topic, [b"a", b"b", b"c"])
    tables = f"  t: {{topic: {topic}, commit: {{rows: 1}}}}\n"
    return str(pipeline_file(tmp_path, broker.bootstrap, tables))


def test_results_are_on_stdout_and_events_on_stderr(file: str, topic: str) -> None:
    assert pipeline("check", file) == (f"t: will be created from 1 partition of {topic!r}\n", "")
    out, err = pipeline("run", file, "--once")
    assert out == ""
    assert err.startswith("starting Spark ...\n")
    assert "t v3: 1 rows" in err
    out, err = pipeline("status", file, "--json")
    assert [(entry["rows"], entry["state"]) for entry in json.loads(out)] == [(3, "ready")]
    assert err == ""


@pytest.mark.soak
def test_compact_and_replay_report_on_stdout(file: str) -> None:
    pipeline("run", file, "--once")
    out, err = pipeline("compact", file)
    assert out.splitlines() == [
        "t, dead letters: nothing to merge",
        "t: 3 files became 1",
    ]
    assert err.startswith("starting Spark ...\n")
    out, err = pipeline("replay", "t", "--from", "1", "-f", file)
    assert out == "t: restored to 0:1\n"
    assert "starting Spark ...\n" in err
    assert "1 rows" in err
