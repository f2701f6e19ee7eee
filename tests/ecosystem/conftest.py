"""Fixtures: a broker whose groups rebalance and whose log cleaner looks for work without delay."""

import pytest

from support.client_libraries.confluent_library import Confluent
from support.kafka.shared_brokers import QUICK_GROUPS, Server, SharedBrokers

EAGER_CLEANER = {"log.cleaner.backoff.ms": "100"}


@pytest.fixture(scope="session")
def broker(target: str, shared_brokers: SharedBrokers) -> Server:
    return shared_brokers.get(target, QUICK_GROUPS | EAGER_CLEANER)


@pytest.fixture(scope="session")
def confluent(broker: Server) -> Confluent:
    return Confluent(broker.bootstrap)
