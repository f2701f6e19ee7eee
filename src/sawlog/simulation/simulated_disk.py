"""The Disk port in memory, with the faults of a real disk on demand and from a seed.

It loses writes that were not synced (`power_loss`), gets full, fails an fsync and afterwards treats
the pages as clean, and stops the process at the n-th operation. `kill` is kill -9: the page cache
survives. Each asynchronous call completes in an event of its own, through `defer`.
"""

from collections.abc import Callable, Sequence

from sawlog.core.ports import Buffer, DiskError, DiskFull, FileSystemSpace, Random
from sawlog.simulation.simulated_files import Cut, DirectoryNode, Entry, FileNode, Write

OnDone = Callable[[DiskError | None], None]
TEMPORARY_SUFFIX = ".tmp"
TOTAL_BYTES = 1 << 40
"""The size of the simulated file system, as clients see it."""


class Stopped(BaseException):
    """Ends the process at the operation that a test chose; no handler catches it."""


class SimulatedFile:
    """A file handle of one process; it is invalid after a crash."""

    __slots__ = ("_disk", "_incarnation", "_node")

    def __init__(self, disk: "SimulatedDisk", node: FileNode) -> None:
        self._disk = disk
        self._node = node
        self._incarnation = disk.incarnation

    @property
    def path(self) -> str:
        return self._node.path

    @property
    def size(self) -> int:
        return len(self._node.content)

    def append(self, buffers: Sequence[Buffer]) -> int:
        node = self._present()
        data = b"".join(buffers)
        self._disk.step("append", node.path)
        position = len(node.content)
        self._disk.reserve(node.path, len(data))
        node.do(Write(position, data))
        return position

    def read(self, position: int, length: int) -> bytes:
        node = self._alive()
        self._disk.reads.append((node.path, position, length))
        return bytes(node.content[position : position + length])

    def rewrite(self, position: int, length: int) -> None:
        node = self._present()
        data = bytes(node.content[position : position + length])
        if data:
            self._disk.step("rewrite", node.path)
            self._disk.rewrites.append((node.path, position, len(data)))
            node.do(Write(position, data))

    def truncate(self, size: int) -> None:
        node = self._present()
        self._disk.step("truncate", node.path)
        self._disk.release(len(node.content) - size)
        node.do(Cut(size))

    def sync(self) -> None:
        node = self._present()
        self._disk.sync(node, len(node.pending))

    def sync_later(self, done: OnDone) -> None:
        node = self._alive()
        if node.is_removed:
            self._disk.later(lambda: self._disk.missing(node.path), done)
            return
        last = node.pending[-1] if node.pending else None

        def sync() -> None:
            count = len(node.pending)  # without later ones; 0 if another sync covered them
            while count and node.pending[count - 1] is not last:
                count -= 1
            self._disk.sync(node, count)

        self._disk.later(sync, done)

    def close(self) -> None:
        self._disk.closed(self._node)

    def _present(self) -> FileNode:
        node = self._alive()
        if node.is_removed:
            self._disk.missing(node.path)
        return node

    def _alive(self) -> FileNode:
        assert self._incarnation == self._disk.incarnation, (
            "a handle from before the crash was used"
        )
        return self._node


class SimulatedDisk:
    """One data directory, which survives the processes that use it."""

    def __init__(self, defer: Callable[[Callable[[], None]], None]) -> None:
        """`defer` runs a callable later, outside of any call of this disk."""
        self.incarnation = 0
        self.operations = 0
        """Operations so far that change or sync something."""
        self.stop_at: int | None = None
        """The number of the operation that raises Stopped instead of being done."""
        self.fail_at: int | None = None
        """The number of the operation that fails with a DiskError."""
        self.fails_syncs = False
        self.forgets_syncs = False
        """Report syncs as done without doing them; a test of durability must notice."""
        self.free_bytes: int | None = None
        """Free space; None is unlimited."""
        self.has_flipped_bits = False
        self.root = "/simulated"
        self.reads: list[tuple[str, int, int]] = []
        self.rewrites: list[tuple[str, int, int]] = []
        self._defer = defer
        self._held: list[Callable[[], None]] | None = None
        self._tree = DirectoryNode(None, "")
        self._handles: dict[int, SimulatedFile] = {}
        self._replacing: dict[str, int] = {}
        self._tickets = 0

    # The process and the power

    def kill(self) -> None:
        """kill -9: handles and pending calls are lost, the page cache is not."""
        self.incarnation += 1
        self.stop_at = None
        self._handles.clear()
        self._replacing.clear()
        self._held = None

    def hold(self) -> None:
        """Let no asynchronous call complete until `resume`, as a very slow disk does."""
        if self._held is None:
            self._held = []

    def resume(self) -> None:
        """Let the calls complete that were held, and all later ones."""
        held, self._held = self._held or [], None
        for run in held:
            self._defer(run)

    def power_loss(self, random: Random) -> None:
        """Tear, drop or keep each write and directory entry that was not synced, independently."""
        self.kill()
        self._tree.lose_power(random)

    # Files

    def space(self) -> FileSystemSpace:
        return FileSystemSpace(
            TOTAL_BYTES, TOTAL_BYTES if self.free_bytes is None else self.free_bytes
        )

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        try:
            directory, name = self._find_parent(path)
        except FileNotFoundError:
            if not create:
                raise
            raise DiskError(path, "its directory is missing") from None
        node = directory.entries.get(name)
        if node is None:
            if not create:
                raise FileNotFoundError(path)
            self.step("create", path)
            self.reserve(path, 0)
            node = FileNode(directory, name)
            directory.do(Entry(name, node))
        if isinstance(node, DirectoryNode):
            raise DiskError(path, "a directory")
        handle = self._handles.get(id(node))
        if handle is None:
            handle = self._handles[id(node)] = SimulatedFile(self, node)
        return handle

    def exists(self, path: str) -> bool:
        try:
            directory, name = self._find_parent(path)
        except FileNotFoundError:
            return False
        return name in directory.entries

    def list(self, path: str) -> list[str]:
        return sorted(self._find_directory(path).entries)

    def read_file(self, path: str) -> bytes:
        directory, name = self._find_parent(path)
        node = directory.entries.get(name)
        if not isinstance(node, FileNode):
            raise FileNotFoundError(path)
        self.reads.append((path, 0, len(node.content)))
        return bytes(node.content)

    def replace(self, path: str, data: Buffer) -> None:
        self._replace(path, bytes(data), self._ticket(path))

    def replace_later(self, files: Sequence[tuple[str, Buffer]], done: OnDone) -> None:
        prepared = [(path, bytes(data), self._ticket(path)) for path, data in files]

        def replace_all() -> None:
            for item in prepared:
                self._replace(*item)

        self.later(replace_all, done)

    def remove(self, path: str) -> None:
        directory, name = self._find_parent(path)
        node = directory.entries.get(name)
        if isinstance(node, FileNode):
            self.step("remove", path)
            self.release(len(node.content))
            self._handles.pop(id(node), None)
            node.unlink()
            directory.do(Entry(name, None))

    def remove_later(self, paths: Sequence[str], done: OnDone) -> None:
        def remove_all() -> None:
            for path in paths:
                try:
                    self.remove(path)
                except FileNotFoundError:  # its directory was removed
                    pass

        self.later(remove_all, done)

    def rename(self, old: str, new: str) -> None:
        directory, name = self._find_parent(old)
        new_directory, new_name = self._find_parent(new)
        node = directory.entries.get(name)
        if node is None:
            raise FileNotFoundError(old)
        self.step("rename", old)
        if directory is new_directory:
            directory.do(Entry(new_name, node, old_name=name))
        else:
            new_directory.do(Entry(new_name, node))
            directory.do(Entry(name, None))
        node.move(new_directory, new_name)

    # Directories

    def make_directory(self, path: str) -> None:
        directory = self._tree
        for name in path.split("/"):
            node = directory.entries.get(name)
            if node is None:
                self.step("mkdir", path)
                self.reserve(path, 0)
                node = DirectoryNode(directory, name)
                directory.do(Entry(name, node))
            if not isinstance(node, DirectoryNode):
                raise DiskError(path, "not a directory")
            directory = node

    def remove_directory(self, path: str) -> None:
        try:
            directory, name = self._find_parent(path)
        except FileNotFoundError:
            return
        node = directory.entries.get(name)
        if not isinstance(node, DirectoryNode):
            return
        for child in sorted(node.entries):
            if isinstance(node.entries[child], DirectoryNode):
                self.remove_directory(f"{path}/{child}")
            else:
                self.remove(f"{path}/{child}")
        self.step("rmdir", path)
        directory.do(Entry(name, None))

    def sync_directory(self, path: str) -> None:
        node = self._find_directory(path)
        self.sync(node, len(node.pending))

    def sync_directory_later(self, path: str, done: OnDone) -> None:
        try:
            node = self._find_directory(path)
        except FileNotFoundError:
            self.later(lambda: self.missing(path), done)
            return
        last = node.pending[-1] if node.pending else None

        def sync() -> None:
            count = len(node.pending)
            while count and node.pending[count - 1] is not last:
                count -= 1
            self.sync(node, count)

        self.later(sync, done)

    # Damage, for tests

    def overwrite(self, path: str, position: int, data: bytes) -> None:
        """Corrupt bytes of a file, in the page cache and on the disk."""
        node = self._file(path)
        for content in (node.content, node.durable):
            content[position : position + len(data)] = data

    def flip_bit(self, path: str, position: int, bit: int) -> None:
        """Change one bit of a file, in the page cache and on the disk."""
        self.has_flipped_bits = True
        changed = self._file(path).content[position] ^ (1 << bit)
        self.overwrite(path, position, bytes([changed]))

    def cut(self, path: str, size: int) -> None:
        """Truncate a file, in the page cache and on the disk."""
        node = self._file(path)
        del node.content[size:]
        del node.durable[size:]

    # Operations, for this module

    def step(self, what: str, path: str) -> None:
        self.operations += 1
        if self.stop_at is not None and self.operations >= self.stop_at:
            raise Stopped(f"step {self.operations}: {what} {path}")
        if self.operations == self.fail_at:
            raise DiskError(path, f"{what} failed on demand")

    def sync(self, node: FileNode | DirectoryNode, count: int) -> None:
        path = node.path if isinstance(node, FileNode) else node.path_of("")
        self.step("sync", path)
        if self.fails_syncs:
            if isinstance(node, FileNode):
                node.forget(count)
            raise DiskError(path, "fsync failed on demand")
        if not self.forgets_syncs:
            node.make_durable(count)

    def reserve(self, path: str, size: int) -> None:
        if self.free_bytes is not None:
            if size > self.free_bytes or self.free_bytes <= 0:
                raise DiskFull(path, "no space left on device")
            self.free_bytes -= size

    def release(self, size: int) -> None:
        if self.free_bytes is not None:
            self.free_bytes += size

    def later(self, task: Callable[[], None], done: OnDone) -> None:
        incarnation = self.incarnation

        def run() -> None:
            if incarnation != self.incarnation:
                return
            error: DiskError | None = None
            try:
                task()
            except DiskError as failure:
                error = failure
            done(error)

        if self._held is not None:
            self._held.append(run)
        else:
            self._defer(run)

    def closed(self, node: FileNode) -> None:
        self._handles.pop(id(node), None)

    def _ticket(self, path: str) -> int:
        self._tickets += 1
        self._replacing[path] = self._tickets
        return self._tickets

    def _replace(self, path: str, data: bytes, ticket: int) -> None:
        """Write aside, sync and rename, as the real disk does. A later call for the path wins."""
        temporary = f"{path}.{ticket}{TEMPORARY_SUFFIX}"
        directory = path.rpartition("/")[0]
        try:
            file = self.open(temporary, create=True)
            file.append([data])
            file.sync()
            file.close()
            if self._replacing.get(path) == ticket:
                self._release_replaced(path)
                self.rename(temporary, path)
                self.sync_directory(directory)
            else:
                self.remove(temporary)
        except DiskError:
            if self.exists(temporary):
                self.remove(temporary)
            raise
        finally:
            if self._replacing.get(path) == ticket:
                del self._replacing[path]

    def _release_replaced(self, path: str) -> None:
        if self.exists(path):
            self.release(len(self._file(path).content))

    def missing(self, path: str) -> None:
        raise DiskError(path, "no such file or directory")

    def _file(self, path: str) -> FileNode:
        directory, name = self._find_parent(path)
        node = directory.entries.get(name)
        if not isinstance(node, FileNode):
            raise FileNotFoundError(path)
        return node

    def _find_parent(self, path: str) -> tuple[DirectoryNode, str]:
        directory, _, name = path.rpartition("/")
        if name in ("", ".", "..") or "\0" in name:
            raise DiskError(path, "not a path inside the data directory")
        return self._find_directory(directory), name

    def _find_directory(self, path: str) -> DirectoryNode:
        directory = self._tree
        for name in path.split("/") if path else ():
            if name in ("", ".", ".."):
                raise DiskError(path, "not a path inside the data directory")
            node = directory.entries.get(name)
            if node is None:
                raise FileNotFoundError(path)
            if not isinstance(node, DirectoryNode):
                raise DiskError(path, "not a directory")
            directory = node
        return directory
