"""confluent-kafka (librdkafka) as a `ClientLibrary`."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from support.client_libraries.client_library import GUARD_S, BrokerError, RecordMetadata, Row

LARGE_BYTES = 12_000_000

MAX_MESSAGES = 1_000_000  # the limit of one consume() call


class Confluent:
    def __init__(self, bootstrap: str) -> None:
        # No log lines: tests stop brokers on purpose.
        self.common: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}

    def admin(self) -> AdminClient:
        return AdminClient(self.common)

    def create_topic(
        self, name: str, partitions: int = 1, config: dict[str, str] | None = None
    ) -> None:
        topic = NewTopic(name, partitions, 1, config=config or {})
        admin = self.admin()
        admin.create_topics([topic])[name].result(GUARD_S)

    def topic_config(self, name: str) -> dict[str, str]:
        """The values of all settings of a topic."""
        topic = ConfigResource(ResourceType.TOPIC, name)
        admin = self.admin()
        found = admin.describe_configs([topic])[topic].result(GUARD_S)
        return {key: entry.value for key, entry in found.items()}

    def producer(self, **settings: Any) -> Producer:
        base = {"message.max.bytes": LARGE_BYTES, "linger.ms": 5}
        return Producer({**self.common, **base, **settings})

    @contextlib.contextmanager
    def consumer(self, **settings: Any) -> Iterator[Consumer]:
        # The Python binding requires a group id; `assign` with explicit offsets does not use it.
        base = {"group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": "error"}
        consumer = Consumer({**self.common, **base, **settings})
        try:
            yield consumer
        finally:
            consumer.close()

    def produce(
        self,
        topic: str,
        rows: Sequence[Row],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> list[RecordMetadata]:
        producer = self.producer(
            **{"compression.type": codec, "acks": acks, "enable.idempotence": idempotent}
        )
        reports: dict[int, RecordMetadata | KafkaError] = {}

        def report_to(index: int, error: KafkaError | None, message: Any) -> None:
            reports[index] = error or RecordMetadata(message.partition(), message.offset())

        for index, row in enumerate(rows):
            producer.produce(
                topic,
                row.value,
                row.key,
                partition=row.partition,
                timestamp=row.timestamp_ms,
                headers=list(row.headers),
                on_delivery=lambda error, message, index=index: report_to(index, error, message),
            )
        assert producer.flush(GUARD_S) == 0
        return [self._placed(reports[index]) for index in range(len(rows))]

    @staticmethod
    def _placed(report: RecordMetadata | KafkaError) -> RecordMetadata:
        if isinstance(report, RecordMetadata):
            return report
        raise BrokerError(report.code(), report.str())

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Row]:
        with self.consumer() as consumer:
            consumer.assign([TopicPartition(topic, partition, offset)])
            rows: list[Row] = []
            while len(rows) < count:
                messages = consumer.consume(min(count - len(rows), MAX_MESSAGES), GUARD_S)
                assert messages, f"received only {len(rows)} of {count} records"
                rows += [self._row(message) for message in messages]
            return rows

    def consume_to_the_end(self, topic: str, *, partition: int = 0) -> list[Row]:
        """All committed records up to the high watermark."""
        _, end = self.bounds(topic, partition)
        with self.consumer(**{"enable.partition.eof": True}) as consumer:
            consumer.assign([TopicPartition(topic, partition, 0)])
            rows: list[Row] = []
            while True:
                messages = consumer.consume(1, GUARD_S)
                assert messages, f"received only {len(rows)} records, and no end"
                error = messages[0].error()
                if error is None or error.code() != KafkaError._PARTITION_EOF:
                    rows.append(self._row(messages[0]))
                elif messages[0].offset() >= end:
                    return rows

    @staticmethod
    def _row(message: Any) -> Row:
        error = message.error()
        if error:
            raise BrokerError(error.code(), error.str())
        headers = tuple(message.headers() or ())
        timestamp_ms = message.timestamp()[1]
        return Row(message.value(), message.key(), headers, timestamp_ms, message.partition())

    def offset_at(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        with self.consumer() as consumer:
            wanted = [TopicPartition(topic, partition, timestamp_ms)]
            try:
                offset = consumer.offsets_for_times(wanted, timeout=GUARD_S)[0].offset
            except KafkaException as error:
                raise BrokerError(error.args[0].code(), str(error)) from error
            return offset if offset >= 0 else None

    def bounds(self, topic: str, partition: int = 0) -> tuple[int, int]:
        with self.consumer() as consumer:
            low, high = consumer.get_watermark_offsets(
                TopicPartition(topic, partition), timeout=GUARD_S
            )
            return low, high
