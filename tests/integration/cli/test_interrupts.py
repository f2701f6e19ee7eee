"""Ctrl-C at any moment of a command: no traceback, and the exit code of an interrupt.

Not covered: the start of the interpreter, and the imports of the installed script.
"""

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

TIMEOUT_S = 60
KILLED = -signal.SIGINT  # a shell reports 130
INTERRUPTED = 130


def python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )


AT_AN_IMPORT = """
    import os, runpy, signal, sys

    class Interrupting:
        @staticmethod
        def find_spec(name, *_):
            if name == sys.argv[1]:
                os.kill(os.getpid(), signal.SIGINT)

    sys.meta_path.insert(0, Interrupting)
    sys.argv[1:] = ARGUMENTS
    runpy.run_module("sawlog", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("sawlog.cli", ["--help"]),
        ("sawlog.cli.main", ["--help"]),
        ("sawlog.cli.standard_streams", ["--help"]),
        ("click", ["--help"]),
        ("sawlog.cli.broker", ["broker", "--help"]),
        ("uvloop", ["broker", "--help"]),
        ("sawlog.client.admin.admin", ["topics", "--help"]),
    ],
)
def test_an_interrupt_during_an_import_shows_no_traceback(module: str, command: list[str]) -> None:
    program = AT_AN_IMPORT.replace("ARGUMENTS", repr(command)).replace("sys.argv[1]", repr(module))
    ended = python(program)
    assert (ended.returncode, ended.stderr) == (KILLED, "")


AT_A_LINE = """
    import os, signal, sys

    left = int(sys.argv[1])
    has_begun = False

    def trace(frame, event, argument):
        global left, has_begun
        if not frame.f_code.co_filename.endswith("sawlog/cli/main.py"):
            return None
        has_begun = has_begun or signal.getsignal(signal.SIGINT) is signal.SIG_DFL
        if event == "line" and has_begun:
            left -= 1
            if left == 0:
                sys.settrace(None)
                os.kill(os.getpid(), signal.SIGINT)
        return trace

    sys.argv[1:] = ["--version"]
    sys.settrace(trace)
    from sawlog.cli.main import main
    main()
"""


def test_an_interrupt_at_any_line_of_the_entry_point_shows_no_traceback() -> None:
    """From the line after the one that sets SIGINT to its default action, up to the exit."""
    for line in range(1, 100):
        ended = python(AT_A_LINE, str(line))
        if ended.returncode == 0:
            break
        assert ended.returncode in (KILLED, INTERRUPTED), (line, ended)
        assert ended.stderr.strip() == "", (line, ended)
    assert line > 10


def test_an_interrupt_between_the_script_and_its_entry_point_shows_no_traceback() -> None:
    ended = python(
        """
        from sawlog.cli.main import main
        import os, signal
        os.kill(os.getpid(), signal.SIGINT)
        main(["--version"])
        """
    )
    assert (ended.returncode, ended.stderr) == (KILLED, "")


def test_an_interrupt_that_became_a_runtime_error_exits_with_130() -> None:
    """Before Python 3.12 a class body turns an exception of `__set_name__` into a RuntimeError."""
    ended = python(
        """
        import sawlog.cli.topics as topics
        from sawlog.cli.main import main

        def interrupted(*_, **__):
            class Name:
                def __set_name__(self, owner, name):
                    raise KeyboardInterrupt
            try:
                type("Owner", (), {"name": Name()})
            except KeyboardInterrupt as interrupt:  # newer versions
                raise RuntimeError("Error calling __set_name__") from interrupt

        topics.list_topics.callback = interrupted
        main(["topics", "list"])
        """
    )
    assert (ended.returncode, ended.stderr) == (INTERRUPTED, "")


def test_an_interrupt_while_a_broker_opens_its_logs_shows_no_traceback(tmp_path: Path) -> None:
    ended = python(
        """
        import os, signal, sys
        from sawlog.broker.broker import Broker
        from sawlog.cli.main import main

        apply = Broker.apply

        def interrupted(self, old, new):
            os.kill(os.getpid(), signal.SIGINT)
            apply(self, old, new)

        Broker.apply = interrupted
        main(["broker", "--data", sys.argv[1], "--listen", "127.0.0.1:0"])
        """,
        str(tmp_path),
    )
    assert (ended.returncode, ended.stdout) == (INTERRUPTED, "")
    assert "Traceback" not in ended.stderr
