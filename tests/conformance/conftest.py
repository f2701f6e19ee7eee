"""Fixtures: client libraries connected to the broker under test, and topics."""

from collections.abc import Callable, Iterator

import pytest
from kafka import TopicPartition
from kafka.admin import OffsetSpec

from support.client_libraries.aiokafka_library import AioKafka
from support.client_libraries.client_library import ClientLibrary
from support.client_libraries.confluent_library import Confluent
from support.client_libraries.kafka_python_library import KafkaPython

LIBRARIES = {"confluent": Confluent, "kafka-python": KafkaPython, "aiokafka": AioKafka}

CreateTopic = Callable[..., str]


@pytest.fixture(params=sorted(LIBRARIES))
def library(request: pytest.FixtureRequest, broker) -> ClientLibrary:
    """Each client library in turn."""
    return LIBRARIES[request.param](broker.bootstrap)


@pytest.fixture(scope="session")
def confluent(broker) -> Confluent:
    return Confluent(broker.bootstrap)


@pytest.fixture(scope="session")
def kafka_python(broker) -> KafkaPython:
    return KafkaPython(broker.bootstrap)


@pytest.fixture(scope="session")
def aiokafka(broker) -> AioKafka:
    return AioKafka(broker.bootstrap)


@pytest.fixture(scope="session")
def create_topic(kafka_python: KafkaPython) -> Iterator[CreateTopic]:
    """A function that creates a topic, waits for its leaders and returns its name."""
    with kafka_python.admin() as admin:

        def create(name: str, partitions: int = 1, **config: str) -> str:
            configs = {key.replace("_", "."): value for key, value in config.items()}
            wanted = {name: {"num_partitions": partitions, "configs": configs}}
            # Kafka answers before its broker leads the partitions: wait until it does.
            admin.create_topics(wanted, wait_for_metadata=True)
            latest = {TopicPartition(name, i): OffsetSpec.LATEST for i in range(partitions)}
            admin.list_partition_offsets(latest)
            return name

        yield create
