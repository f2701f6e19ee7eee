"""Fixtures: a broker whose groups and log cleaner do not wait, and a worker of Kafka Connect."""

from collections.abc import Iterator

import pytest

from support.client_libraries.confluent_library import Confluent
from support.kafka.connect_worker import ConnectWorker
from support.kafka.shared_brokers import QUICK_GROUPS, Server, SharedBrokers, unique
from support.programs import require_java

EAGER_CLEANER = {"log.cleaner.backoff.ms": "100"}


@pytest.fixture(scope="session")
def broker(target: str, shared_brokers: SharedBrokers) -> Server:
    return shared_brokers.get(target, QUICK_GROUPS | EAGER_CLEANER)


@pytest.fixture(scope="session")
def confluent(broker: Server) -> Confluent:
    return Confluent(broker.bootstrap)


@pytest.fixture(scope="module")
def worker(broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectWorker]:
    require_java()
    worker = ConnectWorker(tmp_path_factory.mktemp("connect"), broker.bootstrap, unique("connect"))
    try:
        yield worker
        worker.stop()
    finally:
        worker.process.kill()
