"""The stderr of other processes is hidden from the terminal, and available when needed."""

import os
import subprocess
import sys

import pytest

from sawlog.pipeline.landing.driver.stderr_capture import captured_stderr
from sawlog.pipeline.landing.failures import FailureKind, parse_failure

LONG_AFTERWARDS = """\
import sys
sys.stdin.read()
for number in range(20_000):
    print("line", number, file=sys.stderr)
"""


def test_the_last_lines_are_kept_and_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    with captured_stderr() as aside:
        subprocess.run(["sh", "-c", "echo JAVA_HOME is not set >&2; exit 1"], check=False)
    os.write(2, b"our own\n")
    assert aside.last() == "JAVA_HOME is not set"
    assert capfd.readouterr().err == "our own\n"


def test_a_writer_that_outlives_the_block_never_blocks(capfd: pytest.CaptureFixture[str]) -> None:
    with captured_stderr() as aside:
        child = subprocess.Popen([sys.executable, "-c", LONG_AFTERWARDS], stdin=subprocess.PIPE)
    child.communicate(timeout=60)
    assert child.returncode == 0
    assert aside.last().endswith("line 19999")
    assert "line 0\n" not in aside.last()
    assert capfd.readouterr().err == ""


def test_stderr_is_restored_after_a_failure(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyError), captured_stderr():
        raise KeyError
    os.write(2, b"heard\n")
    assert capfd.readouterr().err == "heard\n"


def test_a_worker_that_starts_too_late_is_reported_in_a_line() -> None:
    failure = parse_failure(
        "org.apache.spark.SparkException: Python worker failed to connect back.\n\tat"
    )
    assert failure.kind is FailureKind.OTHER
    assert failure.message == "a Python worker of Spark did not start within Spark's limit of 10 s"
