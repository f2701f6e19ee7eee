"""The interface by which an application learns of rebalances."""

from collections.abc import Callable, Iterable, Sequence

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


def call_listener(
    call: Callable[[Sequence[TopicPartition]], None], partitions: Iterable[TopicPartition]
) -> list[Exception]:
    """Call a method of a listener; return its exception, for `poll` to raise after the change."""
    try:
        call(sorted(partitions))
    except Exception as failure:
        return [failure]
    return []
