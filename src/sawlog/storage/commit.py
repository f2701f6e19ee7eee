"""Group commit: one flush of a log at a time, shared by all who wait for it.

A flush syncs every file that holds unsynced batches, and the directories that have new entries. It
covers the end offset noted when it began; who comes later waits for the next one.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from sawlog.core.ports import DiskError, File, TooManyOpenFiles

if TYPE_CHECKING:
    from sawlog.storage.log import Log

Done = Callable[[DiskError | None], None]


class GroupCommit:
    """Invariants: at most one flush is under way; `_target` is never beyond what it covers."""

    __slots__ = (
        "_error",
        "_files",
        "_log",
        "_next",
        "_outstanding",
        "_target",
        "_waiting",
        "directory_is_dirty",
        "home_is_dirty",
        "unsynced",
    )

    def __init__(self, log: "Log") -> None:
        self.unsynced: list[File] = []  # of segments before the active one
        self.directory_is_dirty = False
        self.home_is_dirty = False  # the entry of the log's directory itself
        self._log = log
        self._waiting: list[Done] = []
        self._next: list[Done] = []
        self._files: list[File] = []
        self._target = 0
        self._outstanding = 0
        self._error: DiskError | None = None

    def flush_later(self, done: Done) -> None:
        self._next.append(done)
        if not self._outstanding:
            self._start()

    def flush_now(self) -> None:
        """Waits for the disk, here; a flush under way ends on its own and changes nothing."""
        log = self._log
        for directory in self._take_dirty_directories():
            log.home.disk.sync_directory(directory)
        files, self.unsynced = self.unsynced + self._files, []
        if log.end_offset > log.flushed_offset:
            files.append(log.active.file)
        for file in dict.fromkeys(files):
            file.sync()
        log.flushed_offset = log.end_offset

    def forget(self, files: Iterable[File]) -> None:
        """These are about to be removed: nobody needs to sync them any more."""
        gone = set(files)
        self.unsynced = [file for file in self.unsynced if file not in gone]
        self._files = [file for file in self._files if file not in gone]

    def cut(self, offset: int) -> None:
        """The log was truncated: a flush under way says nothing about what comes after."""
        self._target = min(self._target, offset)

    def _start(self) -> None:
        log = self._log
        home = log.home
        self._waiting, self._next = self._next, []
        self._error = home.offline
        if log.is_closed:
            self._error = DiskError(log.directory, "the log is closed")
        self._target = target = log.end_offset
        active = log.active
        files, self.unsynced = self.unsynced, []
        if target > log.flushed_offset:
            active.remember(target, active.file.size)
            files.append(active.file)
        self._files = files
        directories = self._take_dirty_directories()
        if self._error is not None or not (files or directories):
            self._outstanding = 1
            home.timer.after(0, self._nothing_to_sync)
            return
        self._outstanding = len(files) + len(directories)
        for directory in directories:
            home.disk.sync_directory_later(directory, self._synced)
        for file in files:
            file.sync_later(self._synced)

    def _take_dirty_directories(self) -> list[str]:
        directories = [self._log.directory] if self.directory_is_dirty else []
        if self.home_is_dirty:
            directories.append("")
        self.directory_is_dirty = self.home_is_dirty = False
        return directories

    def _nothing_to_sync(self) -> None:
        self._synced(None)

    def _synced(self, error: DiskError | None) -> None:
        if error is not None and (self._error is None or isinstance(self._error, TooManyOpenFiles)):
            self._error = error  # a lack of descriptors hides no failed fsync
        self._outstanding -= 1
        if not self._outstanding:
            self._finish()

    def _finish(self) -> None:
        log = self._log
        home = log.home
        error = self._error or home.offline
        if error is None:
            if self._target > log.flushed_offset:
                log.flushed_offset = self._target
                home.flushed(log)
        elif isinstance(error, TooManyOpenFiles):
            # Nothing was attempted on that file, so this is no failed fsync: it may be tried again.
            left = [file for file in self._files if file is not log.active.file]
            self.unsynced = list(dict.fromkeys(left + self.unsynced))
            self.directory_is_dirty = self.home_is_dirty = True
        elif not log.is_closed:
            home.fail(error)
        self._files = []
        waiting, self._waiting = self._waiting, []
        if self._next:
            self._start()
        for done in waiting:
            done(error)
