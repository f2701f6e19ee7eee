"""A member of a group by kafka-python: classic, eager or cooperative."""

import contextlib
import time
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError
from kafka.structs import OffsetAndMetadata

from support.readers.journal import CLOSED, JOINED, LOST, REFUSED, REVOKED, Tell
from support.readers.member import MOST_AT_ONCE, Member

PATIENT_MS = 1_000  # its join can be lost where a poll ends in the middle of it
ASSIGNORS = {"range": RangePartitionAssignor, "cooperative": CooperativeStickyAssignor}


class KafkaPythonMember(Member, ConsumerRebalanceListener):
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
        super().__init__(name, tell)
        self._topic = topic
        self._settings = {
            "bootstrap_servers": bootstrap,
            "group_id": group,
            "client_id": name,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "reconnect_backoff_max_ms": 200,
            "fetch_max_wait_ms": 100,
            "max_poll_records": MOST_AT_ONCE,
            "session_timeout_ms": 6_000,
            "heartbeat_interval_ms": 500,
            "partition_assignment_strategy": [ASSIGNORS[protocol]],
            **more,
        }
        self._consumer: KafkaConsumer | None = None

    def stamp(self) -> tuple[str, int]:
        if self._consumer is None:
            return "", -1
        generation = self._consumer._coordinator._generation
        return generation.member_id, generation.generation_id

    def read(self) -> None:
        self.teller.say(JOINED)
        while not self.leaving.is_set():
            # While the broker is away, its user has to be patient.
            with contextlib.suppress(KafkaConnectionError, KafkaTimeoutError):
                if self._consumer is None:
                    self._consumer = KafkaConsumer(**self._settings)
                    self._consumer.subscribe([self._topic], listener=self)
                self._read_some(self._consumer)
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = None
        self.teller.say(CLOSED)

    def _read_some(self, consumer: KafkaConsumer) -> None:
        for tp, records in consumer.poll(PATIENT_MS).items():
            for record in records:
                self.teller.read(tp.partition, record.offset)
        self.teller.all_read()
        self._commit(dict(self.teller.positions))

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.teller.assigned(sorted(each.partition for each in assigned))

    def on_partitions_revoked(self, revoked: Any) -> None:
        partitions = sorted(each.partition for each in revoked)
        self._commit(self.uncommitted(partitions))
        self.teller.released(REVOKED, partitions)

    def on_partitions_lost(self, lost: Any) -> None:
        self.teller.released(LOST, sorted(each.partition for each in lost))

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
            self.teller.say(REFUSED, positions, since, repr(refusal))
        else:
            self.committed(positions, since)
