"""A broker for tests of the client: ours, and Apache Kafka where Java is at hand."""

import itertools
from collections.abc import Iterator

import pytest

from sawlog.client.admin import Admin, NewTopic
from support.broker import running_sawlog
from support.kafka import running_kafka

_numbers = itertools.count()
QUICK_GROUPS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
}


@pytest.fixture(scope="module", params=["sawlog", pytest.param("kafka", marks=pytest.mark.long)])
def quick_groups(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The address of a broker whose groups lose no time."""
    run = {"sawlog": running_sawlog, "kafka": running_kafka}[request.param]
    with run(tmp_path_factory.mktemp("groups"), QUICK_GROUPS) as server:
        yield server.bootstrap


@pytest.fixture
def three_partitions(quick_groups: str) -> str:
    """A new topic with nothing in it."""
    name = f"t{next(_numbers)}"
    with Admin(quick_groups) as admin:
        assert admin.create_topics([NewTopic(name, partitions=3)]) == {}
    return name
