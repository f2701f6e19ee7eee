"""The files and directory entries of one log that an fsync still has to cover."""

from collections.abc import Iterable

from sawlog.core.ports import File


class UnsyncedFiles:
    """What a flush of one log has to sync besides the active segment's file.

    Invariants: a file of a completed segment is listed in `_pending` or `_in_flight` until a flush
    that covers it has succeeded or the file is removed; the two flags are set as long as the
    matching directory may lack an entry on disk.
    """

    __slots__ = ("_directory", "_has_new_entries", "_in_flight", "_is_new_directory", "_pending")

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._pending: list[File] = []
        self._in_flight: list[File] = []
        self._has_new_entries = False  # in the log's directory
        self._is_new_directory = False  # the log's directory itself, an entry of the data directory

    def add(self, files: Iterable[File]) -> None:
        """Add files that hold unsynced data and are not the active segment's any more."""
        self._pending += files

    def note_changed(self, files: Iterable[File]) -> None:
        """Files of the active segment besides its batches hold unsynced data."""
        self._pending += [file for file in files if file not in self._pending]

    def note_new_entry(self) -> None:
        """A file was created in the log's directory."""
        self._has_new_entries = True

    def note_new_directory(self) -> None:
        """The log's directory itself was created."""
        self._is_new_directory = True

    def forget(self, files: Iterable[File]) -> None:
        """These files are about to be removed and need no sync."""
        gone = set(files)
        self._pending = [file for file in self._pending if file not in gone]
        self._in_flight = [file for file in self._in_flight if file not in gone]

    def begin(self, active: File | None) -> tuple[list[File], list[str]]:
        """Take the files and directories of one flush; `active` is the active segment's file if it
        has unsynced data."""
        files, self._pending = self._pending, []
        if active is not None:
            files.append(active)
        self._in_flight = files
        return files, self._take_directories()

    def end(self) -> None:
        """The flush is over and its files need no other one."""
        self._in_flight = []

    def retry(self, active: File) -> None:
        """The flush was not attempted: the next one has to sync its files and directories too."""
        files = [file for file in self._in_flight if file is not active]
        self._pending = list(dict.fromkeys(files + self._pending))
        self._in_flight = []
        self._has_new_entries = self._is_new_directory = True

    def take_all(self, active: File | None) -> tuple[list[File], list[str]]:
        """Like `begin`, for a flush that blocks: files of a flush in flight are included and stay
        in flight."""
        files = self._pending + self._in_flight
        self._pending = []
        if active is not None:
            files.append(active)
        return list(dict.fromkeys(files)), self._take_directories()

    def _take_directories(self) -> list[str]:
        directories = [self._directory] if self._has_new_entries else []
        if self._is_new_directory:
            directories.append("")
        self._has_new_entries = self._is_new_directory = False
        return directories
