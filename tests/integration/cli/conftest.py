"""A shared broker of either kind, the command line, and a topic, for tests of administration."""

from pathlib import Path

import pytest

from support.cli.command_line import Sawlog
from support.kafka.shared_brokers import EITHER_BROKER, QUICK_GROUPS, SharedBrokers, unique


@pytest.fixture(scope="module", params=EITHER_BROKER)
def bootstrap(request: pytest.FixtureRequest, shared_brokers: SharedBrokers) -> str:
    return shared_brokers.get(request.param, QUICK_GROUPS).bootstrap


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
    """A topic with 10 records in partition 0, 4 in partition 1, none in 2, one per second."""
    name = unique("topic-")
    sawlog("topics", "create", name, "-p", "3")
    sawlog.produce(name, 0, *range(1_000, 11_000, 1_000))
    sawlog.produce(name, 1, *range(1_000, 5_000, 1_000))
    return name
