"""The warning about an unclean election, by the broker that wrote it to the store."""

from typing import NamedTuple, Self

from sawlog.cluster.znodes import PartitionState
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import NodeId, TopicPartition

logger = EventLogger(__name__)


class UncleanElection(NamedTuple):
    """A leader that was not in sync when it was elected."""

    partition: TopicPartition
    leader: NodeId
    leader_epoch: int
    old_isr: tuple[NodeId, ...]

    @classmethod
    def between(
        cls, partition: TopicPartition, old: PartitionState, new: PartitionState
    ) -> Self | None:
        """Return the unclean election that makes `new` of `old`; None for any other change."""
        if new.unclean_epoch == old.unclean_epoch:
            return None
        return cls(partition, new.leader, new.leader_epoch, tuple(old.isr))

    def warn(self) -> None:
        logger.warning(
            "unclean leader election: acknowledged records may be lost",
            partition=str(self.partition),
            leader=self.leader,
            leader_epoch=self.leader_epoch,
            old_isr=list(self.old_isr),
        )
