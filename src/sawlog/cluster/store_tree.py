"""The tree of nodes with ZooKeeper's semantics, and its watches; in memory, without sessions.

`apply` applies all operations of a list or none. It returns the changes in a resolved form
(`Change`), which the journal stores and `replay` repeats exactly. Every applied list has a change
number, one higher than the last.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from sawlog.core.store import (
    ANY_VERSION,
    BadArguments,
    BadVersion,
    Check,
    Create,
    Delete,
    NoChildrenForEphemerals,
    Node,
    NodeExists,
    NodeStat,
    NoNode,
    NotEmpty,
    Operation,
    Result,
    SetData,
    Watch,
    WatchEvent,
    WatchKind,
)

ROOT = "/"
MAX_DATA_BYTES = 1 << 20
"""ZooKeeper's limit for a node's data and for a whole request (jute.maxbuffer)."""

CREATED, CHANGED, DELETED = "c", "s", "d"


class Change(NamedTuple):
    """A change of one node, with all that is needed to repeat it. With an `owner` it concerns an
    ephemeral node, which no later start needs."""

    kind: str
    path: str
    data: bytes = b""
    owner: int = 0


class Applied(NamedTuple):
    number: int
    results: list[Result]
    changes: list[Change]


class _Entry:
    __slots__ = ("children", "created", "data", "modified", "owner", "sequence", "version")

    def __init__(self, data: bytes, owner: int, number: int) -> None:
        self.data = data
        self.owner = owner
        self.version = 0
        self.created = number
        self.modified = number
        self.children: dict[str, None] = {}
        self.sequence = 0  # the number of children that were created, as in ZooKeeper

    def stat(self) -> NodeStat:
        return NodeStat(self.version, len(self.children), self.owner, self.created, self.modified)

    def set_data(self, data: bytes, number: int) -> None:
        self.data = data
        self.version += 1
        self.modified = number

    def undo_set_data(self, data: bytes, modified: int) -> None:
        self.data = data
        self.version -= 1
        self.modified = modified

    def add_child(self, name: str) -> None:
        self.children[name] = None
        self.sequence += 1

    def undo_add_child(self, name: str) -> None:
        del self.children[name]
        self.sequence -= 1

    def remove_child(self, name: str) -> None:
        del self.children[name]

    def undo_remove_child(self, name: str) -> None:
        self.children[name] = None


def split(path: str) -> tuple[str, str]:
    """Split a path into the parent's path and the name."""
    parent, _, name = path.rpartition("/")
    return parent or ROOT, name


def check_path(path: str) -> None:
    if path == ROOT:
        return
    names = path.split("/")
    if not path or names[0] or not {"", ".", ".."}.isdisjoint(names[1:]) or "\0" in path:
        raise BadArguments(path, "invalid path of a node")


class StoreTree:
    """Reads and `apply` raise StoreErrors; a failed `apply` changes nothing."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {ROOT: _Entry(b"", 0, 0)}
        self._undo: list[Callable[[], None]] = []
        self.number = 0  # of the last change

    def get(self, path: str) -> Node:
        entry = self._entry(path)
        return Node(entry.data, entry.stat())

    def exists(self, path: str) -> NodeStat | None:
        check_path(path)
        entry = self._entries.get(path)
        return None if entry is None else entry.stat()

    def children(self, path: str) -> list[str]:
        return sorted(self._entry(path).children)

    def ephemerals(self, owner: int | None = None) -> list[str]:
        """Return the ephemeral nodes of one session, or of all."""
        return [
            path
            for path, entry in self._entries.items()
            if entry.owner and owner in (None, entry.owner)
        ]

    def apply(self, operations: Sequence[Operation], owner: int) -> Applied:
        """Apply all operations, or none and raise the error of the first that fails."""
        self._undo = []
        self.number += 1
        changes: list[Change] = []
        try:
            results = [self._apply_one(operation, owner, changes) for operation in operations]
        except BaseException:
            self.undo()
            raise
        return Applied(self.number, results, changes)

    def undo(self) -> None:
        """Undo the last `apply`, whose journal record could not be written."""
        for step in reversed(self._undo):
            step()
        self._undo = []
        self.number -= 1

    def replay(self, number: int, changes: Sequence[Change]) -> None:
        """Repeat the changes that an earlier `apply` returned."""
        self.number = number
        for change in changes:
            if change.kind == CREATED:
                self._create(change.path, change.data, change.owner)
            elif change.kind == CHANGED:
                self._set(change.path, change.data)
            else:
                self._delete(change.path)
        self._undo = []

    def _apply_one(self, operation: Operation, owner: int, changes: list[Change]) -> Result:
        check_path(operation.path)
        if isinstance(operation, Create):
            path = self._new_path(operation)
            session = owner if operation.ephemeral else 0
            self._create(path, operation.data, session)
            changes.append(Change(CREATED, path, operation.data, session))
            return path
        entry = self._entry(operation.path)
        if operation.version not in (ANY_VERSION, entry.version):
            raise BadVersion(
                operation.path, f"the version is {entry.version}, not {operation.version}"
            )
        if isinstance(operation, SetData):
            self._check_data(operation.path, operation.data)
            self._set(operation.path, operation.data)
            changes.append(Change(CHANGED, operation.path, operation.data, entry.owner))
            return entry.stat()
        if isinstance(operation, Delete):
            if entry.children or operation.path == ROOT:
                raise NotEmpty(operation.path)
            self._delete(operation.path)
            changes.append(Change(DELETED, operation.path, owner=entry.owner))
            return None
        assert isinstance(operation, Check)
        return None

    def _new_path(self, operation: Create) -> str:
        """Check a creation and return the node's path."""
        self._check_data(operation.path, operation.data)
        parent = self._entries.get(split(operation.path)[0])
        if parent is None:
            raise NoNode(operation.path, "the parent does not exist")
        if parent.owner:
            raise NoChildrenForEphemerals(operation.path)
        path = operation.path
        if operation.sequential:
            path = f"{path}{parent.sequence:010d}"
        if path in self._entries:
            raise NodeExists(path)
        return path

    @staticmethod
    def _check_data(path: str, data: bytes) -> None:
        if len(data) > MAX_DATA_BYTES:
            raise BadArguments(path, f"{len(data)} bytes of data, the limit is {MAX_DATA_BYTES}")

    def _entry(self, path: str) -> _Entry:
        entry = self._entries.get(path)
        if entry is None:
            check_path(path)
            raise NoNode(path)
        return entry

    def _create(self, path: str, data: bytes, owner: int) -> None:
        parent_path, name = split(path)
        self._entries[parent_path].add_child(name)
        self._entries[path] = _Entry(data, owner, self.number)
        self._undo.append(partial(self._undo_create, path))

    def _set(self, path: str, data: bytes) -> None:
        entry = self._entries[path]
        self._undo.append(partial(entry.undo_set_data, entry.data, entry.modified))
        entry.set_data(data, self.number)

    def _delete(self, path: str) -> None:
        parent_path, name = split(path)
        self._undo.append(partial(self._undo_delete, path, self._entries.pop(path)))
        self._entries[parent_path].remove_child(name)

    def _undo_create(self, path: str) -> None:
        parent_path, name = split(path)
        del self._entries[path]
        self._entries[parent_path].undo_add_child(name)

    def _undo_delete(self, path: str, entry: _Entry) -> None:
        parent_path, name = split(path)
        self._entries[path] = entry
        self._entries[parent_path].undo_remove_child(name)

    def dump(self) -> Iterator[tuple[str, str, int, int, int, int, int]]:
        """Yield every node, parents first: path, data as latin-1, version, owner, created,
        modified, sequence."""
        for path, entry in self._entries.items():
            yield (
                path,
                entry.data.decode("latin-1"),
                entry.version,
                entry.owner,
                entry.created,
                entry.modified,
                entry.sequence,
            )

    @classmethod
    def load(cls, number: int, nodes: Sequence[Sequence[Any]]) -> "StoreTree":
        """Rebuild a tree from the output of `dump`."""
        tree = cls()
        tree.number = number
        entries = tree._entries
        for path, data, version, owner, created, modified, sequence in nodes:
            entry = _Entry(data.encode("latin-1"), owner, created)
            entry.version, entry.modified, entry.sequence = version, modified, sequence
            entries[path] = entry
        for path in entries:
            if path != ROOT:
                parent, name = split(path)
                entries[parent].children[name] = None
        return tree


_WATCH_KINDS = {CREATED: WatchKind.CREATED, DELETED: WatchKind.DELETED}


class Watches:
    """The watches of one session. A watch is called once and removed.

    The watches of a multi are called after all of it is applied, in the order of its changes.
    """

    def __init__(self) -> None:
        self._of_node: dict[str, list[Watch]] = {}
        self._of_children: dict[str, list[Watch]] = {}

    def watch_node(self, path: str, watch: Watch) -> None:
        self._of_node.setdefault(path, []).append(watch)

    def watch_children(self, path: str, watch: Watch) -> None:
        self._of_children.setdefault(path, []).append(watch)

    def clear(self) -> None:
        self._of_node.clear()
        self._of_children.clear()

    def triggered(self, changes: Iterable[Change]) -> Iterator[tuple[Watch, WatchEvent]]:
        """Remove and return the watches that these changes trigger, each with its event."""
        if not self._of_node and not self._of_children:
            return
        for change in changes:
            path = change.path
            event = WatchEvent(_WATCH_KINDS.get(change.kind, WatchKind.CHANGED), path)
            for watch in self._of_node.pop(path, ()):
                yield watch, event
            if change.kind == DELETED:
                for watch in self._of_children.pop(path, ()):
                    yield watch, event
            if change.kind in _WATCH_KINDS:
                parent = split(path)[0]
                for watch in self._of_children.pop(parent, ()):
                    yield watch, WatchEvent(WatchKind.CHILDREN, parent)
