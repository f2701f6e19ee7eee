"""The store's side of in-sync sets, for tests of leaders: one state with a version."""

from typing import NamedTuple

from sawlog.cluster.isr_changes import IsrWriteError
from sawlog.cluster.metadata_image import InSyncMember
from sawlog.core.ids import LeaderEpoch, TopicId, TopicPartition
from sawlog.replication.isr_writer import IsrWritten


class IsrWrite(NamedTuple):
    leader_epoch: int
    members: tuple[InSyncMember, ...]
    partition_epoch: int
    done: IsrWritten

    @property
    def nodes(self) -> list[int]:
        return [member.node for member in self.members]


class IsrWrites:
    """An IsrWriter that keeps the writes until the test decides them."""

    def __init__(self) -> None:
        self.is_suspended = False
        self.writes: list[IsrWrite] = []

    def write_isr(
        self,
        _name: TopicPartition,
        _topic_id: TopicId,
        leader_epoch: LeaderEpoch,
        members: tuple[InSyncMember, ...],
        partition_epoch: int,
        done: IsrWritten,
    ) -> None:
        self.writes.append(IsrWrite(leader_epoch, members, partition_epoch, done))

    def leave_isr(
        self,
        _name: TopicPartition,
        _topic_id: TopicId,
        _partition_epoch: int,
        _last_epoch: int,
        _done: IsrWritten,
    ) -> None:
        raise AssertionError("no log of these tests is damaged")

    def hand_on(
        self, _name: TopicPartition, _topic_id: TopicId, _partition_epoch: int, _done: IsrWritten
    ) -> None:
        raise AssertionError("no log of these tests is corrupt")

    def succeed(self) -> None:
        write = self.writes.pop(0)
        write.done(write.partition_epoch + 1)

    def fail(self, error: IsrWriteError) -> None:
        self.writes.pop(0).done(error)
