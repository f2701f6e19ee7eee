"""The port through which a leader changes the stored in-sync set of its partition."""

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from sawlog.cluster.metadata_image import InSyncMember
from sawlog.core.ids import LeaderEpoch, TopicId, TopicPartition


class IsrWriteError(Enum):
    STALE = "stale"
    """Another change came first, or an added member may not join."""
    UNAVAILABLE = "unavailable"
    """The store did not answer: the change may have happened or not."""


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
