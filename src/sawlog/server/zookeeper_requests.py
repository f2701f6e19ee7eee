"""The Store's calls as requests of kazoo, and kazoo's results as those of the Store.

Paths get the chroot in front. kazoo's own chroot is not used: it cannot create itself.
"""

from collections.abc import Callable, Sequence
from typing import Any

from kazoo import exceptions as kazoo_errors

from sawlog.cluster.store_tree import check_path
from sawlog.core.store import (
    BadArguments,
    BadVersion,
    ConnectionLost,
    Create,
    Delete,
    NoAuth,
    NoChildrenForEphemerals,
    Node,
    NodeExists,
    NodeStat,
    NoNode,
    NotEmpty,
    Operation,
    Result,
    SessionLost,
    SetData,
    StoreError,
)
from sawlog.server.kazoo_handler import PostedResult

MAX_REQUEST_BYTES = 0xFFFFF - 1024
"""Below the default of jute.maxbuffer: ZooKeeper closes the connection on a larger request."""
_OPERATION_BYTES = 17  # header, version or flags, and the length of the path
_DATA_BYTES = 4  # the length of the data
_OPEN_ACL_BYTES = 27  # of world:anyone

_ERRORS: dict[type[Exception], type[StoreError]] = {
    kazoo_errors.NoNodeError: NoNode,
    kazoo_errors.NodeExistsError: NodeExists,
    kazoo_errors.BadVersionError: BadVersion,
    kazoo_errors.NotEmptyError: NotEmpty,
    kazoo_errors.NoChildrenForEphemeralsError: NoChildrenForEphemerals,
    kazoo_errors.BadArgumentsError: BadArguments,
    kazoo_errors.NoAuthError: NoAuth,
    kazoo_errors.SessionExpiredError: SessionLost,
    kazoo_errors.ConnectionLoss: ConnectionLost,
    kazoo_errors.ConnectionClosedError: ConnectionLost,
    kazoo_errors.OperationTimeoutError: ConnectionLost,
    kazoo_errors.SessionMovedError: ConnectionLost,
}
_ROLLED_BACK = (kazoo_errors.RolledBackError, kazoo_errors.RuntimeInconsistency)
"""In a failed multi: the operations before and after the one that failed."""

Watcher = Callable[[Any], None] | None
Sent = tuple[PostedResult, Callable[[Any], Any]]
"""A request that was sent, and the function that reads its result."""


def store_error(path: str, error: Exception) -> StoreError:
    kind = _ERRORS.get(type(error))
    if kind is NoAuth:
        return NoAuth(path, "ZooKeeper denies access with the credentials of this client")
    if kind is not None:
        return kind(path)
    return StoreError(path, f"ZooKeeper answered {type(error).__name__} {error}".rstrip())


class ZooKeeperRequests:
    """Sends requests below a chroot; new nodes get `acl`, or an open one if it is None."""

    def __init__(self, chroot: str, acl: list[Any] | None) -> None:
        self._chroot = chroot
        self._acl = acl
        self._acl_bytes = _OPEN_ACL_BYTES
        if acl is not None:
            self._acl_bytes = 4 + sum(12 + len(e.id.scheme) + len(e.id.id.encode()) for e in acl)

    def get(self, client: Any, path: str, watcher: Watcher) -> Sent:
        return client.get_async(self._absolute(path), watch=watcher), _read_node

    def exists(self, client: Any, path: str, watcher: Watcher) -> Sent:
        return client.exists_async(self._absolute(path), watch=watcher), _read_stat

    def children(self, client: Any, path: str, watcher: Watcher) -> Sent:
        return client.get_children_async(self._absolute(path), watch=watcher), sorted

    def multi(self, client: Any, operations: Sequence[Operation]) -> Sent:
        """BadArguments, before anything is sent, for an invalid path or too much data."""
        if self.size(operations) > MAX_REQUEST_BYTES:
            reason = f"the request has more than {MAX_REQUEST_BYTES} bytes, ZooKeeper's limit"
            raise BadArguments(operations[0].path, reason)
        transaction = client.transaction()
        for operation in operations:
            check_path(operation.path)
            path = self._absolute(operation.path)
            if isinstance(operation, Create):
                transaction.create(
                    path,
                    operation.data,
                    acl=self._acl,
                    ephemeral=operation.ephemeral,
                    sequence=operation.sequential,
                )
            elif isinstance(operation, SetData):
                transaction.set_data(path, operation.data, operation.version)
            elif isinstance(operation, Delete):
                transaction.delete(path, operation.version)
            else:
                transaction.check(path, operation.version)

        def read(results: list[Any]) -> list[Result] | StoreError:
            return self._read_multi(operations, results)

        return transaction.commit_async(), read

    def create_chroot(self, client: Any) -> list[tuple[str, PostedResult]]:
        """Create the nodes of the chroot from the top; return the path and result of each multi.

        Only the last node gets the ACL: other chroots may have the same parents.
        """
        names = self._chroot.split("/")[1:]
        sent = []
        for count in range(1, len(names) + 1):
            path = "/" + "/".join(names[:count])
            transaction = client.transaction()
            transaction.create(path, acl=self._acl if count == len(names) else None)
            sent.append((path, transaction.commit_async()))
        return sent

    def _absolute(self, path: str) -> str:
        if not self._chroot:
            return path
        return self._chroot if path == "/" else self._chroot + path

    def size(self, operations: Sequence[Operation]) -> int:
        """Return the size of a multi in bytes, without its headers."""
        size = 0
        for operation in operations:
            size += _OPERATION_BYTES + len(self._absolute(operation.path).encode())
            if isinstance(operation, Create | SetData):
                size += _DATA_BYTES + len(operation.data)
            if isinstance(operation, Create):
                size += self._acl_bytes
        return size

    def _read_multi(
        self, operations: Sequence[Operation], results: list[Any]
    ) -> list[Result] | StoreError:
        for operation, result in zip(operations, results, strict=True):
            if isinstance(result, Exception) and not isinstance(result, _ROLLED_BACK):
                return store_error(operation.path, result)
        return [self._read_result(result) for result in results]

    def _read_result(self, result: Any) -> Result:
        if isinstance(result, str):
            return result[len(self._chroot) :]
        return None if result is True else _read_stat(result)


def _read_node(result: tuple[bytes | None, Any]) -> Node:
    data, stat = result
    return Node(data or b"", _stat(stat))


def _read_stat(stat: Any) -> NodeStat | None:
    return None if stat is None else _stat(stat)


def _stat(stat: Any) -> NodeStat:
    return NodeStat(
        version=stat.version,
        children=stat.numChildren,
        owner=stat.ephemeralOwner,
        created=stat.czxid,
        modified=stat.mzxid,
    )
