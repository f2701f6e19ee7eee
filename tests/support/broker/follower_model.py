"""A follower of all partitions of a topic: it sends incremental fetches as a broker does.

It names only the partitions whose offsets differ from those that it sent last, appends what a
response brings, and flushes when the test says so.
"""

from collections.abc import Iterable
from typing import Any

from sawlog.core.ids import NodeId, TopicName
from sawlog.protocol.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from sawlog.protocol.record_batch import batches_in
from sawlog.simulation.simulated_broker import Call, SimulatedMachine
from support.broker.replica_fetches import VERSION
from support.broker.requests import TOPIC

News = dict[int, tuple[int, int, int, bool, list[int], int]]
"""Per partition of a response: error, high watermark, log start offset, whether the follower is to
flush, the base offsets of the batches, and the diverging epoch."""


class FollowerModel:
    """Invariant: `_sent` has the parameters that the session of the leader has."""

    def __init__(
        self, machine: SimulatedMachine, node: NodeId, partitions: int, *, broker_epoch: int = 1_000
    ) -> None:
        self.machine = machine
        self.node = node
        self.broker_epoch = broker_epoch
        self.end_offsets = dict.fromkeys(range(partitions), 0)
        self.flushed_offsets = dict.fromkeys(range(partitions), 0)
        self.start_offsets = dict.fromkeys(range(partitions), 0)
        self.watermarks = dict.fromkeys(range(partitions), -1)
        self.paused: set[int] = set()  # not fetched now
        self.session_id = 0
        self.session_epoch = 0
        self._sent: dict[int, tuple[int, ...]] = {}

    @property
    def fetched(self) -> list[int]:
        """The partitions of the session."""
        return list(self._sent)

    def epoch_of(self, index: int) -> int:
        state = self.machine.broker.metadata.image.partition(TOPIC, index)
        assert state is not None
        return state.leader_epoch

    def request(self, *, wait_ms: int = 0, max_bytes: int = 1 << 20) -> FetchRequest:
        """Build the next fetch of the session."""
        image = self.machine.broker.metadata.image
        topic_id = image.topics[TopicName(TOPIC)].id
        named, forgotten = [], []
        for index in self.end_offsets:
            if index in self.paused:
                if self._sent.pop(index, None) is not None:
                    forgotten.append(index)
                continue
            wanted = (
                self.end_offsets[index],
                self.flushed_offsets[index],
                self.start_offsets[index],
                self.epoch_of(index),
            )
            if self._sent.get(index) != wanted:
                self._sent[index] = wanted
                named.append(_partition(index, *wanted))
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            session_id=self.session_id,
            session_epoch=self.session_epoch,
            topics=[FetchTopic(topic_id=topic_id, partitions=named)] if named else [],
            replica_state=ReplicaState(self.node, self.broker_epoch),
        )
        if forgotten:
            request.forgotten_topics_data = [ForgottenTopic("", topic_id, forgotten)]
        self.session_epoch += 1
        return request

    def send(self, *, wait_ms: int = 0, max_bytes: int = 1 << 20) -> Call:
        return self.machine.send(self.request(wait_ms=wait_ms, max_bytes=max_bytes), VERSION)

    def fetch(self, *, max_bytes: int = 1 << 20) -> News:
        """Fetch without waiting, and take over the response."""
        return self.take(self.send(max_bytes=max_bytes))

    def take(self, call: Call) -> News:
        """Append what a response has; returns its partitions."""
        assert call.is_done
        assert call.answered.error_code == 0, call.answered
        self.session_id = call.answered.session_id
        found: News = {}
        for topic in call.answered.responses:
            for data in topic.partitions:
                found[data.partition_index] = self._append(data)
        return found

    def _append(self, data: Any) -> tuple[int, int, int, bool, list[int], int]:
        index = data.partition_index
        batches = [header for _, header in batches_in(memoryview(data.records or b""))]
        if not data.error_code and data.diverging_epoch.epoch < 0:
            for header in batches:
                self.end_offsets[index] = max(self.end_offsets[index], header.next_offset)
            self.watermarks[index] = data.high_watermark
            self.start_offsets[index] = data.log_start_offset
        return (
            data.error_code,
            data.high_watermark,
            data.log_start_offset,
            data.is_awaited,
            [header.base_offset for header in batches],
            data.diverging_epoch.epoch,
        )

    def flush(self, indexes: Iterable[int] | None = None) -> None:
        for index in self.end_offsets if indexes is None else indexes:
            self.flushed_offsets[index] = self.end_offsets[index]

    def settle(self) -> None:
        """Fetch and flush until responses have no news."""
        self.fetch()
        while True:
            self.flush()
            if not self.fetch():
                return


def _partition(index: int, end: int, flushed: int, start: int, epoch: int) -> FetchPartition:
    partition = FetchPartition(
        index, fetch_offset=end, flushed_offset=flushed, partition_max_bytes=1 << 20
    )
    partition.log_start_offset = start
    partition.current_leader_epoch = epoch
    return partition
