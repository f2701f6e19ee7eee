"""The port through which a leader changes the stored in-sync set of its partition."""

from collections.abc import Callable
from typing import Protocol

from sawlog.cluster.isr_changes import IsrWriteError
from sawlog.cluster.metadata_image import InSyncMember
from sawlog.core.ids import LeaderEpoch, TopicId, TopicPartition

IsrWritten = Callable[[int | IsrWriteError], None]
"""Called with the new partition epoch, or with the error."""


class IsrWriter(Protocol):
    def write_isr(
        self,
        name: TopicPartition,
        topic_id: TopicId,
        leader_epoch: LeaderEpoch,
        members: tuple[InSyncMember, ...],
        partition_epoch: int,
        done: IsrWritten,
    ) -> None:
        """Replace the members if the stored state still has these epochs (compare-and-set)."""
        ...

    def leave_isr(
        self,
        name: TopicPartition,
        topic_id: TopicId,
        partition_epoch: int,
        last_epoch: int,
        done: IsrWritten,
    ) -> None:
        """Take this broker's damaged replica out of the in-sync set (compare-and-set); its log had
        no record of a newer leader epoch than `last_epoch`."""
        ...

    def hand_on(
        self, name: TopicPartition, topic_id: TopicId, partition_epoch: int, done: IsrWritten
    ) -> None:
        """Take this broker's replica, which has a corrupt batch, out of an in-sync set that has
        other members, in a new leader epoch (compare-and-set)."""
        ...
