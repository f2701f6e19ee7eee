"""A simulated member of a consumer group (KIP-848): heartbeats, reads its partitions, commits."""

from typing import Any

from sawlog.core.errors import ErrorCode
from sawlog.core.ids import NodeId
from sawlog.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from sawlog.simulation.clients.group_member import HEARTBEAT_MS, GroupMember

REBALANCE_TIMEOUT_MS = 30_000
FENCED = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})


class ConsumerMember(GroupMember):
    """Epoch 0 is a member that is about to join. Commits follow the heartbeats. After a heartbeat
    without a response the next one is full, as those of real clients: an assignment may be lost."""

    _lives = 0
    _is_full = True

    @property
    def _identity(self) -> tuple[str | None, int]:
        return self._member_id, self._epoch

    def _talk(self, coordinator: NodeId) -> None:
        self._member_id = f"{self.name}-{self._lives}"
        owned = [TopicPartitions(self.topic_id, sorted(self._readers))] if self._readers else []
        request = ConsumerGroupHeartbeatRequest(
            self._group,
            self._member_id,
            self._epoch,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=[self.topic] if self._is_full else None,
            topic_partitions=owned,
        )
        self.send(coordinator, request, self._answered)

    def _answered(self, response: Any) -> None:
        code = None if response is None else response.error_code
        self._is_full = code != ErrorCode.NONE
        if code == ErrorCode.NONE:
            self._epoch = response.member_epoch
            if response.assignment is not None:
                topics = response.assignment.topic_partitions
                self._assign(index for topic in topics for index in topic.partitions)
            self._commit()
            self._beat_later(HEARTBEAT_MS)
            return
        if code in FENCED:
            self._epoch = 0
            self._lives += 1
            self._assign(())
        else:
            self._coordinator = None
        self._beat_later()
