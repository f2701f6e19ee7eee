"""Recorded results of Apache Kafka's Java code for fixed inputs, so that tests need no JVM.

A result is recorded as a digest of the input and the output. The soak runs the Java code and
compares it with the recording; `SAWLOG_RECORD=1` makes it write the recording first.
"""

import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from support.programs import require_java

RECORDINGS = Path(__file__).parents[2] / "conformance" / "kafka-4.3.0"
JAVA_TIMEOUT_S = 300


def digest(given: str, result: str) -> str:
    return hashlib.sha256(f"{given}\n{result}".encode()).hexdigest()[:16]


def recorded(name: str) -> list[str]:
    """The digests of a recording, in the order of the inputs."""
    return (RECORDINGS / f"{name}.txt").read_text().split()


def check_recording(name: str, digests: Sequence[str]) -> None:
    """Compare the digests of a run of Kafka with the recording, or write the recording."""
    if os.environ.get("SAWLOG_RECORD") == "1":
        (RECORDINGS / f"{name}.txt").write_text("\n".join(digests) + "\n")
    assert list(digests) == recorded(name)


def run_java(program: Path, inputs: Sequence[str]) -> list[str]:
    """Run a single-file Java program that prints one line for each input line."""
    done = subprocess.run(
        ["java", "-cp", require_java(), str(program)],
        input="\n".join(inputs) + "\n",
        capture_output=True,
        text=True,
        timeout=JAVA_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    outputs = done.stdout.splitlines()
    assert len(outputs) == len(inputs)
    return outputs
