"""A simulated member of a classic group: JoinGroup, SyncGroup, Heartbeat, and eager rebalances."""

from typing import Any

from sawlog.core.errors import ErrorCode
from sawlog.core.ids import NodeId, TopicName
from sawlog.protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    read_assignment,
    write_assignment,
    write_subscription,
)
from sawlog.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from sawlog.protocol.messages.heartbeat_request import HeartbeatRequest
from sawlog.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from sawlog.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from sawlog.simulation.clients.group_client import NO_MEMBER
from sawlog.simulation.clients.group_member import HEARTBEAT_MS, GroupMember

ASSIGNOR = "dealt"
SESSION_TIMEOUT_MS = 6_000
REBALANCE_TIMEOUT_MS = 6_000
METADATA_SHARE = 0.3
"""How often a heartbeat is followed by a look at the metadata."""
JOIN_TIMEOUT_MS = 10_000
"""A JoinGroup is answered once all members have joined, or the rebalance timeout is over."""


class ClassicMember(GroupMember):
    """Gives up its partitions before each join, after a last commit. Generation 0 is none. The
    leader of the group joins again when the topic has more partitions than it has dealt."""

    _dealt: frozenset[int] = frozenset()

    @property
    def _identity(self) -> tuple[str | None, int]:
        return NO_MEMBER

    def _talk(self, coordinator: NodeId) -> None:
        if self._epoch == 0:
            self._join(coordinator)
        else:
            request = HeartbeatRequest(self._group, self._epoch, self._member_id)
            self.send(coordinator, request, self._heard)

    def _heard(self, response: Any) -> None:
        code = None if response is None else response.error_code
        if code == ErrorCode.NONE and self._dealt and self._dealt != self.leaders.keys():
            self._rejoin()
        elif code == ErrorCode.NONE:
            self._commit()
            if self.generator.random() < METADATA_SHARE:
                self.refresh(self._beat)
            else:
                self._beat_later(HEARTBEAT_MS)
        elif code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._commit()
            self._rejoin()
        else:
            self._failed(code)

    def _failed(self, code: int | None) -> None:
        """Join again if the coordinator refuses the member; look for another one otherwise."""
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""
            self._rejoin()
        elif code in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS):
            self._rejoin()
        else:
            self._coordinator = None
            self._beat_later()

    def _rejoin(self) -> None:
        self._epoch = 0
        self._assign(())
        self._beat_later()

    # Joining

    def _join(self, coordinator: NodeId) -> None:
        subscription = write_subscription(ConsumerProtocolSubscription([self.topic]))
        request = JoinGroupRequest(
            self._group,
            SESSION_TIMEOUT_MS,
            REBALANCE_TIMEOUT_MS,
            self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(ASSIGNOR, subscription)],
        )
        self.send(coordinator, request, self._joined, timeout_ms=JOIN_TIMEOUT_MS)

    def _joined(self, response: Any) -> None:
        code = None if response is None else response.error_code
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = response.member_id
            self._beat_later(0)
        elif code == ErrorCode.NONE and self._coordinator is not None:
            self._member_id = response.member_id
            self._sync(self._coordinator, response)
        else:
            self._failed(code)

    def _sync(self, coordinator: NodeId, joined: Any) -> None:
        """Fetch the assignment of a generation; its leader sends the assignments of all."""
        is_leader = joined.leader == joined.member_id
        dealt = frozenset(self.leaders)
        request = SyncGroupRequest(
            self._group,
            joined.generation_id,
            joined.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=ASSIGNOR,
            assignments=self._deal([each.member_id for each in joined.members])
            if is_leader
            else [],
        )

        def synced(response: Any) -> None:
            code = None if response is None else response.error_code
            if code != ErrorCode.NONE:
                self._failed(code)
                return
            self._epoch = joined.generation_id
            self._dealt = dealt if is_leader else frozenset()
            topics = read_assignment(response.assignment).assigned_partitions
            self._assign(index for topic in topics for index in topic.partitions)
            self._beat_later(HEARTBEAT_MS)

        self.send(coordinator, request, synced)

    def _deal(self, members: list[str]) -> list[SyncGroupRequestAssignment]:
        """Give each member every n-th partition."""
        partitions, members = sorted(self.leaders), sorted(members)
        return [
            SyncGroupRequestAssignment(
                member,
                write_assignment({TopicName(self.topic): partitions[place :: len(members)]}),
            )
            for place, member in enumerate(members)
        ]
