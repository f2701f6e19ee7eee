"""Room kept back on the disk, so that a full one still takes what makes room: a topic's deletion.

It is a file of zeros that is cut by a piece whenever an urgent write finds no room, and made whole
again when there is some.
"""

from collections.abc import Callable

from sawlog.core.event_logger import EventLogger
from sawlog.core.ports import Disk, DiskError, Timer

RESERVE = "store.reserve"
RESERVE_BYTES = 1 << 20
"""The elections of five thousand partitions, and some deletions after them."""
PIECE_BYTES = 64 << 10
"""Given at a time: the rest stays for the next write, because producers take what is left over."""
REMAKE_MS = 60_000
logger = EventLogger("sawlog.cluster.disk_reserve")


class Reserve:
    """At most RESERVE_BYTES; less, or none, while the disk is full."""

    def __init__(self, disk: Disk, timer: Timer, is_over: Callable[[], bool]) -> None:
        """`is_over` tells when nothing is to be made any more."""
        self._disk = disk
        self._timer = timer
        self._is_over = is_over
        self._remake_is_due = False

    def keep(self) -> None:
        """Makes it whole, off the loop, if it is not."""
        self._remake_is_due = False
        if self._is_over() or self._size() >= RESERVE_BYTES:
            return

        def made(error: DiskError | None) -> None:
            if error is not None:
                logger.warning("no room in reserve for the store", reason=error.reason)
                self._remake_later()

        self._disk.replace_later([(RESERVE, bytes(RESERVE_BYTES))], made)

    def give(self, size: int) -> bool:
        """Frees at least this many bytes; False where that many are not there."""
        left = self._size()
        if left < size or not left:
            return False
        try:
            file = self._disk.open(RESERVE)
            file.truncate(max(0, left - max(size, PIECE_BYTES)))
            file.close()
        except DiskError as error:
            logger.warning("room in reserve cannot be used", reason=error.reason)
            return False
        logger.warning("the disk is full: room in reserve is used", left_bytes=self._size())
        self._remake_later()
        return True

    def _size(self) -> int:
        try:
            file = self._disk.open(RESERVE)
        except (DiskError, FileNotFoundError):
            return 0
        size = file.size
        file.close()
        return size

    def _remake_later(self) -> None:
        if not self._remake_is_due:
            self._remake_is_due = True
            self._timer.after(REMAKE_MS, self.keep)
