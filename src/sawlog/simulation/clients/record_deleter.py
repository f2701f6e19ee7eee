"""A simulated tool that deletes old records of a topic, as an administrator does."""

from typing import Any

from sawlog.core.ids import NodeId
from sawlog.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from sawlog.simulation.clients.cluster_client import ClusterClient
from sawlog.simulation.history.history import History

PAUSES_MS = (200, 800, 2_000)
TIMEOUT_MS = 2_000


class RecordDeleter(ClusterClient):
    """Deletes up to offsets that consumers have read. `requested` gets each one before it is sent:
    a request without an answer may be carried out, too."""

    def start(self, history: History, requested: dict[int, int]) -> None:
        self._history = history
        self._requested = requested
        self.refresh(self._delete)

    def _delete(self) -> None:
        if self.is_stopped:
            return
        polls = [poll for poll in self._history.polls[-50:] if self.leader_of(poll.partition)]
        if not polls:
            self.refresh(self._delete)
            return
        poll = self.generator.choice(polls)
        leader = self.leader_of(poll.partition)
        assert leader is not None
        self._send(leader, poll.partition, poll.records[0][0])

    def _send(self, leader: NodeId, partition: int, offset: int) -> None:
        self._requested[partition] = max(offset, self._requested.get(partition, 0))
        topic = DeleteRecordsTopic(self.topic, [DeleteRecordsPartition(partition, offset)])
        request = DeleteRecordsRequest([topic], timeout_ms=TIMEOUT_MS)
        self.send(leader, request, self._answered)

    def _answered(self, _: Any) -> None:
        pause_ms = self.generator.choice(PAUSES_MS)
        self.schedule.after(pause_ms, lambda: self.refresh(self._delete))
