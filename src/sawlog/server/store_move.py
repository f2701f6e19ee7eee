"""Moves the coordination store of a stopped broker from its data directory to ZooKeeper.

`cluster/moved_store.py` has the steps. Every step can be repeated, so a move that was interrupted
is finished by running it again. Nothing is deleted: the files of the embedded store are renamed.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from typing import Any

from sawlog.cluster import znodes
from sawlog.cluster.disk_reserve import RESERVE
from sawlog.cluster.moved_store import MOVE, MOVED, MOVED_SUFFIX, MoveMark, decode_mark, moved_nodes
from sawlog.cluster.store_journal import StoreJournal, is_store_file
from sawlog.cluster.store_tree import StoreTree
from sawlog.core.store import (
    Create,
    Delete,
    Node,
    NoNode,
    Operation,
    SessionState,
    Store,
    StoreError,
)
from sawlog.server.coordination import ZooKeeperOptions, connect, zookeeper_store
from sawlog.server.disk import RealDisk
from sawlog.storage.log_files import (
    META_PROPERTIES,
    CorruptFile,
    MetaProperties,
    decode_meta_properties,
)

BATCH_OPERATIONS = 500
BATCH_BYTES = 256 << 10


class CannotMove(Exception):
    """The store was not moved; the text says why, and what to do."""


class StoreMove:
    """One move. The directory is locked, so that no broker runs on it meanwhile."""

    def __init__(self, disk: RealDisk, options: ZooKeeperOptions) -> None:
        """CannotMove if the directory has no embedded store or no owner; DiskError."""
        self._disk = disk
        self._options = options
        self.moved = 0  # nodes that were copied
        disk.lock()
        self._meta = self._read_meta()
        self._mark = MoveMark(
            self._meta.directory_id, self._meta.cluster_id, str(self._options.address)
        )
        names = disk.list("")
        self._store_files = [name for name in names if is_store_file(name)]
        if not self._store_files:
            raise CannotMove(
                f"{disk.root} has no embedded coordination store"
                + (": it was moved already" if MOVED in names else "")
            )
        earlier = decode_mark(disk.read_file(MOVED)) if MOVED in names else None
        if earlier is not None and earlier.zookeeper != self._mark.zookeeper:
            raise CannotMove(
                f"a move of {disk.root} to ZooKeeper at {earlier.zookeeper} was begun: finish it"
                " with that --zookeeper"
            )

    def _read_meta(self) -> MetaProperties:
        try:
            meta = decode_meta_properties(self._disk.read_file(META_PROPERTIES))
        except FileNotFoundError:
            raise CannotMove(f"{self._disk.root} is not the data directory of a broker") from None
        except CorruptFile as error:
            raise CannotMove(
                f"{META_PROPERTIES} is damaged ({error}): start the broker once to repair it"
            ) from None
        if not meta.directory_id:
            raise CannotMove(
                f"{META_PROPERTIES} has no directory.id: start the broker once to add it"
            )
        return meta

    async def run(self) -> None:
        """Move the store; CannotMove, OSError or DiskError."""
        loop = asyncio.get_running_loop()
        store = zookeeper_store(loop, self._options)
        closed: asyncio.Future[None] = loop.create_future()
        try:
            await connect(store, self._options)
            await self._move(store)
        except StoreError as error:
            raise CannotMove(
                f"ZooKeeper refused a change: {error}; run the command again"
            ) from None
        finally:
            store.close(lambda: closed.set_result(None))
            await closed
            assert store.state is SessionState.LOST

    async def _move(self, store: Store) -> None:
        if not await self._is_complete(store):
            await self._begin(store)
            tree = self._read_tree()
            nodes = moved_nodes(tree, self._meta.directory_id)
            await self._copy(store, nodes)
            await self._compare(store, nodes)
            self._disk.replace(MOVED, self._mark.encode())
            await self._complete(store, tree)
        for name in self._store_files:
            self._disk.rename(name, name + MOVED_SUFFIX)
        if self._disk.exists(RESERVE):
            self._disk.remove(RESERVE)
        self._disk.sync_directory("")

    def _read_tree(self) -> StoreTree:
        journal = StoreJournal(self._disk)
        tree = journal.open()
        journal.close()
        cluster_id = znodes.decode_cluster_id(tree.get(znodes.CLUSTER_ID))
        if cluster_id != self._meta.cluster_id:
            raise CannotMove(
                f"{META_PROPERTIES} names cluster {self._meta.cluster_id}, but the coordination"
                f" store is that of cluster {cluster_id}"
            )
        return tree

    async def _is_complete(self, store: Store) -> bool:
        """Whether an earlier move got as far as the cluster id."""
        if not self._disk.exists(MOVED):
            return False
        node = await _call(partial(store.get, znodes.CLUSTER_ID), NoNode)
        return isinstance(node, Node) and (znodes.decode_cluster_id(node) == self._meta.cluster_id)

    async def _begin(self, store: Store) -> None:
        """Mark the tree, and clear what an interrupted move of this directory has left there."""
        node = await _call(partial(store.get, MOVE), NoNode)
        if isinstance(node, NoNode):
            found = await _call(partial(store.children, "/"))
            found = [name for name in found if name != "zookeeper"]  # ZooKeeper's own
            if found:
                raise CannotMove(
                    f"the tree at {self._options.address} is not empty (it has /{found[0]}): name a"
                    f" chroot that does not exist yet, such as {self._other_chroot(found)}"
                )
            await _call(partial(store.multi, [Create(MOVE, self._mark.encode())]))
            return
        mark = decode_mark(node.data)
        if mark is None or mark.directory_id != self._mark.directory_id:
            raise CannotMove(
                f"another data directory is being moved to {self._options.address}: finish that"
                " move, or name another chroot"
            )
        for path in [p async for p in _paths_below(store, "/") if p != MOVE]:
            await _call(partial(store.multi, [Delete(path)]), NoNode)

    def _other_chroot(self, found: Sequence[str]) -> str:
        """Return an address with another chroot than that whose children were found."""
        address = self._options.address
        taken = address.chroot or ("/sawlog" if "sawlog" in found else "")
        return f"{address.hosts}{taken}-2" if taken else f"{address.hosts}/sawlog"

    async def _copy(self, store: Store, nodes: Sequence[Create]) -> None:
        for batch in _batches(nodes):
            await _call(partial(store.multi, batch))
            self.moved += len(batch)

    async def _compare(self, store: Store, nodes: Sequence[Create]) -> None:
        """Read everything back; CannotMove if it differs, with nothing changed for the broker."""
        wanted = {node.path: node.data for node in nodes}
        found: dict[str, bytes] = {}
        async for path in _paths_below(store, "/"):
            if path != MOVE:
                node = await _call(partial(store.get, path))
                found[path] = node.data
        if found != wanted:
            path = min(p for p in {*found, *wanted} if found.get(p) != wanted.get(p))
            raise CannotMove(
                f"the copy of {path} differs: does another program write to"
                f" {self._options.address}? The broker's own store is unchanged"
            )

    async def _complete(self, store: Store, tree: StoreTree) -> None:
        operations: list[Operation] = [
            Create(znodes.CLUSTER_ID, tree.get(znodes.CLUSTER_ID).data),
            Delete(MOVE),
        ]
        await _call(partial(store.multi, operations))


async def _call(ask: Callable[[Callable[[Any], None]], None], *expected: type[StoreError]) -> Any:
    """Return the result of a call, or one of the expected errors; raise any other."""
    answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    ask(answered.set_result)
    result = await answered
    if isinstance(result, StoreError) and not isinstance(result, expected):
        raise result
    return result


async def _paths_below(store: Store, path: str) -> AsyncIterator[str]:
    """Yield the paths of all nodes below `path`, children before parents."""
    for name in await _call(partial(store.children, path)):
        child = f"/{name}" if path == "/" else f"{path}/{name}"
        if child == "/zookeeper":
            continue
        async for below in _paths_below(store, child):
            yield below
        yield child


def _batches(nodes: Sequence[Create]) -> Iterator[list[Create]]:
    batch: list[Create] = []
    size = 0
    for node in nodes:
        if batch and (len(batch) == BATCH_OPERATIONS or size + len(node.data) > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(node)
        size += len(node.data) + len(node.path)
    if batch:
        yield batch
