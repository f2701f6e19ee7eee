"""A group member with the Sawlog client: classic (eager or cooperative) or consumer protocol."""

import time
from collections.abc import Sequence
from typing import Any

from sawlog.client.consumer.consumer import Consumer
from sawlog.client.consumer.membership.membership_protocol import GroupSettings
from sawlog.client.consumer.membership.rebalance_listener import RebalanceListener
from sawlog.client.errors import ClientError, NoBrokerReachable
from sawlog.client.net.leader_requests import partition_of
from sawlog.core.errors import KafkaError
from sawlog.core.ids import TopicPartition
from support.group_consumers.event_journal import CLOSED, JOINED, LOST, REFUSED, REVOKED, EventSink
from support.group_consumers.group_consumer import MAX_POLL_RECORDS, POLL_MS, GroupConsumer

PROTOCOLS: dict[str, dict[str, Any]] = {
    "range": {"protocol": "classic", "assignors": ("range",)},
    "cooperative": {"protocol": "classic", "assignors": ("cooperative-sticky",)},
    "consumer": {"protocol": "consumer"},
}
SESSION = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 500}


class SawlogConsumer(GroupConsumer):
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
        self._bootstrap = bootstrap
        self._settings = GroupSettings(group, **{**PROTOCOLS[protocol], **SESSION, **more})
        self._consumer: Consumer | None = None

    def identity(self) -> tuple[str, int]:
        consumer = self._consumer
        if (
            consumer is None
            or consumer._session is None
            or consumer._session._heartbeat_thread is None
        ):
            return "", -1
        identity = consumer._session._heartbeat_thread.identity()
        return ("", -1) if identity is None else identity[:2]

    def run(self) -> None:
        self._consumer = consumer = Consumer(
            self._bootstrap, group=self._settings, auto_commit_ms=None, max_wait_ms=100
        )
        self.events.record(JOINED)
        with consumer:
            consumer.subscribe([self._topic], listener=_Listener(self))
            while not self.leaving.is_set():
                self._poll(consumer)
        self._consumer = None
        self.events.record(CLOSED)

    def _poll(self, consumer: Consumer) -> None:
        try:
            records = consumer.poll(POLL_MS, max_records=MAX_POLL_RECORDS)
        except NoBrokerReachable:  # it started while the broker was down
            return
        for record in records:
            self.events.read(record.partition, record.offset)
        self.events.flush_reads()
        self.commit(dict(self.events.positions))

    def released(self, kind: str, partitions: list[int]) -> None:
        self.events.flush_reads()
        if kind == REVOKED:
            self.commit(self.uncommitted(partitions))
        self.events.released(kind, partitions)

    def commit(self, positions: dict[int, int]) -> None:
        if not positions or self._consumer is None:
            return
        since = time.monotonic()
        offsets = {partition_of(self._topic, each): at for each, at in positions.items()}
        try:
            self._consumer.commit(offsets)
        except (KafkaError, ClientError) as refusal:
            self.events.record(REFUSED, positions, since, str(refusal))
        else:
            self.committed(positions, since)


class _Listener(RebalanceListener):
    def __init__(self, member: SawlogConsumer) -> None:
        self._member = member

    def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._member.events.assigned([each.partition for each in partitions])

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._member.released(REVOKED, [each.partition for each in partitions])

    def lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._member.released(LOST, [each.partition for each in partitions])
