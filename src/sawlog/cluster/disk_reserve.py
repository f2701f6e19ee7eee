"""Reserved disk space for the store, so that topics can be deleted when the disk is full.

The reserve is a file of zeros. It is truncated by a piece when an urgent write finds the disk full,
and filled up again when there is space.
"""

from collections.abc import Callable

from sawlog.core.event_logger import EventLogger
from sawlog.core.ports import Disk, DiskError, Timer

RESERVE = "store.reserve"
RESERVE_BYTES = 1 << 20
"""Enough for the elections of five thousand partitions and some deletions after them."""
PIECE_BYTES = 64 << 10
"""Freed at a time. The rest stays reserved, because producers fill up freed space."""
REFILL_MS = 60_000
logger = EventLogger("sawlog.cluster.disk_reserve")


class DiskReserve:
    """Holds RESERVE_BYTES, or less while the disk is full."""

    def __init__(self, disk: Disk, timer: Timer, is_closed: Callable[[], bool]) -> None:
        """`is_closed` tells that the store is closed and the reserve no longer refilled."""
        self._disk = disk
        self._timer = timer
        self._is_closed = is_closed
        self._refill_is_due = False

    def refill(self) -> None:
        """Write the file at its full size, off the loop, if it is shorter."""
        self._refill_is_due = False
        if self._is_closed() or self._size() >= RESERVE_BYTES:
            return

        def written(error: DiskError | None) -> None:
            if error is not None:
                logger.warning(
                    "cannot reserve disk space for metadata; retrying", reason=error.reason
                )
                self._refill_later()

        self._disk.replace_later([(RESERVE, bytes(RESERVE_BYTES))], written)

    def release(self, size: int) -> bool:
        """Free at least `size` bytes on the disk; False if the reserve is too small."""
        left = self._size()
        if left < size or not left:
            return False
        try:
            file = self._disk.open(RESERVE)
            file.truncate(max(0, left - max(size, PIECE_BYTES)))
            file.close()
        except DiskError as error:
            logger.warning("cannot free the reserved disk space", reason=error.reason)
            return False
        logger.warning(
            "the disk is full: metadata is written to reserved space", left_bytes=self._size()
        )
        self._refill_later()
        return True

    def _size(self) -> int:
        try:
            file = self._disk.open(RESERVE)
        except (DiskError, FileNotFoundError):
            return 0
        size = file.size
        file.close()
        return size

    def _refill_later(self) -> None:
        if not self._refill_is_due:
            self._refill_is_due = True
            self._timer.after(REFILL_MS, self.refill)
