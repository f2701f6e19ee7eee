"""A simulated consumer of one partition: it follows the leader and remembers its position."""

from collections.abc import Callable
from typing import Any

from sawlog.core.errors import ErrorCode
from sawlog.core.ids import NodeId
from sawlog.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from sawlog.simulation.clients.cluster_client import (
    LIMIT_BYTES,
    RETRY_MS,
    ClusterClient,
    records_of,
)
from sawlog.simulation.history.history import History, Poll

MAX_WAIT_MS = 300


class PartitionReader:
    """Reads on until it is stopped. `on_poll` gets each position after new records."""

    def __init__(
        self,
        client: ClusterClient,
        partition: int,
        position: int,
        history: History,
        name: str,
        on_poll: Callable[[Poll], None] | None = None,
        group: str = "",
    ) -> None:
        self._client = client
        self._partition = partition
        self.position = position
        self.high_watermark = -1
        self._history = history
        self._name = name
        self._group = group
        self._on_poll = on_poll
        self.is_stopped = False

    def start(self) -> None:
        if self.is_stopped or self._client.is_stopped:
            return
        leader = self._client.leader_of(self._partition)
        if leader is None:
            self._client.refresh(self.start)
            return
        self._fetch(leader)

    def _fetch(self, leader: NodeId) -> None:
        partition = FetchPartition(
            self._partition, fetch_offset=self.position, partition_max_bytes=LIMIT_BYTES
        )
        request = FetchRequest(
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=LIMIT_BYTES,
            session_epoch=-1,
            topics=[FetchTopic(topic_id=self._client.topic_id, partitions=[partition])],
        )
        self._client.send(leader, request, self._answered, purpose=f"fetch {self._name}")

    def _answered(self, response: Any) -> None:
        if self.is_stopped or self._client.is_stopped:
            return
        if response is None or response.error_code or not response.responses:
            self._client.refresh(self.start)
            return
        data = response.responses[0].partitions[0]
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._history.out_of_range.append(Poll(self._name, self._partition, self.position, ()))
            self._client.schedule.after(RETRY_MS, self.start)
        elif data.error_code != ErrorCode.NONE:
            self._client.refresh(self.start)
        else:
            self.high_watermark = data.high_watermark
            self._deliver(tuple(records_of(data.records, self.position)))

    def _deliver(self, records: tuple[tuple[int, bytes], ...]) -> None:
        poll = Poll(self._name, self._partition, self.position, records, self._group)
        if records:
            self._history.polls.append(poll)
            self.position = records[-1][0] + 1
        if self._on_poll is not None:
            self._on_poll(poll)
        self._client.schedule.after(self._client.generator.choice((0, 1, 20)), self.start)


class ConsumerClient(ClusterClient):
    """Consumes all partitions of a topic from the start, without a group."""

    def read(self, partitions: int, history: History) -> None:
        self.readers = [
            PartitionReader(self, index, 0, history, self.name) for index in range(partitions)
        ]
        self.refresh(self._begin)

    def _begin(self) -> None:
        for reader in self.readers:
            reader.start()
