"""The data directory, as one of its logs sees it."""

from typing import Protocol, TypeVar

from sawlog.core.errors import KafkaError
from sawlog.core.ports import DiskError, Timer
from sawlog.storage.flusher import Flusher
from sawlog.storage.log_state import StoragePorts

LogT = TypeVar("LogT", contravariant=True)


class LogOwner(StoragePorts, Protocol[LogT]):
    """The data directory, as one of its logs sees it."""

    @property
    def flusher(self) -> Flusher: ...
    @property
    def offline(self) -> DiskError | None: ...

    @property
    def timer(self) -> Timer: ...

    def fail(self, error: DiskError) -> None:
        """The disk cannot be trusted any more: take the data directory offline for good."""

    def refusal(self, error: DiskError) -> KafkaError:
        """The error of a client whose write failed with `error`."""
        ...

    def flushed(self, log: LogT) -> None:
        """The `flushed_offset` of a log has moved: the next checkpoint has to include it."""

    def high_watermark_moved(self) -> None:
        """A high watermark has moved: checkpoint all of them within a few seconds."""

    def rolled(self, log: LogT) -> None:
        """A log has a new active segment: a producer snapshot and a checkpoint are due."""

    def start_moved(self, log: LogT) -> None:
        """The `start_offset` of a log has moved: a checkpoint is due."""

    def lower_checkpoints(self, log: LogT, offset: int) -> None:
        """When this returns, no checkpoint on disk has more than `offset` for this log."""

    def is_cleaning(self, log: LogT) -> bool:
        """Whether the log cleaner works on this log."""
        ...

    def abort_cleaning(self, log: LogT) -> None:
        """The closed segments of a log, or its policy, are about to change."""
