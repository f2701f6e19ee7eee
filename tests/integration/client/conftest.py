"""A broker for tests of the client: Sawlog, and Apache Kafka if Java is installed."""

import pytest

from sawlog.client.admin.admin import Admin, NewTopic
from support.kafka.shared_brokers import EITHER_BROKER, QUICK_GROUPS, SharedBrokers, unique


@pytest.fixture(scope="module", params=EITHER_BROKER)
def quick_groups(request: pytest.FixtureRequest, shared_brokers: SharedBrokers) -> str:
    """The address of a broker with short group timeouts."""
    return shared_brokers.get(request.param, QUICK_GROUPS).bootstrap


@pytest.fixture
def three_partitions(quick_groups: str) -> str:
    """A new, empty topic with three partitions."""
    name = unique("t")
    with Admin(quick_groups) as admin:
        assert admin.create_topics([NewTopic(name, partitions=3)]) == {}
    return name
