"""The kinds of group members: a client library and a protocol or assignor."""

from importlib import import_module
from typing import Any

from support.group_consumers.event_journal import EventSink
from support.group_consumers.group_consumer import GroupConsumer

KINDS = {
    "confluent-range": ("confluent_consumer", "ConfluentConsumer"),
    "confluent-cooperative": ("confluent_consumer", "ConfluentConsumer"),
    "confluent-consumer": ("confluent_consumer", "ConfluentConsumer"),
    "aiokafka-range": ("aiokafka_consumer", "AiokafkaConsumer"),
    "kafka-python-range": ("kafka_python_consumer", "KafkaPythonConsumer"),
    "kafka-python-cooperative": ("kafka_python_consumer", "KafkaPythonConsumer"),
    "sawlog-range": ("sawlog_consumer", "SawlogConsumer"),
    "sawlog-cooperative": ("sawlog_consumer", "SawlogConsumer"),
    "sawlog-consumer": ("sawlog_consumer", "SawlogConsumer"),
}
COOPERATIVE = (
    "confluent-cooperative",
    "confluent-consumer",
    "kafka-python-cooperative",
    "sawlog-cooperative",
    "sawlog-consumer",
)
"""Kinds whose members keep reading the partitions that a rebalance does not move."""


def start_consumer(
    kind: str, bootstrap: str, group: str, topic: str, name: str, sink: EventSink, **more: Any
) -> GroupConsumer:
    """Start a member, which joins at once; its library is imported on first use."""
    module, cls = KINDS[kind]
    protocol = kind.rpartition("-")[2]
    library = import_module(f"support.group_consumers.{module}")
    consumer: GroupConsumer = getattr(library, cls)(
        bootstrap, group, topic, name, sink, protocol, **more
    )
    consumer.start()
    return consumer
