"""The Store port: ZooKeeper's semantics, whoever implements them.

A tree of small nodes with versions, ephemerals, sequence nodes, one-shot watches, multi, and a
session that is connected, suspended or lost. Every call returns at once; its `done` is called
later, exactly once, never from inside the call, with the answer or with a `StoreError` as a value.
Answers of one client come in the order of its calls, and a write's answer means that it is durable.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol, TypeVar

ANY_VERSION = -1
"""A version that matches whatever is there."""


class StoreError(Exception):
    """Why a call did not do what it asked for; nothing of it happened, unless the class says so."""

    def __init__(self, path: str, reason: str = "") -> None:
        super().__init__(f"{path}: {reason}" if reason else path)
        self.path = path


class NoNode(StoreError):
    """There is no such node (for a create: no such parent)."""


class NodeExists(StoreError):
    """The node to create is there already."""


class BadVersion(StoreError):
    """The node's version is another one than expected: somebody else wrote first."""


class NotEmpty(StoreError):
    """A node with children is not deleted."""


class NoChildrenForEphemerals(StoreError):
    """An ephemeral node has no children."""


class BadArguments(StoreError):
    """The path or the data is not one that a store takes."""


class ConnectionLost(StoreError):
    """The connection broke: whether the write happened is unknown."""


class SessionLost(StoreError):
    """The session is over: its ephemerals and watches are gone, and the call did not happen."""


class StoreUnavailable(StoreError):
    """The store cannot take this write (a full disk, say); reads go on, a later write may work."""


class SessionState(Enum):
    """After LOST the store begins a new session by itself and tells CONNECTED with its new id."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


class NodeStat(NamedTuple):
    """What is known of a node besides its data. `created` and `modified` are change numbers that
    rise over the whole tree (ZooKeeper's czxid and mzxid)."""

    version: int
    children: int
    owner: int  # the session of an ephemeral, else 0
    created: int
    modified: int


class Node(NamedTuple):
    data: bytes
    stat: NodeStat


class WatchKind(Enum):
    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILDREN = "children"


class WatchEvent(NamedTuple):
    kind: WatchKind
    path: str


Watch = Callable[[WatchEvent], None]
"""Called once, after the change is durable and before any answer that shows it to this client.
Watches end with the connection, without an event: on CONNECTED, read and watch again."""


@dataclass(frozen=True, slots=True)
class Create:
    """A new node at version 0. A sequential one gets ten digits behind its name, from a counter
    that its parent keeps; the result tells the whole path."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    """New data, and a version one higher."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """Changes nothing; the multi around it fails unless the node has this version."""

    path: str
    version: int


Operation = Create | SetData | Delete | Check
Result = str | NodeStat | None
"""Of a Create the path, of a SetData the new stat, of a Delete and a Check nothing."""

T = TypeVar("T")
Done = Callable[[T | StoreError], None]


class Store(Protocol):
    """One client's session with the tree. Paths begin with `/` and do not end with one."""

    @property
    def state(self) -> SessionState: ...

    @property
    def session_id(self) -> int:
        """Of the session that is or was last connected; 0 before the first."""
        ...

    def on_state(self, listener: Callable[[SessionState], None]) -> None:
        """Tells every change of the session's state from now on."""
        ...

    def get(self, path: str, done: Done[Node], watch: Watch | None = None) -> None:
        """The node, or NoNode. The watch is set where the node exists, and tells CHANGED or
        DELETED."""
        ...

    def exists(self, path: str, done: Done[NodeStat | None], watch: Watch | None = None) -> None:
        """The stat, None where there is no node. The watch is set in both cases, and tells CREATED,
        CHANGED or DELETED."""
        ...

    def children(self, path: str, done: Done[list[str]], watch: Watch | None = None) -> None:
        """The names of the children, sorted, or NoNode. The watch tells CHILDREN when one comes or
        goes, and DELETED when the node itself goes."""
        ...

    def multi(
        self, operations: Sequence[Operation], done: Done[list[Result]], *, urgent: bool = False
    ) -> None:
        """All operations in order as one change, or none and the error of the first that fails.
        An urgent one is an election or a deletion: where the store itself is short of room, it
        takes these from its reserve, and elections, which the next start makes anew, into memory
        until there is room."""
        ...

    def close(self, done: Callable[[], None]) -> None:
        """Ends the session: its ephemerals go. Calls under way are answered first."""
        ...
