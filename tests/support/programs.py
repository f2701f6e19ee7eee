"""System programs that some tests need: where one is missing, the test is skipped with the reason.

In continuous integration (`CI=true`) nothing may be missing, so there the test fails instead.
"""

import os
import shutil
from typing import NoReturn

import pytest

from tools.kafka_jars import classpath


def require(program: str) -> str:
    """The path of a program on this machine."""
    path = shutil.which(program)
    if path is None:
        unavailable(f"{program} is not installed")
    return path


def require_java() -> str:
    """The class path of Apache Kafka, with Java there to run it."""
    require("java")
    jars = classpath()
    if jars is None:
        unavailable("the jars of Apache Kafka are not fetched: run `make java`")
    return jars


def unavailable(reason: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
