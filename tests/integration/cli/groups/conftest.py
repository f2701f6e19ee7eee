"""A broker, and a topic and a group of it for each test of `sawlog groups`."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.broker import running_sawlog
from support.command_line import Sawlog
from support.kafka import running_kafka

_numbers = itertools.count()
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


@pytest.fixture(scope="module", params=["sawlog", pytest.param("kafka", marks=pytest.mark.long)])
def bootstrap(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    start = {"sawlog": running_sawlog, "kafka": running_kafka}[request.param]
    with start(tmp_path_factory.mktemp("broker"), SETTINGS) as server:
        yield server.bootstrap


@pytest.fixture
def sawlog(
    bootstrap: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Sawlog:
    monkeypatch.setenv("SAWLOG_BOOTSTRAP", bootstrap)
    return Sawlog(capsys, tmp_path)


@pytest.fixture
def topic(sawlog: Sawlog) -> str:
    """Ten records a second apart in partition 0, four in partition 1, none in partition 2."""
    name = f"topic-{next(_numbers)}"
    sawlog("topics", "create", name, "-p", "3")
    sawlog.produce(name, 0, *range(1_000, 11_000, 1_000))
    sawlog.produce(name, 1, *range(1_000, 5_000, 1_000))
    return name


@pytest.fixture
def group() -> str:
    return f"group-{next(_numbers)}"


@pytest.fixture
def idle(sawlog: Sawlog, topic: str, group: str) -> str:
    """A group without members that has read two records of partitions 0 and 1."""
    where = f"{topic}:0,1"
    sawlog("groups", "reset", group, "--topic", where, "--to-offset", "2", "--execute")
    return group
