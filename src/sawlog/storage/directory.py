"""The data directory of one broker: all its logs, and the small files that speak for all of them.

Promises: checkpoints never claim more than is synced; a clean stop leaves a marker that lets the
next start read almost nothing; a failed fsync takes the directory offline for good. Not here: who
may open the directory (`server/disk` locks it), which partitions should exist (`cluster`).
"""

from collections.abc import Callable

from sawlog.core.ids import TopicId, TopicName, TopicPartition
from sawlog.core.ports import Clock, Disk, DiskError, Random, Timer
from sawlog.storage.config import LogConfig
from sawlog.storage.log import Log


class LogDirectory:
    """All logs of a data directory.

    Invariants: the recovery point on disk of every log is at or below its `flushed_offset`; once
    `offline` is set nothing is written any more.
    """

    logs: dict[TopicPartition, Log]
    offline: DiskError | None
    was_clean: bool
    """Whether the last stop left the marker; known after `open`."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        timer: Timer,
        random: Random,
        *,
        config_for: Callable[[TopicName], LogConfig],
        on_offline: Callable[[DiskError], None] | None = None,
    ) -> None:
        raise NotImplementedError

    def open(self) -> None:
        """Opens every log, recovering those that need it, and finishes interrupted deletions."""
        raise NotImplementedError

    def identify(self, cluster_id: str, node_id: int) -> None:
        """Writes meta.properties, or checks it: ValueError where it names another broker."""
        raise NotImplementedError

    def create(self, tp: TopicPartition, topic_id: TopicId, config: LogConfig) -> Log:
        """A new, empty log; its directory and partition.metadata are on disk."""
        raise NotImplementedError

    def delete(self, tp: TopicPartition) -> None:
        """The log is gone at once (renamed away, as Kafka does); its files go right after."""
        raise NotImplementedError

    def checkpoint_later(self) -> None:
        """Writes recovery points, start offsets, watermarks and producer snapshots off the loop.

        Happens by itself at every roll and every few seconds while something changes.
        """
        raise NotImplementedError

    def close_cleanly(self, broker_epoch: int = -1) -> None:
        """Flushes, checkpoints, closes; the marker is written last, if nothing failed."""
        raise NotImplementedError
