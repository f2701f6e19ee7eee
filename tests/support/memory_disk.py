"""A Disk in memory for tests that are not about disks: nothing tears, nothing fails by itself."""

from collections.abc import Callable, Sequence

from sawlog.core.ports import Buffer, DiskError, DiskFull, Timer

Done = Callable[[DiskError | None], None]


class MemoryFile:
    def __init__(self, disk: "MemoryDisk", path: str) -> None:
        self._disk = disk
        self.path = path
        self.data = bytearray()

    @property
    def size(self) -> int:
        return len(self.data)

    def append(self, buffers: Sequence[Buffer]) -> int:
        if self._disk.is_full:
            raise DiskFull(self.path, "no room")
        position = len(self.data)
        for buffer in buffers:
            self.data += buffer
        return position

    def read(self, position: int, length: int) -> bytes:
        return bytes(self.data[position : position + length])

    def truncate(self, size: int) -> None:
        del self.data[size:]

    def sync(self) -> None:
        pass

    def sync_later(self, done: Done) -> None:
        self._disk.syncs += 1
        self._disk.later(self.path, done)

    def close(self) -> None:
        pass


class MemoryDisk:
    """`is_full` refuses appends, `sync_error` fails every fsync from then on."""

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self.files: dict[str, MemoryFile] = {}
        self.is_full = False
        self.sync_error: str | None = None
        self.syncs = 0

    def later(self, path: str, done: Done) -> None:
        error = None if self.sync_error is None else DiskError(path, self.sync_error)
        self._timer.after(1, lambda: done(error))

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        if path not in self.files:
            if not create:
                raise FileNotFoundError(path)
            self.files[path] = MemoryFile(self, path)
        return self.files[path]

    def exists(self, path: str) -> bool:
        return path in self.files

    def list(self, path: str) -> list[str]:
        assert path == ""
        return sorted(self.files)

    def read_file(self, path: str) -> bytes:
        return bytes(self.files[path].data)

    def replace(self, path: str, data: Buffer) -> None:
        self.files[path] = MemoryFile(self, path)
        self.files[path].data += data

    def replace_later(self, files: Sequence[tuple[str, Buffer]], done: Done) -> None:
        if self.sync_error is None:
            for path, data in files:
                self.replace(path, data)
        self.later(files[0][0], done)

    def make_directory(self, path: str) -> None:
        raise NotImplementedError

    def remove(self, path: str) -> None:
        self.files.pop(path, None)

    def remove_directory(self, path: str) -> None:
        raise NotImplementedError

    def rename(self, old: str, new: str) -> None:
        raise NotImplementedError

    def sync_directory(self, path: str) -> None:
        pass

    def sync_directory_later(self, path: str, done: Done) -> None:
        self.later(path, done)
