"""The command line on three brokers, and topics that are deleted after each test."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from sawlog.client import Admin, NewTopic
from support.cli.command_line import Sawlog
from support.kafka.shared_brokers import unique
from support.server.broker_cluster import BrokerCluster


@pytest.fixture
def admin(broker_cluster: BrokerCluster) -> Iterator[Admin]:
    with Admin(broker_cluster.bootstrap) as admin:
        yield admin


@pytest.fixture
def sawlog(
    broker_cluster: BrokerCluster,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Sawlog:
    monkeypatch.setenv("SAWLOG_BOOTSTRAP", broker_cluster.bootstrap)
    return Sawlog(capsys, tmp_path)


@pytest.fixture
def place(admin: Admin, broker_cluster: BrokerCluster) -> Iterator[Callable[..., str]]:
    """Create a topic with these replicas of its partitions, which all brokers know."""
    created: list[str] = []

    def create(*replicas: Sequence[int]) -> str:
        name = unique("placed-")
        assert admin.create_topics([NewTopic(name, assignments=dict(enumerate(replicas)))]) == {}
        created.append(name)
        broker_cluster.wait_until_known(name)
        return name

    yield create
    admin.delete_topics(created)
