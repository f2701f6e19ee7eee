"""System programs that some tests need; without them a test is skipped, or fails with `CI=true`."""

import os
import shutil
from typing import NoReturn

import pytest

from tools.kafka_jars import classpath


def require(program: str) -> str:
    """Return the path of a program."""
    path = shutil.which(program)
    if path is None:
        unavailable(f"{program} is not installed")
    return path


def require_java() -> str:
    """Return the class path of Apache Kafka, if Java is installed."""
    require("java")
    jars = classpath()
    if jars is None:
        unavailable("the jars of Apache Kafka are not fetched: run `make java`")
    return jars


def unavailable(reason: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
