"""The topic of one run: created before it, and deleted with its files after it."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.brokers import Broker
from bench.process import ChildFailed

TIMEOUT_S = 60.0
LOOK_AGAIN_S = 0.05


def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})


def create(bootstrap: str, topic: str, partitions: int) -> None:
    """Create a topic and return when every partition has a leader."""
    client = admin(bootstrap)
    for answer in client.create_topics([NewTopic(topic, partitions, 1)]).values():
        answer.result(TIMEOUT_S)
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        described = client.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
        if len(described) == partitions and all(part.leader >= 0 for part in described.values()):
            return
        time.sleep(LOOK_AGAIN_S)
    raise ChildFailed(f"topic {topic} has partitions without a leader")


def delete(broker: Broker, topic: str) -> None:
    """Delete a topic and return when its files are gone and the page cache is written back."""
    client = admin(broker.bootstrap)  # keep a reference: futures end with the client
    for answer in client.delete_topics([topic]).values():
        answer.result(TIMEOUT_S)
    deadline = time.monotonic() + TIMEOUT_S
    while any(broker.data.glob(f"{topic}-*")) and time.monotonic() < deadline:
        time.sleep(LOOK_AGAIN_S)
    os.sync()


@contextmanager
def fresh(broker: Broker, topic: str, partitions: int) -> Iterator[str]:
    create(broker.bootstrap, topic, partitions)
    try:
        yield topic
    finally:
        broker.server.check_running()
        delete(broker, topic)
