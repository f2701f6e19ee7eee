"""The topic of one run: created before it, and deleted with its files after it."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from bench.brokers import Broker
from bench.process import ChildFailed

TIMEOUT_S = 60.0
LOOK_AGAIN_S = 0.05


def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})


def create(
    bootstrap: str,
    topic: str,
    partitions: int,
    config: Mapping[str, str] | None = None,
    *,
    replicas: int = 1,
) -> None:
    """Create a topic and return when every partition has a leader."""
    client = admin(bootstrap)
    wanted = NewTopic(topic, partitions, replicas, config=dict(config or {}))
    for answer in client.create_topics([wanted]).values():
        answer.result(TIMEOUT_S)
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        described = client.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
        if len(described) == partitions and all(part.leader >= 0 for part in described.values()):
            return
        time.sleep(LOOK_AGAIN_S)
    raise ChildFailed(f"topic {topic} has partitions without a leader")


def alter(bootstrap: str, topic: str, config: Mapping[str, str]) -> None:
    """Set configs of a topic."""
    client = admin(bootstrap)
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in config.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    for answer in client.incremental_alter_configs([resource]).values():
        answer.result(TIMEOUT_S)


def drop(bootstrap: str, topic: str) -> None:
    """Delete a topic, without waiting for its files."""
    client = admin(bootstrap)  # keep a reference: futures end with the client
    for answer in client.delete_topics([topic]).values():
        answer.result(TIMEOUT_S)


def delete(broker: Broker, topic: str) -> None:
    """Delete a topic and return when its files are gone and the page cache is written back."""
    drop(broker.bootstrap, topic)
    deadline = time.monotonic() + TIMEOUT_S
    while any(broker.data.glob(f"{topic}-*")) and time.monotonic() < deadline:
        time.sleep(LOOK_AGAIN_S)
    os.sync()


@contextmanager
def fresh(
    broker: Broker, topic: str, partitions: int, config: Mapping[str, str] | None = None
) -> Iterator[str]:
    create(broker.bootstrap, topic, partitions, config)
    try:
        yield topic
    finally:
        broker.server.check_running()
        delete(broker, topic)
