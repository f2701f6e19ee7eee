"""What a reader may want to hear of its group."""

from collections.abc import Sequence

from sawlog.core.ids import TopicPartition


class RebalanceListener:
    """Called from within `poll` and `close`, in the reader's thread; the consumer may be used.

    What one of these raises comes out of `poll`; the change itself is carried out nevertheless.
    """

    def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """These are new, besides those that stay. To begin elsewhere than at the committed offset,
        `seek` here.
        """

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """These are about to go to others: the last moment to commit for them."""

    def lost(self, partitions: Sequence[TopicPartition]) -> None:
        """These are others' already, and cannot be committed for any more."""
        self.revoked(partitions)
