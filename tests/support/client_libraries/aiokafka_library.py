"""aiokafka as a `ClientLibrary`; each call runs an event loop of its own."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from support.client_libraries.client_library import GUARD_S, BrokerError, RecordMetadata, Row

LARGE_BYTES = 12_000_000
T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine with the timeout, and raise errors of the broker as BrokerError."""

    async def guarded() -> T:
        async with asyncio.timeout(GUARD_S):
            return await work

    try:
        return asyncio.run(guarded())
    except KafkaError as error:
        raise BrokerError(error.errno, str(error)) from error


class AioKafka:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @contextlib.asynccontextmanager
    async def admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        try:
            yield admin
        finally:
            await admin.close()

    def consumer(self, **settings: Any) -> AIOKafkaConsumer:
        base = {"group_id": None, "enable_auto_commit": False, "auto_offset_reset": "none"}
        return AIOKafkaConsumer(bootstrap_servers=self.bootstrap, **{**base, **settings})

    def produce(
        self,
        topic: str,
        rows: Sequence[Row],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> list[RecordMetadata]:
        return run(self._produce(topic, rows, codec, acks, idempotent))

    async def _produce(
        self, topic: str, rows: Sequence[Row], codec: str, acks: str, idempotent: bool
    ) -> list[RecordMetadata]:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            compression_type=None if codec == "none" else codec,
            acks="all" if acks == "all" else int(acks),
            enable_idempotence=idempotent,
            max_request_size=LARGE_BYTES,
            linger_ms=5,
        )
        async with producer:
            futures = [
                await producer.send(
                    topic,
                    row.value,
                    row.key,
                    partition=row.partition,
                    timestamp_ms=row.timestamp_ms,
                    headers=list(row.headers),
                )
                for row in rows
            ]
            found = await asyncio.gather(*futures)
        return [RecordMetadata(each.partition, each.offset) for each in found]

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Row]:
        return run(self._consume(TopicPartition(topic, partition), count, offset))

    async def _consume(self, tp: TopicPartition, count: int, offset: int) -> list[Row]:
        rows: list[Row] = []
        async with self.consumer() as consumer:
            consumer.assign([tp])
            consumer.seek(tp, offset)
            while len(rows) < count:
                batch = await consumer.getmany(tp, timeout_ms=GUARD_S * 1000)
                rows += [
                    Row(each.value, each.key, tuple(each.headers), each.timestamp, each.partition)
                    for each in batch.get(tp, ())
                ]
        return rows[:count]

    def offset_at(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        async def look() -> int | None:
            tp = TopicPartition(topic, partition)
            async with self.consumer() as consumer:
                found = (await consumer.offsets_for_times({tp: timestamp_ms}))[tp]
                return None if found is None else found.offset

        return run(look())

    def bounds(self, topic: str, partition: int = 0) -> tuple[int, int]:
        async def look() -> tuple[int, int]:
            tp = TopicPartition(topic, partition)
            async with self.consumer() as consumer:
                low = (await consumer.beginning_offsets([tp]))[tp]
                high = (await consumer.end_offsets([tp]))[tp]
                return low, high

        return run(look())
