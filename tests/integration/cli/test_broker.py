"""Options of `sawlog broker`: addresses, node id, error messages."""

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.process import ServerProcess

READY = r"sawlog broker (?P<node>\d+) ready on (?P<address>\S+) in"
TIMEOUT_S = 60


@pytest.fixture
def used_address() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def command(data: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "sawlog.cli.main", "broker", "--data", str(data), *options]


@contextlib.contextmanager
def broker(data: Path, *options: str) -> Iterator[tuple[str, str, ServerProcess]]:
    """Run a broker; yield the node id and address of its ready line, and the process."""
    process = ServerProcess(command(data, *options))
    ready = process.wait_for_line(READY)
    yield ready["node"], ready["address"], process
    assert process.terminate() == 0


def refused(data: Path, *options: str) -> str:
    ended = subprocess.run(
        command(data, *options), capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert ended.returncode == 1, ended
    assert ended.stderr.count("\n") == 1
    return ended.stderr


def options_with(option: str, address: str) -> list[str]:
    """Return the option, and a free --listen if the option is --metrics."""
    others = [] if option == "--listen" else ["--listen", "127.0.0.1:0"]
    return [option, address, *others]


def test_plaintext_listener_is_opened_and_others_are_logged(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text(
        "listeners=PLAINTEXT://localhost:0,CONTROLLER://:9093\n"
        "controller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
    )
    with broker(tmp_path / "data", "--config", str(config)) as (_, address, process):
        assert address.startswith("localhost:")
        assert "CONTROLLER://:9093 is not opened" in process.output


def test_listen_overrides_the_setting_listeners(tmp_path: Path, used_address: str) -> None:
    options = ("--set", f"listeners=PLAINTEXT://{used_address}", "--listen", "127.0.0.1:0")
    with broker(tmp_path / "data", *options) as (_, address, _process):
        assert address != used_address


def test_data_directory_keeps_its_node_id(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with broker(data, "--listen", "127.0.0.1:0", "--node-id", "5") as (node, _, _process):
        assert node == "5"
    with broker(data, "--listen", "127.0.0.1:0") as (node, _, _process):
        assert node == "5"
    assert "belongs to node 5" in refused(data, "--listen", "127.0.0.1:0", "--node-id", "6")


@pytest.mark.parametrize(
    ("option", "words"),
    [("--listen", "cannot listen on"), ("--metrics", "cannot serve metrics on")],
)
def test_error_for_a_used_address_names_the_option(
    tmp_path: Path, used_address: str, option: str, words: str
) -> None:
    shown = refused(tmp_path / "data", *options_with(option, used_address))
    assert f"{words} {used_address} ({option}" in shown
    assert "in use" in shown


@pytest.mark.parametrize("option", ["--listen", "--metrics"])
@pytest.mark.parametrize("name", ["data", "new/parent/data"])
def test_used_address_leaves_no_directory_behind(
    tmp_path: Path, used_address: str, option: str, name: str
) -> None:
    refused(tmp_path / name, *options_with(option, used_address))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--listen", "--metrics"])
def test_used_address_leaves_the_directory_unchanged(
    tmp_path: Path, used_address: str, option: str
) -> None:
    refused(tmp_path, *options_with(option, used_address))
    assert list(tmp_path.iterdir()) == []


def test_error_names_an_unusable_data_directory(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / ".lock").mkdir(parents=True)
    assert str(data) in refused(data, "--listen", "127.0.0.1:0")
