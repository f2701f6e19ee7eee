"""Starts `table_workers` as processes, on a directory or on an object store, and kills them."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.delta.table_path import AnyPath, table_path
from support.pipeline.tables import PIPELINE
from support.process import wait_until
from support.sources import SOURCE

TESTS = Path(__file__).resolve().parents[2]
DEADLINE_S = 240
NEVER = 1_000_000
"""An offset that no landing reaches: it runs until it is killed."""
MORE = 10
VARIABLES = {
    "endpoint": "AWS_ENDPOINT_URL",
    "region": "AWS_REGION",
    "access_key_id": "AWS_ACCESS_KEY_ID",
    "secret_access_key": "AWS_SECRET_ACCESS_KEY",
}


def start(what: str, path: AnyPath, *arguments: object) -> subprocess.Popen[str]:
    """Start a worker. It gets the options of an object store by its environment."""
    command = [sys.executable, "-m", "support.pipeline.table_workers", what, os.fspath(path)]
    options = {VARIABLES[name]: value for name, value in table_path(path).options.items()}
    pythonpath = f"{TESTS}{os.pathsep}{SOURCE.parent}"
    return subprocess.Popen(
        [*command, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": pythonpath, **options},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(worker: subprocess.Popen[str]) -> dict[str, int]:
    """Wait for a worker to end well; returns its result."""
    try:
        output, errors = worker.communicate(timeout=DEADLINE_S)
    finally:
        worker.kill()
    assert worker.returncode == 0, errors
    met: dict[str, int] = json.loads(output.splitlines()[-1])
    return met


def kill(worker: subprocess.Popen[str]) -> None:
    worker.send_signal(signal.SIGKILL)
    worker.communicate(timeout=120)


def landed_to(path: AnyPath) -> int:
    """The highest offset that a writer has committed."""
    return max(Table.open(path).offsets(PIPELINE).values(), default=0)


def kill_repeatedly(path: AnyPath, kinds: Sequence[str], kills: int, seed: int) -> int:
    """Run a worker of each kind; kill one, at some time after another commit, and start it again.

    Returns the end of the offsets that are committed in the end, by workers that are not killed.
    """
    choice = random.Random(seed)

    def started(kind: str, end: int) -> subprocess.Popen[str]:
        return start(kind, path, choice.randrange(1_000_000), end)

    workers = [started(kind, NEVER) for kind in kinds]
    try:
        for _ in range(kills):
            reached = landed_to(path)
            wait_until(lambda least=reached: landed_to(path) > least)
            victim = choice.randrange(len(workers))
            with pytest.raises(subprocess.TimeoutExpired):
                workers[victim].wait(choice.uniform(0.0, 1.5))
            kill(workers[victim])
            workers[victim] = started(kinds[victim], NEVER)
        for worker in workers:
            kill(worker)
        end = landed_to(path) + MORE
        workers = [started(kind, end) for kind in kinds]
        for worker in workers:
            finish(worker)
    finally:
        for worker in workers:
            worker.kill()
    return end
