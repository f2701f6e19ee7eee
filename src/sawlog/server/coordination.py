"""Opens a broker's coordination store: embedded in its data directory, or a ZooKeeper ensemble."""

import asyncio
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sawlog.cluster import znodes
from sawlog.cluster.embedded_store import EmbeddedStore
from sawlog.cluster.moved_store import MOVE, MOVED, decode_mark
from sawlog.cluster.store_journal import JOURNAL_PREFIX, SNAPSHOT, is_store_file
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import NodeId
from sawlog.core.ports import Disk, DiskError, Timer
from sawlog.core.store import NoNode, SessionState, Store, StoreError
from sawlog.server.address import Address
from sawlog.server.zookeeper_address import ZooKeeperAddress
from sawlog.storage.log_files import (
    META_PROPERTIES,
    RESTORING,
    CorruptFile,
    MetaProperties,
    decode_meta_properties,
    parse_partition_directory,
)

if TYPE_CHECKING:
    from sawlog.server.zookeeper_store import ZooKeeperStore

logger = EventLogger(__name__)
NO_ZOOKEEPER = 3
"""The exit code of a process that found no ZooKeeper."""

_POLL_S = 0.01
_PROBE_S = 1.0
_SILENCE_S = 1.0
"""How long a start waits for ZooKeeper before it logs that it waits."""


@dataclass(frozen=True, slots=True)
class ZooKeeperOptions:
    """How a broker connects to ZooKeeper; `credentials` is `user:password`."""

    address: ZooKeeperAddress
    session_timeout_ms: int
    connection_timeout_ms: int
    credentials: str | None


class ZooKeeperUnreachable(OSError):
    """No server of the ensemble accepted a session in time; the text says why, and what to do."""


class Coordination:
    """The store of one broker. With ZooKeeper it has no session before `ready`.

    The constructor checks that the data directory belongs to this kind of store (DiskError), and
    opens the embedded one.
    """

    def __init__(
        self,
        disk: Disk,
        timer: Timer,
        loop: asyncio.AbstractEventLoop,
        zookeeper: ZooKeeperOptions | None,
    ) -> None:
        self._disk = disk
        self._loop = loop
        self._options = zookeeper
        self._zookeeper: ZooKeeperStore | None = None
        self.store: Store
        if zookeeper is None:
            require_embedded_store(disk)
            self.store = EmbeddedStore(disk, timer)
            self.store.on_state(_embedded_store_changed)
        else:
            refuse_embedded_store(disk)
            self.store = self._zookeeper = zookeeper_store(loop, zookeeper)
            self._zookeeper.on_state(self._zookeeper_changed)

    async def ready(self, node: NodeId) -> None:
        """Return when the store has a session and may be used by this broker; OSError if not."""
        if self._zookeeper is None:
            return
        assert self._options is not None
        await connect(self._zookeeper, self._options)
        await self._check_no_move()
        await self._check_owner(node)

    async def _check_no_move(self) -> None:
        """Refuse a tree that is only partly copied from an embedded store."""
        stat = await self._call(lambda done: self.store.exists(MOVE, done))
        if _or_raise(stat) is not None:
            assert self._options is not None
            raise OSError(
                f"a store is being moved to ZooKeeper at {self._options.address}: wait for its end,"
                " or run `sawlog move-to-zookeeper` again if it was interrupted"
            )

    async def _check_owner(self, node_id: NodeId) -> None:
        """Refuse the data directory of another cluster or broker before anything is written."""
        meta = _read_meta(self._disk)
        if meta is None or meta.is_reserved:
            return
        if meta.node_id != node_id:
            raise OSError(
                f"the data directory belongs to broker {meta.node_id}, not to broker {node_id}:"
                " correct --node-id or --data"
            )
        node = await self._call(lambda done: self.store.get(znodes.CLUSTER_ID, done))
        found = None if isinstance(node, NoNode) else znodes.decode_cluster_id(_or_raise(node))
        if found != meta.cluster_id:
            assert self._options is not None
            raise OSError(
                f"the data directory belongs to cluster {meta.cluster_id}, but ZooKeeper at"
                f" {self._options.address} has {'no cluster' if found is None else found}:"
                " correct --zookeeper or --data, or restore ZooKeeper's data"
            )

    async def _call(self, ask: Callable[[Callable[[Any], None]], None]) -> Any:
        answered: asyncio.Future[Any] = self._loop.create_future()
        ask(answered.set_result)
        return await answered

    def _zookeeper_changed(self, state: SessionState) -> None:
        assert self._zookeeper is not None
        where = str(self._zookeeper.address)
        if state is SessionState.CONNECTED:
            session = f"{self._zookeeper.session_id:#x}"
            logger.info("connected to ZooKeeper", zookeeper=where, session=session)
        elif state is SessionState.SUSPENDED:
            logger.warning(
                "the connection to ZooKeeper is lost: records are still served, but topics and"
                " settings cannot be changed until it is back",
                zookeeper=where,
            )
        else:
            logger.warning("the ZooKeeper session has ended; opening a new one", zookeeper=where)


async def connect(store: "ZooKeeperStore", options: ZooKeeperOptions) -> None:
    """Start the store and return when it has a session; ZooKeeperUnreachable after the connection
    timeout, OSError if the session cannot be used."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    timeout_s = options.connection_timeout_ms / 1000
    has_logged = False
    store.start()
    while store.state is not SessionState.CONNECTED:
        waited_s = loop.time() - began
        if store.failure is not None:
            raise OSError(
                f"the tree in ZooKeeper at {store.address} cannot be used: {store.failure}"
            )
        if waited_s >= timeout_s:
            raise ZooKeeperUnreachable(
                f"no ZooKeeper server of {store.address} accepted a session within {timeout_s:g} s"
                f" ({await _problems(store.address)}): start ZooKeeper, correct --zookeeper (the"
                " setting zookeeper.connect), or wait longer with --connect-timeout"
            )
        if waited_s >= _SILENCE_S and not has_logged:
            has_logged = True
            logger.warning(
                "waiting for ZooKeeper",
                zookeeper=str(store.address),
                reason=await _problems(store.address),
                timeout_s=timeout_s,
            )
        await asyncio.sleep(_POLL_S)


async def _problems(address: ZooKeeperAddress) -> str:
    """Describe why the servers of an ensemble gave no session."""
    found = await asyncio.gather(*(_problem(server) for server in address.servers))
    return "; ".join(
        f"{server}: {problem}" for server, problem in zip(address.servers, found, strict=True)
    )


async def _problem(server: Address) -> str:
    try:
        opened = asyncio.open_connection(server.host, server.port)
        _, writer = await asyncio.wait_for(opened, _PROBE_S)
    except TimeoutError:
        return "no connection"
    except socket.gaierror as error:
        return error.strerror or "unknown host"
    except OSError as error:
        return os.strerror(error.errno) if error.errno else str(error)
    writer.close()
    return "accepts connections, but does not answer as a ZooKeeper that serves"


def zookeeper_store(loop: asyncio.AbstractEventLoop, options: ZooKeeperOptions) -> "ZooKeeperStore":
    try:
        from sawlog.server.zookeeper_store import ZooKeeperStore
    except ModuleNotFoundError as error:
        raise OSError(
            f"--zookeeper needs the package {error.name!r}, which is not installed:"
            " pip install 'sawlog[zookeeper]'"
        ) from error
    return ZooKeeperStore(
        options.address,
        loop,
        session_timeout_ms=options.session_timeout_ms,
        credentials=options.credentials,
    )


def _or_raise(answer: Any) -> Any:
    if isinstance(answer, StoreError):
        raise OSError(f"ZooKeeper did not answer: {answer}")
    return answer


def _embedded_store_changed(state: SessionState) -> None:
    if state is SessionState.LOST:
        logger.error(
            "the coordination store failed: records are still served, but topics and settings "
            "cannot be changed; repair the disk and restart the broker"
        )


def require_embedded_store(disk: Disk) -> None:
    """Raise DiskError for a directory that was only partly restored, or has logs and no store: with
    a new, empty store the broker would treat every log as a stray."""
    names = _names_of_restored(disk)
    if MOVED in names:
        mark = decode_mark(disk.read_file(MOVED))
        where = "" if mark is None else f" at {mark.zookeeper}"
        raise DiskError(
            disk.root,
            f"the coordination store of this directory was moved to ZooKeeper{where}: start the"
            " broker with --zookeeper (the setting zookeeper.connect)",
        )
    meta = _read_meta(disk)
    is_used = META_PROPERTIES in names and (meta is None or not meta.is_reserved)
    has_logs = any(parse_partition_directory(name) is not None for name in names)
    if not any(map(is_store_file, names)) and (is_used or has_logs):
        raise DiskError(
            disk.root,
            "the directory has logs, but its coordination store is missing "
            f"({JOURNAL_PREFIX}*, {SNAPSHOT}): if its cluster uses ZooKeeper, name it with"
            " --zookeeper; else restore the store, or use another data directory",
        )


def refuse_embedded_store(disk: Disk) -> None:
    """Raise DiskError for a directory whose topics are in an embedded store: ZooKeeper does not
    have them, and the broker would treat every log as a stray."""
    names = _names_of_restored(disk)
    if any(map(is_store_file, names)):
        if MOVED in names:
            raise DiskError(
                disk.root,
                "the move of its coordination store to ZooKeeper was interrupted: run `sawlog"
                " move-to-zookeeper` again",
            )
        raise DiskError(
            disk.root,
            f"the directory has an embedded coordination store ({JOURNAL_PREFIX}*, {SNAPSHOT}),"
            " and ZooKeeper does not have its topics: start the broker without --zookeeper (the"
            " setting zookeeper.connect), move the store with `sawlog move-to-zookeeper`, or use"
            " another data directory",
        )


def _read_meta(disk: Disk) -> MetaProperties | None:
    """Return the contents of meta.properties; None if it is missing or damaged."""
    try:
        return decode_meta_properties(disk.read_file(META_PROPERTIES))
    except (FileNotFoundError, CorruptFile):
        return None


def _names_of_restored(disk: Disk) -> list[str]:
    names = disk.list("")
    if RESTORING in names:
        raise DiskError(
            disk.root,
            "a restore into this directory was interrupted: delete everything in it, then run"
            " `sawlog backup restore` again",
        )
    return names
