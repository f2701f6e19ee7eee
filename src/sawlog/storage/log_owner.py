"""The data directory as one of its logs sees it."""

from typing import TYPE_CHECKING, Protocol

from sawlog.core.ports import Clock, Disk, DiskError, Random, Timer

if TYPE_CHECKING:
    from sawlog.storage.log import Log


class LogOwner(Protocol):
    """What a log needs from around it, and whom it tells of what happened."""

    disk: Disk
    clock: Clock
    timer: Timer
    random: Random
    offline: DiskError | None

    def fail(self, error: DiskError) -> None:
        """The disk cannot be trusted any more: the directory goes offline for good."""

    def refused(self, error: DiskError) -> None:
        """A write was refused for lack of room or descriptors: whoever runs the broker must know,
        but not at every write."""

    def flushed(self, log: "Log") -> None:
        """A log's `flushed_offset` has moved: the next checkpoint has to say so."""

    def rolled(self, log: "Log") -> None:
        """A segment is complete: a producer snapshot at `end_offset` and a checkpoint are due."""

    def start_moved(self, log: "Log") -> None:
        """A log's `start_offset` has moved: a checkpoint is due."""

    def lower_checkpoints(self, log: "Log", offset: int) -> None:
        """No checkpoint on disk claims more than `offset` for this log when this returns."""
