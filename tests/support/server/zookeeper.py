"""A real ZooKeeper on loopback that tests start, kill and restart, and a proxy that cuts it off."""

import asyncio
import itertools
import select
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

from kazoo.client import KazooClient

from sawlog.core.store import OnDone, Operation, Result, SessionState, WatchEvent
from sawlog.server.address import Address
from sawlog.server.zookeeper_address import ZooKeeperAddress
from sawlog.server.zookeeper_process import (
    FAST_START,
    ZooKeeperServer,
    ZooKeeperUnavailable,
    is_serving,
)
from sawlog.server.zookeeper_store import ZooKeeperStore
from support.cluster.stores import Session
from support.process import ServerProcess
from support.programs import unavailable
from tools.kafka_node import free_port

START_TIMEOUT_S = 180
PATIENCE_S = 180.0
SESSION_TIMEOUT_MS = 4000
HOST = "127.0.0.1"


class ZooKeeper:
    """One standalone server; `restart` after `kill` keeps its port and data."""

    def __init__(self, directory: Path) -> None:
        self.address = Address(HOST, free_port())
        self._server = ZooKeeperServer(directory, self.address)
        self._chroots = itertools.count(1)
        self.start()

    def start(self) -> None:
        self._server.write_config()
        try:
            command = self._server.command(FAST_START)
        except ZooKeeperUnavailable as error:
            unavailable(str(error))
        self.process = ServerProcess(command)
        assert is_serving(self.address, START_TIMEOUT_S), self.process.output

    def new_chroot(self) -> ZooKeeperAddress:
        """An address with a chroot that shares no node with those of other tests."""
        return ZooKeeperAddress((self.address,), f"/test{next(self._chroots)}")

    def kill(self) -> None:
        self.process.kill()


class Proxy:
    """Forwards loopback connections to a server; `cut` closes them and accepts no more.
    `hold_answers` drops what the server sends, until the next `restore`."""

    def __init__(self, target: Address) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._is_cut = False
        self._drops_answers = False
        self._listener = socket.create_server((HOST, 0))
        self.address = Address(HOST, self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if self._is_cut:
                    client.close()
                    continue
                server = socket.create_connection(self._target)
                self._pairs.append((client, server))
            threading.Thread(target=self._forward, args=(client, server), daemon=True).start()

    def cut(self) -> None:
        with self._lock:
            self._is_cut = True
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                _shut(end)

    def hold_answers(self) -> None:
        self._drops_answers = True

    def restore(self) -> None:
        with self._lock:
            self._is_cut = False
            self._drops_answers = False

    def close(self) -> None:
        self.cut()
        _shut(self._listener)
        self._listener.close()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        """Copy bytes both ways until one end closes; then close both."""
        other = {client: server, server: client}
        with client, server:
            while True:
                readable, _, _ = select.select([client, server], [], [])
                for source in readable:
                    try:
                        data = source.recv(65536)
                        if source is client or not self._drops_answers:
                            other[source].sendall(data)
                    except OSError:
                        return
                    if not data:
                        return


def _shut(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


class StoresOnZooKeeper:
    """Stores on one tree of a ZooKeeper, driven by an event loop of their own."""

    def __init__(self, address: ZooKeeperAddress, *, credentials: str | None = None) -> None:
        self._address = address
        self._credentials = credentials
        self._loop = asyncio.new_event_loop()
        self._stores: list[ZooKeeperStore] = []
        self._links: list[ZooKeeperLink] = []

    def open(self, address: ZooKeeperAddress | None = None) -> ZooKeeperStore:
        """Start a store without waiting until it is connected."""
        store = ZooKeeperStore(
            address or self._address,
            self._loop,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            credentials=self._credentials,
        )
        self._stores.append(store)
        store.start()
        return store

    def connect(self) -> ZooKeeperStore:
        store = self.open()
        assert self.drive(lambda: store.session_id != 0), "the store did not connect"
        return store

    def link(self) -> "ZooKeeperLink":
        link = ZooKeeperLink(self, self._address)
        self._links.append(link)
        return link

    def drive(self, until: Callable[[], bool]) -> bool:
        async def poll() -> bool:
            deadline = time.monotonic() + PATIENCE_S
            while not until():
                if time.monotonic() > deadline:
                    return False
                await asyncio.sleep(0.002)
            return True

        return self._loop.run_until_complete(poll())

    def close(self) -> None:
        closed: list[bool] = []
        for store in self._stores:
            store.close(lambda: closed.append(True))
        assert self.drive(lambda: len(closed) == len(self._stores))
        self._loop.close()
        for link in self._links:
            link.proxy.close()


class ZooKeeperLink:
    """A store whose connection goes through a proxy."""

    def __init__(self, harness: StoresOnZooKeeper, address: ZooKeeperAddress) -> None:
        self._harness = harness
        self.proxy = Proxy(address.servers[0])
        self.store = harness.open(address._replace(servers=(self.proxy.address,)))

    def cut(self) -> None:
        self.proxy.cut()

    def restore(self) -> None:
        self.proxy.restore()

    def end_session(self) -> None:
        """End it from another client, which has its id and password."""
        client = KazooClient(self.store.address.hosts, client_id=self.store._client.client_id)
        client.start()
        client.stop()
        client.close()

    def next_session(self) -> ZooKeeperStore:
        lost = self.store.session_id
        assert self._harness.drive(
            lambda: self.store.state is SessionState.CONNECTED and self.store.session_id != lost
        )
        return self.store

    def lose_answer(self, operation: Operation, done: OnDone[list[Result]]) -> None:
        applied: list[WatchEvent] = []
        Session(self._harness).exists(operation.path, applied.append)
        self.proxy.hold_answers()
        self.store.multi([operation], done)
        assert self._harness.drive(lambda: bool(applied))
        self.cut()
