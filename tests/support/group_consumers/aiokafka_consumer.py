"""A group member with aiokafka: classic protocol, eager."""

import asyncio
import time
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaConnectionError, KafkaError

from support.group_consumers.event_journal import CLOSED, JOINED, LOST, REFUSED, REVOKED, EventSink
from support.group_consumers.group_consumer import MAX_POLL_RECORDS, POLL_MS, GroupConsumer


class AiokafkaConsumer(GroupConsumer, ConsumerRebalanceListener):
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
        assert protocol == "range"
        super().__init__(name, sink)
        self._topic = topic
        self._settings = {
            "bootstrap_servers": bootstrap,
            "group_id": group,
            "client_id": name,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "fetch_max_wait_ms": 100,
            "retry_backoff_ms": 100,
            "session_timeout_ms": 6_000,
            "heartbeat_interval_ms": 500,
            "partition_assignment_strategy": (RangePartitionAssignor,),
            **more,
        }
        self._consumer: AIOKafkaConsumer | None = None
        self._busy = asyncio.Lock()  # partitions are not revoked while a batch is processed
        self._last_id = ""

    def identity(self) -> tuple[str, int]:
        coordinator = getattr(self._consumer, "_coordinator", None)
        member = getattr(coordinator, "member_id", "")
        return (member, coordinator.generation) if member else ("", -1)

    def run(self) -> None:
        asyncio.run(self._poll_loop())

    async def _poll_loop(self) -> None:
        self.events.record(JOINED)
        self._consumer = consumer = await self._start()
        while not self.leaving.is_set():
            # getmany returns nothing during a rebalance, so it must not hold the lock.
            found = await consumer.getmany(timeout_ms=POLL_MS, max_records=MAX_POLL_RECORDS)
            async with self._busy:
                await self._process(found)
        self.events.released(REVOKED, sorted(each.partition for each in consumer.assignment()))
        await consumer.stop()
        self._consumer = None
        self.events.record(CLOSED)

    async def _start(self) -> AIOKafkaConsumer:
        while True:
            self._consumer = consumer = AIOKafkaConsumer(**self._settings)
            consumer.subscribe([self._topic], listener=self)
            try:
                await consumer.start()
            except KafkaConnectionError:  # the library does not retry while the broker is down
                await consumer.stop()
            else:
                return consumer

    async def _process(self, found: dict[TopicPartition, list[Any]]) -> None:
        for tp, records in found.items():
            for record in records:
                self.events.read(tp.partition, record.offset)
        self.events.flush_reads()
        await self._commit(dict(self.events.positions))

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self._last_id = self.identity()[0]
        self.events.assigned(sorted(each.partition for each in assigned))

    async def on_partitions_revoked(self, revoked: Any) -> None:
        async with self._busy:
            was_removed = self.identity()[0] != self._last_id  # the library does not report it
            partitions = sorted(each.partition for each in revoked)
            await self._commit(self.uncommitted(partitions))
            self.events.released(LOST if was_removed else REVOKED, partitions)

    async def _commit(self, positions: dict[int, int]) -> None:
        if not positions or self._consumer is None:
            return
        if not self.identity()[0]:
            # The broker removed the member. The library would now commit without a member id,
            # which an empty group accepts.
            return
        since = time.monotonic()
        offsets = {TopicPartition(self._topic, each): at for each, at in positions.items()}
        try:
            await self._consumer.commit(offsets)
        except KafkaError as refusal:
            self.events.record(REFUSED, positions, since, repr(refusal))
        else:
            self.committed(positions, since)
