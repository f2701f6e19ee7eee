"""The Disk port on the real machine: one data directory, owned by one process.

No path leaves the directory, neither by `..` nor through a symbolic link. At most `max_descriptors`
files are open in addition to pinned ones. Blocking calls run on threads; their `done` is called on
the loop.
"""

import errno
import fcntl
import os
import shutil
import stat
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sawlog.core.ports import Buffer, DiskError, FileSystemSpace
from sawlog.server.connection_limits import file_descriptors, granted_descriptors
from sawlog.server.data_syncs import DataSyncs
from sawlog.server.disk_files import RealFile, disk_error
from sawlog.server.disk_threads import DiskThreads, Notify, OnDone

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

LOCK_FILE = ".lock"
TEMPORARY_SUFFIX = ".tmp"
_READ_BYTES = 1 << 16
_FILE_MODE = 0o644
_MAX_DESCRIPTORS = 1 << 16


class DirectoryInUse(DiskError):
    """Another process has locked the data directory."""


class RealDisk:
    """The files under `root`. All methods are called from one thread."""

    def __init__(
        self,
        root: str,
        notify: Notify,
        *,
        loop: "AbstractEventLoop | None" = None,
        max_descriptors: int | None = None,
    ) -> None:
        """`notify` runs a call on the loop's thread: `loop.call_soon_threadsafe`. With a `loop`,
        fdatasync uses Linux AIO if available."""
        self.root = os.path.realpath(root)
        self.threads = DiskThreads(notify)
        self.syncs = DataSyncs(self.threads, loop)
        self._max_descriptors = max_descriptors or _default_max_descriptors()
        self._open: OrderedDict[RealFile, None] = OrderedDict()
        self._handles: dict[str, dict[str, RealFile]] = {}  # directory, name
        self._trusted_directories = {""}
        self._deep_directories: set[str] = set()  # nested ones; log directories are not
        self._replacing: dict[str, int] = {}
        self._replacing_lock = threading.Lock()
        self._tickets = 0
        self._lock_descriptor = -1

    # The directory as a whole

    def lock(self) -> None:
        """Lock the directory for this process, and create it if it is missing. DirectoryInUse if
        another process has it.
        """
        try:
            os.makedirs(self.root, exist_ok=True)
        except OSError as error:
            raise disk_error(self.root, error) from error
        path = self._resolve(LOCK_FILE)
        try:
            descriptor = os.open(
                path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _FILE_MODE
            )
        except OSError as error:
            raise disk_error(LOCK_FILE, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise DirectoryInUse(
                    self.root, "another broker is running on this data directory; stop it first"
                ) from None
            raise disk_error(LOCK_FILE, error) from error
        self._lock_descriptor = descriptor

    def space(self) -> FileSystemSpace:
        try:
            status = os.statvfs(self.root)
        except OSError as error:
            raise disk_error(self.root, error) from error
        return FileSystemSpace(
            total_bytes=status.f_blocks * status.f_frsize,
            usable_bytes=status.f_bavail * status.f_frsize,
        )

    def close(self) -> None:
        """Stop the threads, close all files, release the lock."""
        self.syncs.close()
        self.threads.stop()
        for file in list(self._open):
            file.drop_descriptor()
        if self._lock_descriptor >= 0:
            os.close(self._lock_descriptor)
            self._lock_descriptor = -1

    # Files

    def open(self, path: str, *, create: bool = False) -> RealFile:
        directory, name = _split(path)
        handles = self._handles.setdefault(directory, {})
        file = handles.get(name)
        if file is not None:
            return file
        full = self._resolve(path)
        try:
            status = os.stat(full, follow_symlinks=False)
            if not stat.S_ISREG(status.st_mode):
                raise DiskError(path, "not a regular file")
            file = RealFile(self, path, status.st_size)
        except FileNotFoundError:
            if not create:
                raise FileNotFoundError(path) from None
            file = RealFile(self, path, 0)
            file.adopt(self.open_descriptor(file, os.O_RDWR | os.O_CREAT))
        except OSError as error:
            raise disk_error(path, error) from error
        handles[name] = file
        return file

    def exists(self, path: str) -> bool:
        try:
            os.lstat(self._resolve(path))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise disk_error(path, error) from error
        return True

    def list(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self._resolve_directory(path)))
        except FileNotFoundError:
            raise FileNotFoundError(path) from None
        except OSError as error:
            raise disk_error(path, error) from error

    def read_file(self, path: str) -> bytes:
        try:
            descriptor = os.open(self._resolve(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            raise FileNotFoundError(path) from None
        except OSError as error:
            raise disk_error(path, error) from error
        try:
            data = os.read(descriptor, _READ_BYTES)
            if len(data) < _READ_BYTES:
                return data
            pieces = [data]
            while piece := os.read(descriptor, 1 << 20):
                pieces.append(piece)
            return b"".join(pieces)
        except OSError as error:
            raise disk_error(path, error) from error
        finally:
            os.close(descriptor)

    def replace(self, path: str, data: Buffer) -> None:
        self._replace(path, self._resolve(path), data, self._ticket(path))

    def replace_later(self, files: Sequence[tuple[str, Buffer]], done: OnDone) -> None:
        prepared = [
            (path, self._resolve(path), bytes(data), self._ticket(path)) for path, data in files
        ]

        def replace_all() -> None:
            for item in prepared:
                self._replace(*item)

        self.threads.run(replace_all, done)

    def remove(self, path: str) -> None:
        try:
            os.unlink(self._resolve(path))
        except FileNotFoundError:
            pass
        except OSError as error:
            raise disk_error(path, error) from error
        directory, name = _split(path)
        file = self._handles.get(directory, {}).pop(name, None)
        if file is not None:
            file.close()

    def rename(self, old: str, new: str) -> None:
        try:
            os.rename(self._resolve(old), self._resolve(new))
        except FileNotFoundError:
            raise FileNotFoundError(old) from None
        except OSError as error:
            raise disk_error(old, error) from error
        directory, name = _split(old)
        file = self._handles.get(directory, {}).pop(name, None)
        if file is not None:
            new_directory, new_name = _split(new)
            file.path = new
            self._handles.setdefault(new_directory, {})[new_name] = file
        self._forget_directories(new)
        for handles_of in self._forget_directories(old):
            moved = self._handles.pop(handles_of, {})
            moved_to = new + handles_of[len(old) :]
            for name_in, file_in in moved.items():
                file_in.path = f"{moved_to}/{name_in}"
            if moved:
                self._handles[moved_to] = moved
                self._note_depth(moved_to)

    # Directories

    def make_directory(self, path: str) -> None:
        directory = ""
        for name in path.split("/"):
            self._resolve_directory(directory)
            directory = f"{directory}/{name}" if directory else name
            try:
                os.mkdir(self._resolve(directory))
            except FileExistsError:
                pass
            except OSError as error:
                raise disk_error(path, error) from error
        self._resolve_directory(path)

    def remove_directory(self, path: str) -> None:
        full = self._resolve(path)
        for handles_of in self._forget_directories(path):
            for file in list(self._handles.pop(handles_of, {}).values()):
                file.close()
        try:
            shutil.rmtree(full)  # does not follow links
        except FileNotFoundError:
            pass
        except OSError as error:
            raise disk_error(path, error) from error

    def sync_directory(self, path: str) -> None:
        _sync_directory(path, self._resolve_directory(path))

    def sync_directory_later(self, path: str, done: OnDone) -> None:
        full = self._resolve_directory(path)
        self.threads.run(lambda: _sync_directory(path, full), done)

    # Descriptors, for RealFile

    def open_descriptor(self, file: RealFile, flags: int) -> int:
        open_files = self._open
        if len(open_files) >= self._max_descriptors:
            self._close_one()
        full = self._resolve(file.path)
        flags |= os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(full, flags, _FILE_MODE)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._close_one():
                raise disk_error(file.path, error) from error
            try:
                descriptor = os.open(full, flags, _FILE_MODE)
            except OSError as again:
                raise disk_error(file.path, again) from again
        open_files[file] = None
        return descriptor

    def descriptor_dropped(self, file: RealFile) -> None:
        self._open.pop(file, None)

    def forget(self, file: RealFile) -> None:
        directory, name = _split(file.path)
        handles = self._handles.get(directory)
        if handles is not None and handles.get(name) is file:
            del handles[name]

    def _close_one(self) -> bool:
        """Close a descriptor that was not used recently (second chance); False if all are pinned.

        The hot path only sets `was_used` instead of moving the file in a list. Files with unsynced
        bytes are closed last, because the kernel reports a failed write-back only to descriptors
        that were open at the time.
        """
        open_files = self._open
        for spares_dirty in (True, False):
            for _ in range(2 * len(open_files)):
                file = next(iter(open_files))
                if file.was_used or (spares_dirty and file.is_dirty):
                    file.was_used = False
                elif file.drop_descriptor():
                    return True
                open_files.move_to_end(file)
        return False

    # Atomic replacement of small files

    def _ticket(self, path: str) -> int:
        self._tickets += 1
        with self._replacing_lock:
            self._replacing[path] = self._tickets
        return self._tickets

    def _replace(self, path: str, full: str, data: Buffer, ticket: int) -> None:
        """Replace a file, on any thread. The latest call for a path wins, even if it is faster."""
        temporary = f"{full}.{ticket}{TEMPORARY_SUFFIX}"
        try:
            _write_synced(temporary, data)
            with self._replacing_lock:
                is_latest = self._replacing.get(path) == ticket
                if is_latest:
                    os.rename(temporary, full)
                    del self._replacing[path]
                else:
                    os.unlink(temporary)
            if is_latest:
                _sync_directory(path, os.path.dirname(full))
        except OSError as error:
            _unlink_quietly(temporary)
            with self._replacing_lock:
                if self._replacing.get(path) == ticket:
                    del self._replacing[path]
            raise disk_error(path, error) from error

    # Paths

    def _resolve(self, path: str) -> str:
        """Return the full path; DiskError if it is outside the data directory."""
        directory, name = _split(path)
        if name in ("", ".", "..") or "\0" in name:
            raise DiskError(path, "not a path inside the data directory")
        return f"{self._resolve_directory(directory)}/{name}"

    def _resolve_directory(self, directory: str) -> str:
        if directory in self._trusted_directories:
            return f"{self.root}/{directory}" if directory else self.root
        full = self._resolve(directory)
        try:
            if stat.S_ISLNK(os.lstat(full).st_mode):
                raise DiskError(directory, "symbolic links are not allowed in the data directory")
        except FileNotFoundError:
            return full
        except OSError as error:
            raise disk_error(directory, error) from error
        self._trusted_directories.add(directory)
        self._note_depth(directory)
        return full

    def _note_depth(self, directory: str) -> None:
        if "/" in directory:
            self._deep_directories.add(directory)

    def _forget_directories(self, path: str) -> Sequence[str]:
        """Forget that a directory and those in it are trusted; return all of them."""
        within = path + "/"
        gone = [path, *(deep for deep in self._deep_directories if deep.startswith(within))]
        self._trusted_directories.difference_update(gone)
        self._deep_directories.difference_update(gone)
        return gone


def _split(path: str) -> tuple[str, str]:
    directory, _, name = path.rpartition("/")
    return directory, name


def _write_synced(full: str, data: Buffer) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(full, flags, _FILE_MODE)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_directory(path: str, full: str) -> None:
    try:
        descriptor = os.open(full, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise disk_error(path, error) from error


def _unlink_quietly(full: str) -> None:
    try:
        os.unlink(full)
    except OSError:
        pass


def _default_max_descriptors() -> int:
    return min(_MAX_DESCRIPTORS, file_descriptors(granted_descriptors()))
