"""`sawlog broker` as a process: output, failed starts, stop."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from sawlog import __version__
from sawlog.client import Admin, NewTopic
from sawlog.client.admin.configs import Resource
from sawlog.core.config_api import ResourceType
from support.process import ServerProcess
from support.server.broker_process import NODE_ID, SawlogServer, running_sawlog

MARKER = ".kafka_cleanshutdown"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SawlogServer]:
    server = SawlogServer(tmp_path)
    yield server
    server.stop()


def failed_start(*options: str) -> subprocess.CompletedProcess[str]:
    """Run a broker that must not start."""
    command = [sys.executable, "-m", "sawlog.cli.main", "broker", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0, done
    assert "Traceback" not in done.stderr
    return done


def test_a_clean_stop_leaves_a_marker_for_the_next_start(tmp_path: Path) -> None:
    server = SawlogServer(tmp_path)
    server.stop()
    assert (server.data / MARKER).exists()
    server.start()
    assert not (server.data / MARKER).exists()
    server.stop()


def test_a_killed_broker_leaves_no_marker_and_starts_again(tmp_path: Path) -> None:
    server = SawlogServer(tmp_path)
    server.kill()
    assert not (server.data / MARKER).exists()
    server.start()
    server.stop()


def test_the_ready_line_has_the_address_and_the_start_time(server: SawlogServer) -> None:
    line = server.process.output
    assert re.search(r"sawlog broker 1 ready on 127\.0\.0\.1:\d+ in \d+\.\d\d s", line), line


@pytest.mark.parametrize("rack", [None, "eu-1a"])
def test_metadata_has_the_configured_rack_or_null(tmp_path: Path, rack: str | None) -> None:
    settings = {"broker.rack": rack} if rack else None
    with running_sawlog(tmp_path, settings) as server, Admin(server.bootstrap) as admin:
        (node,) = admin.describe_cluster().nodes
    assert node.rack == rack


def started(tmp_path: Path, *options: str) -> ServerProcess:
    """Start a broker on a free port and wait until it is ready."""
    command = [sys.executable, "-m", "sawlog", "broker", "--data", str(tmp_path / "data")]
    process = ServerProcess([*command, *options])
    process.wait_for_line("ready")
    return process


def test_the_ready_line_is_json_with_json_logs(tmp_path: Path) -> None:
    process = started(tmp_path, "--listen", "127.0.0.1:0", "--log-format", "json")
    lines = [json.loads(line) for line in process.lines]
    (ready,) = [line for line in lines if line["event"] == "ready"]
    assert {"time", "level", "logger"} <= set(ready), "as every other line"
    assert ready["data"] == str(tmp_path / "data")
    assert ready["advertised"] == ready["listen"]
    assert ready["version"] == __version__
    assert process.terminate() == 0


def test_the_ready_line_shows_recovery_after_a_kill(tmp_path: Path) -> None:
    with running_sawlog(tmp_path) as server:
        assert "unclean" not in server.process.output
        with Admin(server.bootstrap) as admin:
            assert admin.create_topics([NewTopic("logs", partitions=3)]) == {}
        server.kill()
        server.start()
        (ready,) = [line for line in server.process.lines if "ready on" in line]
        assert "3 partitions, 3 partitions recovered after an unclean stop in" in ready
        assert "logs recovered after an unclean stop" in server.process.output


@pytest.mark.parametrize(("host", "warns"), [("0.0.0.0", True), ("127.0.0.1", False)])
def test_listening_on_all_interfaces_warns_about_the_advertised_address(
    tmp_path: Path, host: str, warns: bool
) -> None:
    process = started(tmp_path, "--listen", f"{host}:0")
    warnings = [
        line for line in process.lines if "listens on all interfaces without authentication" in line
    ]
    assert bool(warnings) == warns
    if warns:
        assert f"advertised={socket.gethostname()}:" in warnings[0]
    assert process.terminate() == 0


def test_a_broker_describes_the_values_that_are_in_force(tmp_path: Path) -> None:
    with running_sawlog(tmp_path) as server, Admin(server.bootstrap) as admin:
        resource = Resource(ResourceType.BROKER, str(NODE_ID))
        entries = admin.describe_configs([resource])[resource]
    values = {entry.name: entry.value for entry in entries}
    where = f"PLAINTEXT://{server.bootstrap}"
    assert values["listeners"] == values["advertised.listeners"] == where
    assert values["log.dirs"] == str(server.data)
    assert values["broker.id"] == values["node.id"] == str(NODE_ID)


def test_free_disk_space_is_a_metric(tmp_path: Path) -> None:
    process = started(tmp_path, "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
    where = process.wait_for_line(r"metrics on (?P<address>\S+?)\)")["address"]
    with urlopen(f"http://{where}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    metrics = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    size = float(metrics["sawlog_data_directory_size_bytes"])
    assert 0 < float(metrics["sawlog_data_directory_free_bytes"]) <= size
    assert metrics["sawlog_refused_writes_total"] == "0"
    assert process.terminate() == 0


def test_a_second_broker_on_the_same_data_does_not_start(server: SawlogServer) -> None:
    done = failed_start("--data", str(server.data), "--listen", "127.0.0.1:0")
    assert "another broker is running on this data directory" in done.stderr


def test_a_broker_on_a_port_in_use_does_not_start(server: SawlogServer, tmp_path: Path) -> None:
    done = failed_start("--data", str(tmp_path / "other"), "--listen", server.bootstrap)
    assert "in use" in done.stderr


def test_a_broker_with_another_node_id_does_not_start(tmp_path: Path) -> None:
    server = SawlogServer(tmp_path)
    server.stop()
    done = failed_start("--data", str(server.data), "--listen", "127.0.0.1:0", "--node-id", "2")
    assert "belongs to node 1" in done.stderr


@pytest.mark.parametrize("with_owner", [True, False])
def test_a_broker_does_not_start_on_logs_without_their_store(
    tmp_path: Path, with_owner: bool
) -> None:
    server = SawlogServer(tmp_path)
    server.stop()
    (server.data / "orders-0").mkdir()
    for journal in server.data.glob("store.*"):
        journal.unlink()
    if not with_owner:
        (server.data / "meta.properties").unlink()
    before = sorted(path.name for path in server.data.iterdir())
    done = failed_start("--data", str(server.data), "--listen", "127.0.0.1:0")
    assert "its coordination store is missing" in done.stderr
    assert sorted(path.name for path in server.data.iterdir()) == before


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("no.such.setting=1", "no.such.setting"),
        ("log.segment.bytes=many", "log.segment.bytes"),
        ("flush.policy=sometimes", "commit"),
        ("nonsense", "KEY=VALUE"),
    ],
)
def test_a_broker_with_an_invalid_setting_does_not_start(
    tmp_path: Path, setting: str, expected: str
) -> None:
    done = failed_start("--data", str(tmp_path), "--listen", "127.0.0.1:0", "--set", setting)
    assert done.returncode == 2
    assert expected in done.stderr


def test_a_second_signal_ends_the_broker_at_once(tmp_path: Path) -> None:
    """The process ends, whether or not the clean stop is finished by then."""
    server = SawlogServer(tmp_path)
    os.kill(server.process.pid, signal.SIGTERM)
    os.kill(server.process.pid, signal.SIGTERM)
    assert server.process.wait() in (0, 128 + signal.SIGTERM)


def test_open_connections_do_not_delay_a_stop(server: SawlogServer) -> None:
    with socket.create_connection((server.host, server.port)) as connected:
        connected.sendall((1000).to_bytes(4, "big") + b"the beginning of a frame")
        server.stop()
