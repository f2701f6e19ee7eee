"""A group member with confluent-kafka: classic (eager or cooperative) or consumer protocol."""

import struct
import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from support.group_consumers.event_journal import CLOSED, JOINED, LOST, REFUSED, REVOKED, EventSink
from support.group_consumers.group_consumer import MAX_POLL_RECORDS, POLL_MS, GroupConsumer

MAGIC = b"CGMDv2:"
PROTOCOLS: dict[str, dict[str, Any]] = {
    "range": {"partition.assignment.strategy": "range"},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}
SESSION = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500}


class ConfluentConsumer(GroupConsumer):
    def __init__(
        self,
        bootstrap: str,
        group: str,
        topic: str,
        name: str,
        sink: EventSink,
        protocol: str = "range",
        **more: Any,
    ) -> None:
        super().__init__(name, sink)
        self._topic = topic
        self._settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
            "error_cb": lambda _: None,
            "reconnect.backoff.max.ms": 200,
            "fetch.wait.max.ms": 100,
            **PROTOCOLS[protocol],
            **(SESSION if protocol != "consumer" else {}),
            **more,
        }
        self._consumer: Consumer | None = None

    def identity(self) -> tuple[str, int]:
        metadata = self._consumer.consumer_group_metadata() if self._consumer is not None else None
        if not isinstance(metadata, bytes) or not metadata.startswith(MAGIC):
            return "", -1
        (generation,) = struct.unpack_from("=i", metadata, len(MAGIC))
        member = metadata[len(MAGIC) + 4 :].split(b"\0")[1:2]
        return (member[0].decode() if member else ""), generation

    def run(self) -> None:
        self._consumer = consumer = Consumer(self._settings)
        self.events.record(JOINED)
        consumer.subscribe(
            [self._topic],
            on_assign=lambda _, some: self.events.assigned(numbers(some)),
            on_revoke=self._revoked,
            on_lost=lambda _, some: self._released(LOST, numbers(some)),
        )
        while not self.leaving.is_set():
            self._poll(consumer)
        # close() can hang during an assignment: confluentinc/librdkafka#4527.
        consumer.unsubscribe()
        while consumer.assignment():
            consumer.poll(POLL_MS / 1_000)
        consumer.close()
        self._consumer = None
        self.events.record(CLOSED)

    def _poll(self, consumer: Consumer) -> None:
        for count in range(MAX_POLL_RECORDS):
            message = consumer.poll(0 if count else POLL_MS / 1_000)
            if message is None:
                break
            if message.error() is None:
                self.events.read(message.partition(), message.offset())
        self.events.flush_reads()
        self._commit(dict(self.events.positions))

    def _revoked(self, _: Consumer, some: list[TopicPartition]) -> None:
        self.events.flush_reads()
        self._commit(self.uncommitted(numbers(some)))
        self._released(REVOKED, numbers(some))

    def _released(self, kind: str, partitions: list[int]) -> None:
        self.events.flush_reads()
        self.events.released(kind, partitions)

    def _commit(self, positions: dict[int, int]) -> None:
        if not positions or self._consumer is None:
            return
        since = time.monotonic()
        offsets = [TopicPartition(self._topic, each, at) for each, at in positions.items()]
        try:
            found = self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as refusal:
            self.events.record(REFUSED, positions, since, str(refusal))
            return
        wrong = [each.error for each in found or () if each.error is not None]
        if wrong:
            self.events.record(REFUSED, positions, since, str(wrong[0]))
        else:
            self.committed(positions, since)


def numbers(partitions: list[TopicPartition]) -> list[int]:
    return sorted(each.partition for each in partitions)
