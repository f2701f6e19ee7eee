"""The port through which a leader changes the stored in-sync set of its partition."""

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from sawlog.cluster.metadata_image import InSyncMember
from sawlog.core.ids import LeaderEpoch, TopicId, TopicPartition


class IsrWriteError(Enum):
    STALE = "stale"
    """The leader epoch or the partition epoch is not the newest; an image with it will follow."""
    UNAVAILABLE = "unavailable"
    """There was no answer: the change may have happened or not."""


IsrWritten = Callable[[int | IsrWriteError], None]
"""Called with the new partition epoch, or with the error."""


class IsrWriter(Protocol):
    @property
    def is_suspended(self) -> bool:
        """Whether the session of the coordination store is interrupted: the leader then keeps its
        in-sync set as it is."""
        ...

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
