"""Answers that Apache Kafka gave to fixed questions, kept so that asking again needs no JVM.

An answer is kept as a digest of the question and the answer together: enough to tell whether ours
is the same, and small. What Kafka really says to a question that fails is asked with Java, by the
test of the soak that checks the recording; `SAWLOG_RECORD=1` makes that test write it instead.
"""

import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from support.programs import require_java

RECORDINGS = Path(__file__).parents[2] / "conformance" / "kafka-4.3.0"
JAVA_TIMEOUT_S = 300


def digest(question: str, answer: str) -> str:
    return hashlib.sha256(f"{question}\n{answer}".encode()).hexdigest()[:16]


def recorded(name: str) -> list[str]:
    """The digests of a recording, in the order of its questions."""
    return (RECORDINGS / f"{name}.txt").read_text().split()


def check_recording(name: str, digests: Sequence[str]) -> None:
    """Holds what Kafka said just now against the recording, or writes it."""
    if os.environ.get("SAWLOG_RECORD") == "1":
        (RECORDINGS / f"{name}.txt").write_text("\n".join(digests) + "\n")
    assert list(digests) == recorded(name)


def ask_java(program: Path, questions: Sequence[str]) -> list[str]:
    """One line of answer for each line of question, from a single-file Java program."""
    done = subprocess.run(
        ["java", "-cp", require_java(), str(program)],
        input="\n".join(questions) + "\n",
        capture_output=True,
        text=True,
        timeout=JAVA_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = done.stdout.splitlines()
    assert len(answers) == len(questions)
    return answers
