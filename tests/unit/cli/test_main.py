"""The command line as a whole: help, one line per error, exit codes, nothing imported in vain."""

import subprocess
import sys

import pytest

from sawlog import __version__
from sawlog.cli.commands import run


def test_help_names_every_command_and_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    for word in ("broker", "consume", "log", "produce", "topics", "Exit codes"):
        assert word in shown


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"sawlog {__version__}\n"


@pytest.mark.parametrize("command", ["broker", "consume", "log", "produce", "topics"])
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
        (["consume", "a", "--show", "x"], "'x' is none of topic, partition"),
        (["produce", "a", "--json", "--key", "k"], "--json lines have their own keys"),
        (["produce", "a", "-k", ":", "--key", "k"], "not both"),
        (["produce", "a", "-H", "x"], "--header x: expected NAME=VALUE"),
        (["log", "verify", "/dev/null"], "holds no segments"),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_code_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert words in shown.err
    assert shown.err.count("\n") == 1
    assert shown.err.endswith("--help\n")


def test_no_broker_is_one_line_and_exit_code_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topics", "list", "-b", "127.0.0.1:1"]) == 3
    shown = capsys.readouterr()
    assert "no broker can be reached: cannot connect to 127.0.0.1:1" in shown.err
    assert shown.err.count("\n") == 1


def test_help_imports_no_command() -> None:
    """A broker must start in no time: whatever the group imports, it pays for."""
    program = (
        "import sys; from sawlog.cli.commands import run; run(['--help']);"
        "print(*sorted(name for name in sys.modules if name.startswith(('sawlog.', 'rich'))))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout.splitlines()[-1].split() == [
        "sawlog.cli",
        "sawlog.cli.commands",
        "sawlog.cli.streams",
    ]
