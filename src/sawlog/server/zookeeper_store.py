"""The Store port on a ZooKeeper ensemble, through kazoo.

kazoo has a thread for its connection; everything it reports reaches the event loop through
`LoopHandler`, in order. The store answers calls in the order in which they were made, and it fails
all pending calls itself when the connection is lost, because kazoo can lose a request that is made
at that moment. kazoo reconnects, and starts a new session after an expired one.
"""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from kazoo.protocol.states import EventType, KazooState, KeeperState
from kazoo.retry import KazooRetry
from kazoo.security import make_digest_acl

from sawlog.cluster.callbacks import guarded
from sawlog.cluster.store_tree import check_path
from sawlog.cluster.znodes import BROKER_IDS
from sawlog.core.event_logger import EventLogger
from sawlog.core.store import (
    BadArguments,
    ConnectionLost,
    Node,
    NodeExists,
    NodeStat,
    NoNode,
    OnDone,
    Operation,
    Result,
    SessionLost,
    SessionState,
    StoreError,
    Watch,
    WatchEvent,
    WatchKind,
)
from sawlog.server.kazoo_handler import LoopHandler, PostedResult, kazoo_logger
from sawlog.server.session_lease import LeasedClient, SessionLease
from sawlog.server.zookeeper_address import ZooKeeperAddress
from sawlog.server.zookeeper_requests import ZooKeeperRequests, store_error

logger = EventLogger(__name__)

ATTEMPT_SHARE = 0.25
"""How much of the session timeout one attempt to connect may take."""
RETRY_DELAY_S = 0.1
MAX_RETRY_DELAY_S = 1.0
RESTART_S = 1.0
"""Before a client that gave up is replaced."""
CLOSE_TIMEOUT_S = 3.0
"""How long a close waits for the ensemble. A session that is not closed expires there."""

_KINDS = {
    EventType.CREATED: WatchKind.CREATED,
    EventType.DELETED: WatchKind.DELETED,
    EventType.CHANGED: WatchKind.CHANGED,
    EventType.CHILD: WatchKind.CHILDREN,
}


class _Call:
    """One call: it has a result when `answer` is not None."""

    __slots__ = ("answer", "done", "path")

    def __init__(self, path: str, done: Callable[[Any], None]) -> None:
        self.path = path
        self.done = done
        self.answer: tuple[Any] | None = None


class ZooKeeperStore:
    """One session after the other with an ensemble; `start` opens the first.

    Until the first CONNECTED, and between LOST and CONNECTED, the state is LOST: there is no
    session. All methods and callbacks belong to the event loop's thread. `credentials` is
    `user:password`: the session authenticates with it, and every node that it creates is readable
    and writable with it only.
    """

    def __init__(
        self,
        address: ZooKeeperAddress,
        loop: asyncio.AbstractEventLoop,
        *,
        session_timeout_ms: int,
        credentials: str | None = None,
    ) -> None:
        self.address = address
        self.state = SessionState.LOST
        self.session_id = 0
        self.failure: StoreError | None = None  # why the ensemble's tree cannot be used
        self._loop = loop
        self._handler = LoopHandler(loop, session_timeout_ms / 1000 * ATTEMPT_SHARE)
        self._session_timeout_ms = session_timeout_ms
        self._credentials = credentials
        self._requests = ZooKeeperRequests(address.chroot, digest_acl(credentials))
        self._client: Any = None
        self._lease = SessionLease()
        self._listeners: list[Callable[[SessionState], None]] = []
        self._calls: deque[_Call] = deque()
        self._connection = 0  # rises with every change of the connection
        self._is_closing = False

    def start(self) -> None:
        """Connect, now and after every lost connection, until `close`."""
        self._lease = SessionLease()
        self._client = client = LeasedClient(
            self._lease,
            hosts=self.address.hosts,
            timeout=self._session_timeout_ms / 1000,
            handler=self._handler,
            auth_data=[("digest", self._credentials)] if self._credentials else None,
            connection_retry=KazooRetry(
                max_tries=-1,
                delay=RETRY_DELAY_S,
                max_delay=MAX_RETRY_DELAY_S,
                sleep_func=self._handler.sleep_func,
            ),
            logger=kazoo_logger,
        )

        def changed(state: str) -> None:
            """Called in kazoo's thread, where its state is not changing meanwhile."""
            session = 0
            if state == KazooState.CONNECTED:
                self._handler.connected()
                session = client.client_id[0]
            self._handler.post(self._kazoo_changed, client, state, client.client_state, session)

        client.add_listener(changed)
        client.start_async()

    def may_have_expired(self) -> bool:
        return self.state is SessionState.LOST or self._lease.may_have_ended()

    def on_state(self, listener: Callable[[SessionState], None]) -> None:
        self._listeners.append(listener)

    # Calls

    def get(self, path: str, done: OnDone[Node], watch: Watch | None = None) -> None:
        watcher = self._watcher(path, watch)
        self._call(path, done, lambda: self._requests.get(self._client, path, watcher))

    def exists(self, path: str, done: OnDone[NodeStat | None], watch: Watch | None = None) -> None:
        watcher = self._watcher(path, watch)
        self._call(path, done, lambda: self._requests.exists(self._client, path, watcher))

    def children(self, path: str, done: OnDone[list[str]], watch: Watch | None = None) -> None:
        watcher = self._watcher(path, watch)
        self._call(path, done, lambda: self._requests.children(self._client, path, watcher))

    def multi(
        self,
        operations: Sequence[Operation],
        done: OnDone[list[Result]],
        *,
        urgent: bool = False,  # noqa: ARG002 - the ensemble has no reserved space
    ) -> None:
        path = operations[0].path if operations else "/"
        copied = tuple(operations)
        self._call(path, done, lambda: self._requests.multi(self._client, copied))

    def _call(
        self,
        path: str,
        done: Callable[[Any], None],
        send: Callable[[], tuple[PostedResult, Callable[[Any], Any]]],
    ) -> None:
        call = _Call(path, done)
        self._calls.append(call)
        if self.state is not SessionState.CONNECTED:
            self._loop.call_soon(self._answer, call, self._not_connected(path))
            return
        try:
            check_path(path)
            result, read = send()
        except BadArguments as error:
            self._loop.call_soon(self._answer, call, error)
            return
        result.on_result = partial(self._received, call, read)

    def _received(self, call: _Call, read: Callable[[Any], Any], result: Any) -> None:
        if isinstance(result, Exception):
            self._answer(call, store_error(call.path, result))
        else:
            self._answer(call, read(result))

    def _answer(self, call: _Call, answer: Any) -> None:
        """Note the answer, unless the call has one, and call back all that are due."""
        if call.answer is None:
            call.answer = (answer,)
            self._deliver()

    def _deliver(self) -> None:
        while self._calls and self._calls[0].answer is not None:
            call = self._calls.popleft()
            assert call.answer is not None
            guarded(call.done, call.answer[0])

    def _fail_pending(self) -> None:
        for call in self._calls:
            if call.answer is None:
                call.answer = (self._lost_connection(call.path),)
        self._deliver()

    def _not_connected(self, path: str) -> StoreError:
        if self.state is SessionState.LOST:
            return SessionLost(path, f"there is no session with ZooKeeper at {self.address}")
        return self._lost_connection(path)

    def _lost_connection(self, path: str) -> StoreError:
        return ConnectionLost(path, f"the connection to ZooKeeper at {self.address} is lost")

    def _watcher(self, path: str, watch: Watch | None) -> Callable[[Any], None] | None:
        """Return a watch function for kazoo, which calls all of them once without a type of event
        when the connection is lost."""
        if watch is None:
            return None
        connection = self._connection

        def fired(event: Any) -> None:
            kind = _KINDS.get(event.type)
            if kind is not None and connection == self._connection:
                guarded(watch, WatchEvent(kind, path))

        return fired

    # The session

    def _kazoo_changed(self, client: Any, state: str, keeper_state: str, session: int) -> None:
        if client is not self._client or self._is_closing:
            return
        self._connection += 1
        if state == KazooState.CONNECTED:
            self._prepare_tree(session)
        elif state == KazooState.SUSPENDED:
            if self.state is SessionState.CONNECTED:
                self._change(SessionState.SUSPENDED)
        else:
            if self.state is not SessionState.LOST:
                self._change(SessionState.LOST)
            if keeper_state in (KeeperState.CLOSED, KeeperState.AUTH_FAILED):
                logger.error("the ZooKeeper client gave up; starting another", state=keeper_state)
                self._loop.call_later(RESTART_S, self._replace_client)

    def _change(self, state: SessionState) -> None:
        self.state = state
        if state is not SessionState.CONNECTED:
            self._fail_pending()
        for listener in list(self._listeners):
            guarded(listener, state)

    def _replace_client(self) -> None:
        if not self._is_closing:
            threading.Thread(target=_stop, args=(self._client,), daemon=True).start()
            self.start()

    def _prepare_tree(self, session: int) -> None:
        """Create the chroot, check that the tree is accessible, and report the connection."""
        connection = self._connection
        failures: list[StoreError] = []

        def answered(path: str, result: Any) -> None:
            if isinstance(result, Exception):
                failures.append(store_error(path, result))

        def chroot_answered(path: str, result: Any) -> None:
            answered(path, result[0] if isinstance(result, list) else result)

        def last_answered(path: str, result: Any) -> None:
            answered(path, result)
            if connection != self._connection or self._is_closing:
                return
            # Brokers create the missing nodes; a lost connection is reported by kazoo.
            expected = NoNode | NodeExists | ConnectionLost
            wrong = [e for e in failures if not isinstance(e, expected)]
            if wrong:
                self.failure = wrong[0]
                logger.error("the tree in ZooKeeper cannot be used", reason=str(wrong[0]))
            elif not any(isinstance(error, ConnectionLost) for error in failures):
                self.failure = None
                self.session_id = session
                self._change(SessionState.CONNECTED)

        for path, created in self._requests.create_chroot(self._client):
            created.on_result = partial(chroot_answered, path)
        root = self.address.chroot or "/"
        self._client.get_children_async(root).on_result = partial(answered, root)
        ids = self.address.chroot + BROKER_IDS
        self._client.get_children_async(ids).on_result = partial(last_answered, ids)

    def close(self, done: Callable[[], None]) -> None:
        """End the session. If the ensemble does not answer in time, it expires there later."""
        self.state = SessionState.LOST
        is_done = False

        def closed() -> None:
            nonlocal is_done
            if not is_done:
                is_done = True
                timeout.cancel()
                self._fail_pending()
                done()

        def stop() -> None:
            _stop(client)
            self._handler.post(closed)

        self._is_closing = True
        client = self._client
        timeout = self._loop.call_later(CLOSE_TIMEOUT_S, closed)
        threading.Thread(target=stop, daemon=True).start()


def _stop(client: Any) -> None:
    with contextlib.suppress(Exception):  # it cannot be stopped while it waits for a connect
        client.stop()
        client.close()


def digest_acl(credentials: str | None) -> list[Any] | None:
    """Return the ACL of new nodes: full access with `user:password`; None for an open one."""
    if credentials is None:
        return None
    user, _, password = credentials.partition(":")
    return [make_digest_acl(user, password, all=True)]
