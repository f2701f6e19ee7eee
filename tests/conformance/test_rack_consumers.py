"""A consumer of librdkafka reads from the replica in its own rack (KIP-392)."""

import json
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sawlog.client import Admin, NewTopic
from support.process import wait_until
from support.server.broker_cluster import BrokerCluster

pytestmark = pytest.mark.long
LEADER, IN_RACK_B = 1, 2


def produce(bootstrap: str, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0


class RackConsumer:
    """A consumer of one partition, with the brokers that its statistics name."""

    def __init__(self, bootstrap: str, topic: str, rack: str) -> None:
        self.topic = topic
        self.partition: dict[str, Any] = {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "unused",
                "client.rack": rack,
                "statistics.interval.ms": 100,
                "stats_cb": self._note,
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, 0)])
        self.values: list[bytes] = []

    def _note(self, text: str) -> None:
        found = json.loads(text)["topics"].get(self.topic, {}).get("partitions", {})
        self.partition = found.get("0", {})

    def poll(self) -> None:
        message = self._consumer.poll(0.1)
        if message is not None:
            assert message.error() is None, message.error()
            self.values.append(message.value() or b"")

    def read(self, count: int) -> list[bytes]:
        def has_all() -> bool:
            self.poll()
            return len(self.values) >= count

        wait_until(has_all)
        return self.values

    def wait_for_broker(self, node: int) -> None:
        def fetches_there() -> bool:
            self.poll()
            return self.partition.get("broker") == node

        wait_until(fetches_there)

    def close(self) -> None:
        self._consumer.close()


def test_a_consumer_fetches_from_the_follower_in_its_rack(
    broker_cluster: BrokerCluster, topic: str
) -> None:
    with Admin(broker_cluster.bootstrap) as admin:
        assert admin.create_topics([NewTopic(topic, assignments={0: (LEADER, IN_RACK_B, 3)})]) == {}
    broker_cluster.wait_until_in_sync()
    produce(broker_cluster.bootstrap, topic, b"one")
    consumer = RackConsumer(broker_cluster.bootstrap, topic, "b")
    assert consumer.read(1) == [b"one"]
    consumer.wait_for_broker(IN_RACK_B)
    produce(broker_cluster.bootstrap, topic, b"two", b"three")
    assert consumer.read(3) == [b"one", b"two", b"three"]
    consumer.wait_for_broker(IN_RACK_B)
    assert consumer.partition["leader"] == LEADER
    consumer.close()
