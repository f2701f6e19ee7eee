"""The command line: help, one-line errors, exit codes, lazy imports."""

import subprocess
import sys
from pathlib import Path

import pytest

from sawlog import __version__
from sawlog.cli.commands import run

COMMANDS = ("broker", "configs", "consume", "disk", "groups", "log", "produce", "topics")


def test_help_lists_commands_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    for word in (
        "broker",
        "configs",
        "consume",
        "groups",
        "log",
        "produce",
        "topics",
        "Exit codes",
    ):
        assert word in shown


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"sawlog {__version__}\n"


def test_package_runs_as_a_module() -> None:
    ended = subprocess.run([sys.executable, "-m", "sawlog", "--version"], capture_output=True)
    assert (ended.returncode, ended.stdout) == (0, f"sawlog {__version__}\n".encode())


def test_help_of_consume_explains_negative_starts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["consume", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "a number of records before the end of each partition (-5)" in shown


@pytest.mark.parametrize(
    "command", ["broker", "configs", "consume", "groups", "log", "produce", "topics"]
)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "--help"]) == 0
    assert f"sawlog {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nope"], "No such command 'nope'"),
        (["topics", "list", "--nope"], "No such option '--nope'"),
        (["topics", "create"], "Missing argument 'NAME...'"),
        (["topics", "create", "a", "--config", "x"], "--config x: expected KEY=VALUE"),
        (["topics", "list", "-b", "a:b"], "'a:b' has no port"),
        (["topics", "alter", "a"], "nothing to alter"),
        (["consume", "a", "--show", "x"], "'x' is not one of topic, partition"),
        (["produce", "a", "--json", "--key", "k"], "--json lines contain keys"),
        (["produce", "a", "-k", ":", "--key", "k"], "not both"),
        (["produce", "a", "-H", "x"], "--header x: expected NAME=VALUE"),
        (["produce", "a", "-k", ""], "--key-separator is empty"),
        (["log", "verify", "/dev/null"], "has no segments"),
        (["topics", "create", "a", "--replicas", "70000"], "an integer from 1 to 32767"),
        (["topics", "create", "a", "-p", "99999999999999"], "an integer from 1"),
        (["topics", "alter", "a", "-p", "99999999999999"], "an integer from 1"),
        (["topics", "list", "--timeout", "1e300"], "not in the range"),
        (["topics", "list", "--timeout", "inf"], "not in the range"),
        (["topics", "list", "--timeout", "nan"], "not a number of seconds"),
        (["topics", "list", "-b", "http://localhost:9092"], "without a scheme"),
        (["broker", "--data", ""], "the value is empty"),
        (["broker", "--data", __file__], "is a file"),
        (["broker", "--data", "x", "--advertise", "foo:0"], "can connect to"),
        (["broker", "--data", "x", "--advertise", "*:9092"], "can connect to"),
        (["broker", "--data", "x", "--set", "listeners=garbage"], "--set: listeners=garbage"),
        (["broker", "--data", "x", "--set", "listeners="], "expected PLAINTEXT://"),
        (["broker", "--data", "x", "--set", "listeners=SSL://a:1"], "SSL is not supported yet"),
        (["broker", "--data", "x", "--set", "advertised.listeners=PLAINTEXT://:1"], "connect to"),
        (["broker", "--data", "x", "--set", "sasl.jaas.config=x"], "not supported yet"),
        (["broker", "--data", "x", "--set", "node.id=x"], "Not a number"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert words in shown.err
    assert shown.err.count("\n") == 1
    assert shown.err.endswith("--help\n")


@pytest.mark.parametrize(
    ("repeated", "words"),
    [
        (["--listen", "192.0.2.1:2"], "--listen is given 2 times; expected once: a broker has one"),
        (["--data", "y"], "--data is given 2 times; expected once"),
        (["--advertise", "a:1"] * 2, "--advertise is given 2 times; expected once"),
        (["--metrics", ":0"] * 3, "--metrics is given 3 times; expected once"),
        (["--node-id", "1"] * 2, "--node-id is given 2 times; expected once"),
    ],
)
def test_broker_refuses_repeated_options(
    repeated: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["broker", "--data", "x", "--listen", "192.0.2.1:1", *repeated]) == 2
    assert words in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


NOT_UTF8 = "a\udcff"


@pytest.mark.parametrize(
    "arguments",
    [
        ["topics", "create", NOT_UTF8],
        ["topics", "create", "a", "--config", f"x={NOT_UTF8}"],
        ["topics", "alter", "a", "--reset", NOT_UTF8],
        ["topics", "list", "-b", NOT_UTF8],
        ["produce", NOT_UTF8],
        ["produce", "a", "-H", f"x={NOT_UTF8}"],
        ["consume", NOT_UTF8],
        ["groups", "describe", NOT_UTF8],
        ["groups", "reset", "g", "--topic", NOT_UTF8, "--to-latest"],
        ["broker", "--data", "x", "--listen", f"{NOT_UTF8}:1"],
        ["broker", "--data", "x", "--set", f"x={NOT_UTF8}"],
    ],
)
def test_arguments_that_are_not_utf8_are_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    shown = capsys.readouterr().err
    assert r"a\xff" in shown
    assert "is not UTF-8 text" in shown


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a=\xff", "line 1: not UTF-8 text"),
        (b"# a comment\nlog.segmnt.bytes=1", "line 2: log.segmnt.bytes=1"),
        (b"zookeeper.set.acl=true", "line 1: zookeeper.set.acl=true: Kafka removed this setting"),
        (b"zookeeper.connect=a:b", "line 1: zookeeper.connect='a:b': expected HOST:PORT"),
        (b"zookeeper.connect=a:1/b//c", "line 1: zookeeper.connect='a:1/b//c': '/b//c' is not"),
        (
            b"zookeeper.connect=a\nzookeeper.digest.credentials=secret",
            "line 2: zookeeper.digest.credentials: expected user:password",
        ),
    ],
)
def test_errors_of_a_properties_file_have_their_line(
    content: bytes, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes(content)
    assert run(["broker", "--data", str(tmp_path / "data"), "--config", str(path)]) == 2
    assert f"{path} {words}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("redirection", "code", "words"),
    [
        ("--version >&-", 1, "standard output: Bad file descriptor"),
        ("--version >/dev/full", 1, "standard output: No space left on device"),
        ("--help | true", 0, ""),
    ],
)
def test_closed_or_full_output_shows_no_traceback(redirection: str, code: int, words: str) -> None:
    script = f"set -o pipefail; {sys.executable} -m sawlog.cli.main {redirection}"
    ended = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, words in ended.stderr) == (code, True)
    assert ended.stderr.count("\n") == (1 if words else 0)


def test_unreachable_broker_is_one_line_and_exit_code_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topics", "list", "-b", "127.0.0.1:1"]) == 3
    shown = capsys.readouterr()
    assert "no broker can be reached: cannot connect to 127.0.0.1:1" in shown.err
    assert shown.err.count("\n") == 1


def test_help_imports_no_commands() -> None:
    """Imports of the command group delay the start of every broker."""
    program = (
        "import sys; from sawlog.cli.commands import run; run(['--help']);"
        "print(*sorted(name for name in sys.modules if name.startswith(('sawlog.', 'rich'))))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout.splitlines()[-1].split() == [
        "sawlog.cli",
        "sawlog.cli.commands",
        "sawlog.cli.exit_codes",
        "sawlog.cli.standard_streams",
    ]
