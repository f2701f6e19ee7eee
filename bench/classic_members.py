"""The members of one classic group, driven by one thread: join, sync, rejoin and leave."""

import time

from bench.raw import BadAnswer, Wires, check, frame, read
from sawlog.core.errors import ErrorCode
from sawlog.protocol.codec import encode
from sawlog.protocol.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from sawlog.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from sawlog.protocol.messages.heartbeat_request import HeartbeatRequest
from sawlog.protocol.messages.heartbeat_response import HeartbeatResponse
from sawlog.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from sawlog.protocol.messages.join_group_response import JoinGroupResponse
from sawlog.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from sawlog.protocol.messages.leave_group_response import LeaveGroupResponse
from sawlog.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from sawlog.protocol.messages.sync_group_response import SyncGroupResponse

SESSION_MS = 45_000
REBALANCE_MS = 60_000
PROTOCOL_TYPE, PROTOCOL = "consumer", "range"
_FORMAT = (0).to_bytes(2, "big")  # the version of subscription and assignment


def ranges(members: int, partitions: int) -> list[range]:
    """Consecutive partitions for each member, like the range assignor."""
    least, more = divmod(partitions, members)
    starts = [number * least + min(number, more) for number in range(members + 1)]
    return [range(starts[number], starts[number + 1]) for number in range(members)]


class ClassicGroup:
    """Members are numbered; `gather` brings them into one generation with a leader."""

    def __init__(self, wires: Wires, group_id: str, topic: str, partitions: int) -> None:
        self.id = group_id
        self._wires = wires
        self._count = len(wires.all)
        self._subscription = _FORMAT + encode(ConsumerProtocolSubscription([topic]), 0)
        self._assignments = [
            _FORMAT + encode(ConsumerProtocolAssignment([TopicPartition(topic, list(share))]), 0)
            for share in ranges(self._count, partitions)
        ]
        self._ids: list[str] = []
        self._joins: list[bytes] = []
        self._leader = 0
        self._generation = 0

    def gather(self) -> None:
        """Bring all members into one stable generation."""
        self._ids = [self._member_id(number) for number in range(self._count)]
        self._joins = [frame(self._join(member_id)) for member_id in self._ids]
        self._join_until_complete()
        syncs = self._syncs(self._generation)
        for wire, sync in zip(self._wires.all, syncs, strict=True):
            wire.send(sync)
        self._check_syncs(self._one_answer_each())

    def _member_id(self, number: int) -> str:
        """A new member gets its id and has to join again with it (KIP-394)."""
        answer = self._wires.all[number].ask(self._join(""), JoinGroupResponse)
        if answer.error_code != ErrorCode.MEMBER_ID_REQUIRED:
            raise BadAnswer(f"a member without an id was let in: {answer.error_code}")
        return answer.member_id

    def _join(self, member_id: str) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self.id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(PROTOCOL, self._subscription)],
        )

    def _join_until_complete(self) -> None:
        """Without a delay the first generation has one member: members of an incomplete generation
        join again."""
        wires = self._wires.all
        generations = [0] * self._count
        full = -1
        for wire, join in zip(wires, self._joins, strict=True):
            wire.send(join)
        under_way = self._count
        while under_way:
            for number, received in self._wires.answers():
                answer = read(received, JoinGroupResponse)
                check(answer)
                generations[number] = answer.generation_id
                if len(answer.members) == self._count:
                    full, self._leader = answer.generation_id, number
                under_way -= 1
                if full < 0:
                    wires[number].send(self._joins[number])
                    under_way += 1
            if full >= 0 and not under_way:
                for number, generation in enumerate(generations):
                    if generation != full:
                        wires[number].send(self._joins[number])
                        under_way += 1
        self._generation = full

    def rebalance(self) -> float:
        """All members rejoin; seconds from the last JoinGroup to the last SyncGroup response."""
        expected = self._generation + 1
        syncs = self._syncs(expected)
        wires, joins = self._wires.all, self._joins
        others = [number for number in range(self._count) if number != self._leader]
        wires[self._leader].send(joins[self._leader])
        self._wait_for_rebalance(others[0])
        for number in others[:-1]:
            wires[number].send(joins[number])
        began = time.perf_counter()
        wires[others[-1]].send(joins[others[-1]])

        joined: dict[int, bytes] = {}
        synced: dict[int, bytes] = {}
        while len(synced) < self._count:
            for number, answer in self._wires.answers():
                if number in joined:
                    synced[number] = answer
                else:
                    joined[number] = answer
                    wires[number].send(syncs[number])
        elapsed_s = time.perf_counter() - began

        for number, answer in joined.items():
            self._check_join(number, answer, expected)
        self._check_syncs(synced)
        self._generation = expected
        return elapsed_s

    def _wait_for_rebalance(self, number: int) -> None:
        """The leader has rejoined; the others learn of it by their next heartbeat."""
        request = HeartbeatRequest(self.id, self._generation, self._ids[number])
        while True:
            answer = self._wires.all[number].ask(request, HeartbeatResponse)
            if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                return
            check(answer)

    def _check_join(self, number: int, received: bytes, generation: int) -> None:
        answer = read(received, JoinGroupResponse)
        check(answer)
        leader = self._ids[self._leader]
        if (answer.generation_id, answer.leader) != (generation, leader):
            raise BadAnswer(f"generation {answer.generation_id} led by {answer.leader}")
        expected = self._count if number == self._leader else 0
        if len(answer.members) != expected:
            raise BadAnswer(
                f"{len(answer.members)} members in the JoinGroup response, expected {expected}"
            )

    def _syncs(self, generation: int) -> list[bytes]:
        """The SyncGroup request of each member; the leader's has the assignments."""
        everything = [
            SyncGroupRequestAssignment(member_id, assignment)
            for member_id, assignment in zip(self._ids, self._assignments, strict=True)
        ]
        return [
            frame(
                SyncGroupRequest(
                    group_id=self.id,
                    generation_id=generation,
                    member_id=member_id,
                    protocol_type=PROTOCOL_TYPE,
                    protocol_name=PROTOCOL,
                    assignments=everything if number == self._leader else [],
                )
            )
            for number, member_id in enumerate(self._ids)
        ]

    def _one_answer_each(self) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        while len(found) < self._count:
            found.update(self._wires.answers())
        return found

    def _check_syncs(self, answers: dict[int, bytes]) -> None:
        for number, received in answers.items():
            answer = read(received, SyncGroupResponse)
            check(answer)
            if answer.assignment != self._assignments[number]:
                raise BadAnswer("a member got something else than it was assigned")

    def leave(self) -> None:
        members = [MemberIdentity(member_id) for member_id in self._ids]
        request = LeaveGroupRequest(group_id=self.id, members=members)
        check(self._wires.all[0].ask(request, LeaveGroupResponse))
