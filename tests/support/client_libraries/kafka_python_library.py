"""kafka-python as a `ClientLibrary`."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from support.client_libraries.client_library import GUARD_S, BrokerError, RecordMetadata, Row

LARGE_BYTES = 12_000_000


class KafkaPython:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @contextlib.contextmanager
    def admin(self) -> Iterator[KafkaAdminClient]:
        with contextlib.closing(KafkaAdminClient(bootstrap_servers=self.bootstrap)) as admin:
            yield admin

    @contextlib.contextmanager
    def consumer(self, **settings: Any) -> Iterator[KafkaConsumer]:
        base = {"group_id": None, "enable_auto_commit": False, "auto_offset_reset": "none"}
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap, **{**base, **settings})
        with contextlib.closing(consumer):
            yield consumer

    def produce(
        self,
        topic: str,
        rows: Sequence[Row],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> list[RecordMetadata]:
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap,
            compression_type=None if codec == "none" else codec,
            acks=-1 if acks == "all" else int(acks),
            enable_idempotence=idempotent,
            max_request_size=LARGE_BYTES,
            linger_ms=5,
        )
        with contextlib.closing(producer):
            futures = [
                producer.send(
                    topic,
                    row.value,
                    row.key,
                    list(row.headers),
                    partition=row.partition,
                    timestamp_ms=row.timestamp_ms,
                )
                for row in rows
            ]
            with self._broker_errors():
                found = [future.get(GUARD_S) for future in futures]
        return [RecordMetadata(each.partition, each.offset) for each in found]

    @staticmethod
    @contextlib.contextmanager
    def _broker_errors() -> Iterator[None]:
        try:
            yield
        except KafkaError as error:
            raise BrokerError(error.errno, str(error)) from error

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Row]:
        tp = TopicPartition(topic, partition)
        rows: list[Row] = []
        with self.consumer() as consumer, self._broker_errors():
            consumer.assign([tp])
            consumer.seek(tp, offset)
            while len(rows) < count:
                batch = consumer.poll(GUARD_S * 1000, max_records=count - len(rows)).get(tp)
                assert batch, f"received only {len(rows)} of {count} records"
                rows += [
                    Row(each.value, each.key, tuple(each.headers), each.timestamp, each.partition)
                    for each in batch
                ]
        return rows

    def offset_at(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        tp = TopicPartition(topic, partition)
        with self.consumer() as consumer, self._broker_errors():
            found = consumer.offsets_for_times({tp: timestamp_ms})[tp]
            return None if found is None else found.offset

    def bounds(self, topic: str, partition: int = 0) -> tuple[int, int]:
        tp = TopicPartition(topic, partition)
        with self.consumer() as consumer, self._broker_errors():
            return consumer.beginning_offsets([tp])[tp], consumer.end_offsets([tp])[tp]
