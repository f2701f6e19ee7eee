"""Removes the files of segments that are not part of a log any more."""

from collections.abc import Callable, Iterable

from sawlog.core.ports import Disk, DiskError
from sawlog.storage.segment import Segment


class SegmentRemover:
    """Unlinks removed segments of one log, oldest first, one at a time.

    Each unlink waits until the directory is synced, so that the one before it (perhaps of an
    earlier process) is durable: the disk may forget an unlink, and the segments that come back
    after a crash must not leave a gap. Slices that are being sent keep their open file.
    """

    __slots__ = (
        "_directory",
        "_disk",
        "_is_closed",
        "_is_syncing",
        "_on_done",
        "_on_error",
        "_queue",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        *,
        on_done: Callable[[], None],
        on_error: Callable[[DiskError], object],
    ) -> None:
        """`on_done` is called when the last queued segment was unlinked, `on_error` where an
        unlink fails; the rest is tried again with the next `remove`, or at the next start."""
        self._disk = disk
        self._directory = directory
        self._on_done = on_done
        self._on_error = on_error
        self._queue: list[Segment] = []
        self._is_syncing = False
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._queue)

    def remove(self, segments: Iterable[Segment]) -> None:
        """Unlink these segments off the loop, after those that are queued already."""
        self._queue += segments
        self._remove_next()

    def remove_now(self) -> None:
        """Unlink all queued segments before this returns; DiskError where that fails."""
        while self._queue:
            self._disk.sync_directory(self._directory)
            self._queue.pop(0).remove(self._disk, self._directory)

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
            self._queue.pop(0).remove(self._disk, self._directory)
            if not self._queue:
                self._on_done()
        except DiskError as failure:
            self._on_error(failure)
            return
        self._remove_next()
