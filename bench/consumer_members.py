"""The members of one consumer group (KIP-848), driven by one thread.

As in real clients, a member owns the assignment of its last heartbeat response, and confirms it in
the next heartbeat. Real clients wait between heartbeats; these wait only when they have the whole
assignment of the last epoch.
"""

import struct
import time
from base64 import urlsafe_b64encode

from bench.raw import BadAnswer, Wires, check, frame, read
from sawlog.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from sawlog.protocol.messages.consumer_group_heartbeat_response import (
    ConsumerGroupHeartbeatResponse,
)

REBALANCE_MS = 60_000
MOST_S = 60.0
JOINING, LEAVING = 0, -1
_MARK = 0x01020304  # a marker that is replaced by the epoch
_EPOCH = struct.Struct(">i")


def member_id(group_id: str, number: int) -> str:
    """A member id as long as that of a real client."""
    return urlsafe_b64encode(f"{group_id}/{number}".encode().rjust(16)[-16:]).decode().rstrip("=")


class Member:
    """The epoch and partitions of one member, confirmed or not."""

    __slots__ = ("_after", "_before", "_group_id", "_has_news", "_id", "epoch", "owned")

    def __init__(self, group_id: str, number: int) -> None:
        self._group_id = group_id
        self._id = member_id(group_id, number)
        self.epoch = JOINING
        self.owned: dict[bytes, tuple[int, ...]] = {}
        self._has_news = False
        quiet = frame(ConsumerGroupHeartbeatRequest(group_id, self._id, _MARK))
        self._before, _, self._after = quiet.partition(_EPOCH.pack(_MARK))

    @property
    def partitions(self) -> int:
        return sum(map(len, self.owned.values()))

    def join(self, topic: str) -> bytes:
        return frame(
            ConsumerGroupHeartbeatRequest(
                group_id=self._group_id,
                member_id=self._id,
                member_epoch=JOINING,
                rebalance_timeout_ms=REBALANCE_MS,
                subscribed_topic_names=[topic],
                topic_partitions=[],
            )
        )

    def leave(self) -> bytes:
        return self._quiet(LEAVING)

    def heartbeat(self) -> bytes:
        """The next heartbeat, with the owned partitions if the last response changed them."""
        if not self._has_news:
            return self._quiet(self.epoch)
        self._has_news = False
        return frame(
            ConsumerGroupHeartbeatRequest(
                group_id=self._group_id,
                member_id=self._id,
                member_epoch=self.epoch,
                topic_partitions=[
                    TopicPartitions(topic_id, list(owned)) for topic_id, owned in self.owned.items()
                ],
            )
        )

    def _quiet(self, epoch: int) -> bytes:
        return b"".join((self._before, _EPOCH.pack(epoch), self._after))

    def on_response(self, answer: ConsumerGroupHeartbeatResponse) -> bool:
        """Take a response; True if it has an assignment."""
        check(answer)
        self.epoch = answer.member_epoch
        if answer.assignment is None:
            return False
        assigned = {
            one.topic_id: tuple(one.partitions) for one in answer.assignment.topic_partitions
        }
        self._has_news = assigned != self.owned
        self.owned = assigned
        return True


class ConsumerGroup:
    """A new group."""

    def __init__(self, wires: Wires, group_id: str, topic: str, partitions: int) -> None:
        self.id = group_id
        self._wires = wires
        self._topic = topic
        self._partitions = partitions
        self.members = [Member(group_id, number) for number in range(len(wires.all))]

    def rebalance(self) -> float:
        """All members join; the seconds from the last join to the last assignment."""
        wires, members = self._wires.all, self.members
        joins = [member.join(self._topic) for member in members]
        for wire, join in zip(wires[:-1], joins[:-1], strict=True):
            wire.send(join)
        began = last_assigned = time.perf_counter()
        wires[-1].send(joins[-1])
        joined: set[int] = set()
        done: set[int] = set()
        last_epoch = 0
        while len(done) < len(members):
            for number, received in self._wires.answers():
                member = members[number]
                joined.add(number)
                if member.on_response(read(received, ConsumerGroupHeartbeatResponse)):
                    last_assigned = time.perf_counter()
                if member.epoch > last_epoch:  # members with a full assignment may have to revoke
                    last_epoch = member.epoch
                    for quiet in done:
                        wires[quiet].send(members[quiet].heartbeat())
                    done.clear()
                if len(joined) == len(members) and self._has_all(member, last_epoch):
                    done.add(number)
                else:
                    wires[number].send(member.heartbeat())
            if last_assigned - began > MOST_S or time.perf_counter() - last_assigned > MOST_S:
                raise BadAnswer(f"{len(done)} of {len(members)} members got what they should have")
        check_assignment(members, self._partitions)
        return last_assigned - began

    def _has_all(self, member: Member, last_epoch: int) -> bool:
        least, more = divmod(self._partitions, len(self.members))
        return member.epoch == last_epoch and member.partitions in (least, least + bool(more))

    def leave(self) -> None:
        frames = [iter([member.leave()]) for member in self.members]
        self._wires.pump(frames, _check_answer)


def _check_answer(_number: int, received: bytes) -> None:
    check(read(received, ConsumerGroupHeartbeatResponse))


def check_assignment(members: list[Member], partitions: int) -> None:
    """Raise BadAnswer unless every partition belongs to exactly one member."""
    held = [
        (topic_id, partition)
        for member in members
        for topic_id, owned in member.owned.items()
        for partition in owned
    ]
    if len(held) != partitions or len(set(held)) != partitions:
        raise BadAnswer(f"{len(held)} of {partitions} assigned, {len(set(held))} different ones")
