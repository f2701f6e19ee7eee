"""Removes the files of segments that are not part of a log any more.

A removed file gets the suffix `.deleted` and is unlinked after file.delete.delay.ms, as in Kafka;
a start unlinks what a stop has left. A slice that is being sent keeps its open file.
"""

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

from sawlog.core.ports import Disk, DiskError, Timer
from sawlog.storage.log_files import DELETED
from sawlog.storage.segment import Segment


class SegmentRemover:
    """Removes segments of one log, oldest first, one at a time.

    Each one waits until the directory is synced, so that the one before it (perhaps of an earlier
    process) is durable: the disk may forget a rename, and the segments that come back after a crash
    must not leave a gap.
    """

    __slots__ = (
        "_delay_ms",
        "_directory",
        "_disk",
        "_due",
        "_is_closed",
        "_is_syncing",
        "_is_unlinking",
        "_on_done",
        "_on_error",
        "_queue",
        "_timer",
    )

    def __init__(
        self,
        disk: Disk,
        timer: Timer,
        directory: str,
        on_done: Callable[[], None],
        on_error: Callable[[DiskError], object],
    ) -> None:
        """`on_done` is called when the last queued segment was renamed, `on_error` where a rename
        fails; the rest is tried again with the next `remove`, or at the next start."""
        self._disk = disk
        self._timer = timer
        self._directory = directory
        self._on_done = on_done
        self._on_error = on_error
        self._queue: list[Segment] = []
        self._due: deque[Segment] = deque()  # `.deleted`, and the delay is over
        self._is_syncing = False
        self._is_unlinking = False
        self._is_closed = False
        self._delay_ms = 0

    def __len__(self) -> int:
        return len(self._queue)

    def set_delay(self, delay_ms: int) -> None:
        """Unlink files this long after their removal from now on: file.delete.delay.ms."""
        self._delay_ms = delay_ms

    def remove(self, segments: Iterable[Segment]) -> None:
        """Remove these segments off the loop, after those that are queued already."""
        self._queue += segments
        self._remove_next()

    def remove_now(self) -> None:
        """Rename all queued segments before this returns; DiskError where that fails."""
        while self._queue:
            self._disk.sync_directory(self._directory)
            self._queue.pop(0).change_suffix(self._disk, self._directory, DELETED)

    def unlink_later(self, segments: Iterable[Segment]) -> None:
        """Unlink segments whose files are `.deleted`, after the delay and off the loop."""
        for segment in segments:
            self._timer.after(self._delay_ms, partial(self._delay_is_over, segment))

    def close(self) -> None:
        """Stop; files that are left are removed after the next start."""
        self._is_closed = True
        for segment in self._queue:
            segment.close()

    def _remove_next(self) -> None:
        if self._queue and not self._is_syncing:
            self._is_syncing = True
            self._disk.sync_directory_later(self._directory, self._synced)

    def _synced(self, error: DiskError | None) -> None:
        self._is_syncing = False
        if self._is_closed or not self._queue:
            return
        try:
            if error is not None:
                raise error
            segment = self._queue.pop(0)
            segment.change_suffix(self._disk, self._directory, DELETED)
            self.unlink_later([segment])
            if not self._queue:
                self._on_done()
        except DiskError as failure:
            self._on_error(failure)
            return
        self._remove_next()

    def _delay_is_over(self, segment: Segment) -> None:
        self._due.append(segment)
        self._unlink_next()

    def _unlink_next(self) -> None:
        """Unlink one segment at a time: the delays of a thousand may end together."""
        if self._is_unlinking or self._is_closed:
            return
        while self._due:
            segment = self._due.popleft()
            if segment.suffix == DELETED:
                self._is_unlinking = True
                segment.close()
                paths = [f"{self._directory}/{name}" for name in segment.names()]
                self._disk.remove_later(paths, self._unlinked)
                return

    def _unlinked(self, error: DiskError | None) -> None:
        self._is_unlinking = False
        if error is not None and not self._is_closed:
            self._on_error(error)
        self._unlink_next()
