"""A simulated consumer of one partition: it follows the leader and remembers its position."""

from collections.abc import Callable
from typing import Any

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import NodeId
from sawlog.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from sawlog.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from sawlog.simulation.clients.cluster_client import (
    LIMIT_BYTES,
    ClusterClient,
    read_records,
)
from sawlog.simulation.history.history import History, Poll

MAX_WAIT_MS = 300
NEW_PARTITIONS_MS = 1_000
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
EARLIEST = -2
"""The timestamp that ListOffsets takes for the log start offset."""


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
        *,
        isolation: int = READ_UNCOMMITTED,
    ) -> None:
        self._client = client
        self._partition = partition
        self.position = position
        self.high_watermark = -1
        self._history = history
        self._name = name
        self._group = group
        self._isolation = isolation
        self._resets = 0
        self._on_poll = on_poll
        self.is_stopped = False

    @property
    def _poller(self) -> str:
        """The name in the history: after a reset another one, which may begin anywhere."""
        return f"{self._name}+{self._resets}" if self._resets else self._name

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
            isolation_level=self._isolation,
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
            poll = Poll(self._poller, self._partition, self.position, ())
            self._history.out_of_range.append(poll)
            self._reset()
        elif data.error_code != ErrorCode.NONE:
            self._client.refresh(self.start)
        else:
            try:
                records, position = read_records(
                    data.records, self.position, data.aborted_transactions
                )
            except KafkaError:
                self._history.corrupt_responses += 1
                self._client.refresh(self.start)
                return
            self.high_watermark = data.high_watermark
            self._deliver(records, position)

    def _reset(self) -> None:
        """Go on at the log start offset if the records at the position were deleted."""
        leader = self._client.leader_of(self._partition)

        def answered(response: Any) -> None:
            if self.is_stopped or self._client.is_stopped:
                return
            answer = None if response is None else response.topics[0].partitions[0]
            if answer is not None and answer.offset > self.position:
                self.position = answer.offset
                self._resets += 1
            self._client.refresh(self.start)

        topic = ListOffsetsTopic(
            self._client.topic, [ListOffsetsPartition(self._partition, timestamp=EARLIEST)]
        )
        if leader is None:
            self._client.refresh(self.start)
        else:
            self._client.send(leader, ListOffsetsRequest(-1, topics=[topic]), answered)

    def _deliver(self, records: tuple[tuple[int, bytes], ...], position: int) -> None:
        poll = Poll(self._poller, self._partition, self.position, records, self._group)
        if records:
            self._history.polls.append(poll)
        self.position = position
        if self._on_poll is not None:
            self._on_poll(poll)
        self._client.schedule.after(self._client.generator.choice((0, 1, 20)), self.start)


class ConsumerClient(ClusterClient):
    """Consumes all partitions of a topic from the start, without a group; also those that are
    added later."""

    def read(self, history: History, *, isolation: int = READ_UNCOMMITTED) -> None:
        self.readers: dict[int, PartitionReader] = {}
        self._history = history
        self._isolation = isolation
        self.refresh(self._look)

    def _look(self) -> None:
        if self.is_stopped:
            return
        for index in sorted(self.leaders.keys() - self.readers.keys()):
            reader = PartitionReader(
                self, index, 0, self._history, self.name, isolation=self._isolation
            )
            self.readers[index] = reader
            reader.start()
        if self.readers:
            self.schedule.after(NEW_PARTITIONS_MS, self._look)
        else:
            self.refresh(self._look)
