"""The Store port: the coordination store, with ZooKeeper's semantics.

It is a tree of small nodes with versions, ephemeral and sequential nodes, one-shot watches, multi,
and a session that is connected, suspended or lost. Every call returns at once; its `done` is called
exactly once, later, never from inside the call, with the result or with a `StoreError` as a value.
Results come in the order of the calls, and a write is durable when its result comes. Calls that
fail with a lost connection or session may do so in any order, after the results of earlier calls.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol, TypeVar

ANY_VERSION = -1
"""Matches every version."""


class StoreError(Exception):
    """A call failed; it changed nothing, unless the subclass says otherwise."""

    def __init__(self, path: str, reason: str = "") -> None:
        super().__init__(f"{path}: {reason}" if reason else path)
        self.path = path


class NoNode(StoreError):
    """The node (for a create: its parent) does not exist."""


class NodeExists(StoreError):
    """The node to create exists."""


class BadVersion(StoreError):
    """The node's version is not the expected one: another client wrote first."""


class NotEmpty(StoreError):
    """The node has children and cannot be deleted."""


class NoChildrenForEphemerals(StoreError):
    """The parent is ephemeral and cannot have children."""


class BadArguments(StoreError):
    """The path is invalid or the data too large."""


class ConnectionLost(StoreError):
    """The connection was lost. A write may have happened, or may still happen, but not after a call
    that is made after the next CONNECTED."""


class SessionLost(StoreError):
    """The session ended, with its ephemeral nodes and watches; the call did not happen."""


class NoAuth(StoreError):
    """The store's access control does not permit the call."""


class StoreUnavailable(StoreError):
    """The store cannot write now, for example on a full disk; reads work, later writes may."""


class SessionState(Enum):
    """The state of the session; the store reconnects by itself, until it is closed.

    SUSPENDED: the connection is lost, the session and its ephemeral nodes may still exist. All
    pending calls fail with ConnectionLost, and so do new ones.
    LOST: the session has ended, with its ephemeral nodes. Pending calls fail with ConnectionLost,
    new ones with SessionLost.
    CONNECTED: after SUSPENDED with the same session id, after LOST with a new one. In both cases no
    watch of an earlier connection exists any more, so the user of the store must read and watch
    everything again; only the user knows which changes it missed. After a new id it must also
    create its ephemeral nodes again.

    A store may report LOST without SUSPENDED before it; it never reports the same state twice in a
    row.
    """

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


class NodeStat(NamedTuple):
    """A node's metadata. `created` and `modified` are change numbers of the whole tree (ZooKeeper's
    czxid and mzxid)."""

    version: int
    children: int
    owner: int  # the session of an ephemeral node, else 0
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
"""Called once, after the change is durable and before any result that shows it to this client.
A lost connection removes all watches without an event, see SessionState."""


@dataclass(frozen=True, slots=True)
class Create:
    """Create a node at version 0. A sequential node gets ten digits appended to its name: how many
    children its parent has had before. The result is the whole path."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    """Replace the data and increment the version."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """Fail the whole multi unless the node has this version."""

    path: str
    version: int


Operation = Create | SetData | Delete | Check
Result = str | NodeStat | None
"""The path for a Create, the new stat for a SetData, None for a Delete or a Check."""

T = TypeVar("T")
OnDone = Callable[[T | StoreError], None]


class Store(Protocol):
    """One client's session. Paths begin with `/` and do not end with it."""

    @property
    def state(self) -> SessionState: ...

    @property
    def session_id(self) -> int:
        """The id of the current or last session; 0 before the first."""
        ...

    def may_have_expired(self) -> bool:
        """Tell whether the session may have ended by now without this client's knowledge.

        It is measured from the sending of the last request that was answered, on a clock that
        counts machine sleep. While it is False, the ephemeral nodes of the session exist and no
        other broker was elected in this one's place. LOST counts as expired, except in a store
        that has no other clients.
        """
        ...

    def on_state(self, listener: Callable[[SessionState], None]) -> None:
        """Call `listener` with every change of the session's state."""
        ...

    def get(self, path: str, done: OnDone[Node], watch: Watch | None = None) -> None:
        """Read a node, or NoNode. The watch is set only if the node exists, and reports CHANGED or
        DELETED."""
        ...

    def exists(self, path: str, done: OnDone[NodeStat | None], watch: Watch | None = None) -> None:
        """Read a node's stat; None if it does not exist. The watch is set in both cases and reports
        CREATED, CHANGED or DELETED."""
        ...

    def children(self, path: str, done: OnDone[list[str]], watch: Watch | None = None) -> None:
        """List the names of the children, sorted, or NoNode. The watch reports CHILDREN when one is
        created or deleted, and DELETED for the node itself."""
        ...

    def multi(
        self, operations: Sequence[Operation], done: OnDone[list[Result]], *, urgent: bool = False
    ) -> None:
        """Apply all operations in order as one change, or none and return the first one's error.

        `urgent` is for leader elections and deletions of topics. A store on a full disk writes
        deletions to reserved space and keeps elections, which are repeated after a restart, in
        memory until there is space."""
        ...

    def close(self, done: Callable[[], None]) -> None:
        """End the session and delete its ephemeral nodes, after the results of earlier calls."""
        ...
