"""The interface by which an application learns of rebalances."""

from collections.abc import Sequence

from sawlog.core.ids import TopicPartition


class RebalanceListener:
    """Called within `poll` and `close`, in the polling thread; it may use the consumer.

    `poll` raises an exception of the listener after the change is applied.
    """

    def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Partitions were added; others stay. Use `seek` here to override committed offsets."""

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Partitions are about to be given up: the last chance to commit their offsets."""

    def lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Partitions may belong to other members already; their offsets cannot be committed."""
        self.revoked(partitions)
