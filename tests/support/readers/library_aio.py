"""A member of a group by aiokafka: classic and eager."""

import asyncio
import time
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaConnectionError, KafkaError

from support.readers.journal import CLOSED, JOINED, LOST, REFUSED, REVOKED, Tell
from support.readers.member import MOST_AT_ONCE, POLL_MS, Member


class AioMember(Member, ConsumerRebalanceListener):
    def __init__(
        self,
        bootstrap: str,
        group: str,
        topic: str,
        name: str,
        tell: Tell,
        protocol: str = "range",
        **more: Any,
    ) -> None:
        assert protocol == "range"
        super().__init__(name, tell)
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
        self._busy = asyncio.Lock()  # nothing is given up in the middle of a batch
        self._last_id = ""

    def stamp(self) -> tuple[str, int]:
        coordinator = getattr(self._consumer, "_coordinator", None)
        member = getattr(coordinator, "member_id", "")
        return (member, coordinator.generation) if member else ("", -1)

    def read(self) -> None:
        asyncio.run(self._read())

    async def _read(self) -> None:
        self.teller.say(JOINED)
        self._consumer = consumer = await self._start()
        while not self.leaving.is_set():
            # While the group changes the library gives nothing; so this waits outside the lock.
            found = await consumer.getmany(timeout_ms=POLL_MS, max_records=MOST_AT_ONCE)
            async with self._busy:
                await self._process(found)
        self.teller.released(REVOKED, sorted(each.partition for each in consumer.assignment()))
        await consumer.stop()
        self._consumer = None
        self.teller.say(CLOSED)

    async def _start(self) -> AIOKafkaConsumer:
        while True:
            self._consumer = consumer = AIOKafkaConsumer(**self._settings)
            consumer.subscribe([self._topic], listener=self)
            try:
                await consumer.start()
            except KafkaConnectionError:  # while the broker is away, its user has to be patient
                await consumer.stop()
            else:
                return consumer

    async def _process(self, found: dict[TopicPartition, list[Any]]) -> None:
        for tp, records in found.items():
            for record in records:
                self.teller.read(tp.partition, record.offset)
        self.teller.all_read()
        await self._commit(dict(self.teller.positions))

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self._last_id = self.stamp()[0]
        self.teller.assigned(sorted(each.partition for each in assigned))

    async def on_partitions_revoked(self, revoked: Any) -> None:
        async with self._busy:
            was_put_out = self.stamp()[0] != self._last_id  # the library does not say so itself
            partitions = sorted(each.partition for each in revoked)
            await self._commit(self.uncommitted(partitions))
            self.teller.released(LOST if was_put_out else REVOKED, partitions)

    async def _commit(self, positions: dict[int, int]) -> None:
        if not positions or self._consumer is None:
            return
        if not self.stamp()[0]:
            # It was put out and forgot its id; the library would commit as if from outside, and
            # a group that is empty by then takes that.
            return
        since = time.monotonic()
        offsets = {TopicPartition(self._topic, each): at for each, at in positions.items()}
        try:
            await self._consumer.commit(offsets)
        except KafkaError as refusal:
            self.teller.say(REFUSED, positions, since, repr(refusal))
        else:
            self.committed(positions, since)
