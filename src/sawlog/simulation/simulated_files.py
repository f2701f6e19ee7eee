"""Files and directories on a disk with a page cache: visible content, durable content.

Between the two, a node keeps the operations that no sync has covered. At a power loss each of them
reaches the disk or does not, a write perhaps in part, in any order: file systems promise no more.
"""

from typing import NamedTuple

from sawlog.core.ports import Random

SECTOR_BYTES = 512
TORN_IN_TWO, DROPPED, KEPT, TORN_BY_SECTOR = range(4)


class Write(NamedTuple):
    position: int
    data: bytes


class Cut(NamedTuple):
    size: int


class FileNode:
    """One file. Invariant: `durable` with all `pending` operations applied is `content`, the bytes
    that reads see, unless an fsync failed."""

    __slots__ = ("content", "durable", "is_removed", "name", "parent", "pending")

    def __init__(self, parent: "DirectoryNode", name: str) -> None:
        self.parent = parent
        self.name = name
        self.is_removed = False
        self.content = bytearray()
        self.durable = bytearray()
        self.pending: list[Write | Cut] = []

    @property
    def path(self) -> str:
        return self.parent.path_of(self.name)

    def move(self, parent: "DirectoryNode", name: str) -> None:
        self.parent = parent
        self.name = name

    def unlink(self) -> None:
        """Mark the file as removed: handles can read it, and no longer write."""
        self.is_removed = True

    def do(self, operation: Write | Cut) -> None:
        _apply(self.content, operation)
        self.pending.append(operation)

    def make_durable(self, count: int) -> None:
        """Sync the oldest `count` pending operations."""
        for operation in self.pending[:count]:
            _apply(self.durable, operation)
        del self.pending[:count]

    def forget(self, count: int) -> None:
        """Fail an fsync: the cache treats these writes as clean, the disk never gets them. A file
        system journals the size of a file and keeps it for the next sync."""
        self.pending[:count] = [each for each in self.pending[:count] if isinstance(each, Cut)]

    def lose_power(self, random: Random) -> None:
        for operation in self.pending:
            _apply_perhaps(self.durable, operation, random)
        self.pending.clear()
        self.content = bytearray(self.durable)
        self.is_removed = False  # if it is found by name after the crash, it exists


class Entry(NamedTuple):
    """A change of one directory entry; `node` is None for a removal."""

    name: str
    node: "FileNode | DirectoryNode | None"
    old_name: str | None = None  # of a rename within the directory, which is atomic


class DirectoryNode:
    """One directory. Invariant: `durable` with all `pending` entries applied is `entries`."""

    __slots__ = ("durable", "entries", "name", "parent", "pending")

    def __init__(self, parent: "DirectoryNode | None", name: str) -> None:
        self.parent = parent
        self.name = name
        self.entries: dict[str, FileNode | DirectoryNode] = {}
        self.durable: dict[str, FileNode | DirectoryNode] = {}
        self.pending: list[Entry] = []

    def move(self, parent: "DirectoryNode", name: str) -> None:
        self.parent = parent
        self.name = name

    def path_of(self, name: str) -> str:
        directory = self
        names = [name]
        while directory.parent is not None:
            names.append(directory.name)
            directory = directory.parent
        return "/".join(reversed(names))

    def do(self, entry: Entry) -> None:
        _apply_entry(self.entries, entry)
        self.pending.append(entry)

    def make_durable(self, count: int) -> None:
        for entry in self.pending[:count]:
            _apply_entry(self.durable, entry)
        del self.pending[:count]

    def lose_power(self, random: Random) -> None:
        for entry in self.pending:
            if random.below(2):
                _apply_entry(self.durable, entry)
        self.pending.clear()
        self.entries = dict(self.durable)
        for name, node in self.entries.items():
            node.move(self, name)
            node.lose_power(random)


def _apply_entry(entries: dict[str, FileNode | DirectoryNode], entry: Entry) -> None:
    if entry.old_name is not None:
        entries.pop(entry.old_name, None)
    if entry.node is None:
        entries.pop(entry.name, None)
    else:
        entries[entry.name] = entry.node


def _apply(content: bytearray, operation: Write | Cut) -> None:
    if isinstance(operation, Cut):
        if operation.size <= len(content):
            del content[operation.size :]
        else:
            content.extend(bytes(operation.size - len(content)))
        return
    if operation.position > len(content):
        content.extend(bytes(operation.position - len(content)))
    content[operation.position : operation.position + len(operation.data)] = operation.data


def _apply_perhaps(content: bytearray, operation: Write | Cut, random: Random) -> None:
    fate = random.below(4)
    if isinstance(operation, Cut):
        if fate in (KEPT, TORN_BY_SECTOR):
            _apply(content, operation)
        return
    position, data = operation
    if fate == KEPT:
        _apply(content, operation)
    elif fate == TORN_IN_TWO:
        _apply(content, Write(position, data[: random.below(len(data) + 1)]))
    elif fate == DROPPED:
        if random.below(2) and position + len(data) > len(
            content
        ):  # the new size is durable, the data is not
            _apply(content, Cut(position + len(data)))
    else:
        for start, piece in _sectors(position, data):
            if random.below(2):
                _apply(content, Write(start, piece))


def _sectors(position: int, data: bytes) -> list[tuple[int, bytes]]:
    """Split a write at sector boundaries."""
    pieces = []
    start = 0
    while start < len(data):
        end = min(len(data), start + SECTOR_BYTES - (position + start) % SECTOR_BYTES)
        pieces.append((position + start, data[start:end]))
        start = end
    return pieces
