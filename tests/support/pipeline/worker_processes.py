"""Starts `table_workers` as processes, on a directory or on an object store."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from sawlog.pipeline.delta.table_path import AnyPath, table_path
from support.sources import SOURCE

TESTS = Path(__file__).resolve().parents[2]
DEADLINE_S = 240
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
