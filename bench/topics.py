"""Topics of one run: made before it, deleted after it, and really gone before the next."""

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
    """Returns when every partition has a leader."""
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
    """Returns when the files are gone and nothing waits to be written back to the disk."""
    client = admin(broker.bootstrap)  # held: its answers die with it
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
