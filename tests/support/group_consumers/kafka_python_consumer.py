"""A group member with kafka-python: classic protocol, eager or cooperative."""

import contextlib
import time
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError
from kafka.structs import OffsetAndMetadata

from support.group_consumers.event_journal import CLOSED, JOINED, LOST, REFUSED, REVOKED, EventSink
from support.group_consumers.group_consumer import MAX_POLL_RECORDS, GroupConsumer

LONG_POLL_MS = 1_000  # a poll that ends during a join can lose the join
ASSIGNORS = {"range": RangePartitionAssignor, "cooperative": CooperativeStickyAssignor}


class KafkaPythonConsumer(GroupConsumer, ConsumerRebalanceListener):
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
            "bootstrap_servers": bootstrap,
            "group_id": group,
            "client_id": name,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "reconnect_backoff_max_ms": 200,
            "fetch_max_wait_ms": 100,
            "max_poll_records": MAX_POLL_RECORDS,
            "session_timeout_ms": 6_000,
            "heartbeat_interval_ms": 500,
            "partition_assignment_strategy": [ASSIGNORS[protocol]],
            **more,
        }
        self._consumer: KafkaConsumer | None = None

    def identity(self) -> tuple[str, int]:
        if self._consumer is None:
            return "", -1
        generation = self._consumer._coordinator._generation
        return generation.member_id, generation.generation_id

    def run(self) -> None:
        self.events.record(JOINED)
        while not self.leaving.is_set():
            # The library does not retry while the broker is down.
            with contextlib.suppress(KafkaConnectionError, KafkaTimeoutError):
                if self._consumer is None:
                    self._consumer = KafkaConsumer(**self._settings)
                    self._consumer.subscribe([self._topic], listener=self)
                self._poll(self._consumer)
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = None
        self.events.record(CLOSED)

    def _poll(self, consumer: KafkaConsumer) -> None:
        for tp, records in consumer.poll(LONG_POLL_MS).items():
            for record in records:
                self.events.read(tp.partition, record.offset)
        self.events.flush_reads()
        self._commit(dict(self.events.positions))

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.events.assigned(sorted(each.partition for each in assigned))

    def on_partitions_revoked(self, revoked: Any) -> None:
        partitions = sorted(each.partition for each in revoked)
        self._commit(self.uncommitted(partitions))
        self.events.released(REVOKED, partitions)

    def on_partitions_lost(self, lost: Any) -> None:
        self.events.released(LOST, sorted(each.partition for each in lost))

    def _commit(self, positions: dict[int, int]) -> None:
        if not positions or self._consumer is None:
            return
        since = time.monotonic()
        offsets = {
            TopicPartition(self._topic, each): OffsetAndMetadata(at, "", -1)
            for each, at in positions.items()
        }
        try:
            self._consumer.commit(offsets)
        except KafkaError as refusal:
            self.events.record(REFUSED, positions, since, repr(refusal))
        else:
            self.committed(positions, since)
