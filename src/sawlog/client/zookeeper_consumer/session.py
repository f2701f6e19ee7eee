"""A session with ZooKeeper for one polling thread, through kazoo.

kazoo keeps the session alive in a thread of its own and reconnects. It drops all watches when the
connection is lost, so `take_change` reports every reconnect: the caller reads and watches
everything again. All requests are made by the polling thread, and only while connected.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.retry import KazooRetry
from kazoo.security import make_digest_acl

from sawlog.client.errors import ClientError
from sawlog.client.net.retries import Deadline
from sawlog.client.zookeeper_consumer.delivery_lease import DeliveryLease

_RETRY_DELAY_S = 0.1
_MAX_RETRY_DELAY_S = 1.0
_CLOSE_TIMEOUT_S = 3.0
_IN_FLIGHT = 50
"""Requests sent ahead: kazoo's wake-up pipe holds a few hundred while the connection is down."""
_AWAY = (
    kazoo_errors.ConnectionLoss,
    kazoo_errors.ConnectionClosedError,
    kazoo_errors.SessionExpiredError,
    kazoo_errors.SessionMovedError,
    kazoo_errors.OperationTimeoutError,
    KazooTimeoutError,
)

_kazoo_logger = logging.getLogger("sawlog.client.kazoo")
_kazoo_logger.setLevel(logging.CRITICAL)  # the consumer reports lost connections itself

Send = Callable[[Any], Any]
"""Sends one request with kazoo's client and returns its pending result."""


class ZooKeeperAway(ClientError):
    """There is no connection to ZooKeeper; the outcome of a request that was sent is unknown."""


class ZooKeeperSession:
    """One session after the other; `session_id` is 0 while there is none.

    A watch that fires and a change of the connection call the function of `report_to`, in kazoo's
    thread.
    """

    def __init__(
        self,
        address: str,
        *,
        session_timeout_ms: int,
        credentials: str | None,
    ) -> None:
        self._address = address
        self._timeout_s = session_timeout_ms / 1_000
        self._changes = threading.Event()
        self._report: Callable[[], None] = lambda: None
        self._has_changed = True
        self._is_closed = False
        self.is_connected = False
        self.session_id = 0
        self.lease = DeliveryLease(session_timeout_ms)
        self._renewal: tuple[int, float, Any] | None = None  # session, time of sending, result
        self.acl: list[Any] | None = None
        if credentials is not None:
            user, colon, password = credentials.partition(":")
            if not (user and colon):
                raise ValueError("credentials must be written user:password")
            self.acl = [make_digest_acl(user, password, all=True)]
        self._client = KazooClient(
            hosts=address,
            timeout=self._timeout_s,
            auth_data=[("digest", credentials)] if credentials else None,
            connection_retry=KazooRetry(
                max_tries=-1, delay=_RETRY_DELAY_S, max_delay=_MAX_RETRY_DELAY_S
            ),
            logger=_kazoo_logger,
        )
        self._client.add_listener(self._state_changed)

    def start(self, timeout_ms: float) -> None:
        """Open the first session; ClientError if that fails within the timeout."""
        deadline = Deadline(timeout_ms)
        self._client.start_async()
        while not self.is_connected and not deadline.has_passed:
            self.wait_for_change(deadline)
        if not self.is_connected:
            self.close()
            raise ZooKeeperAway(
                f"no ZooKeeper server of {self._address} accepted a session within"
                f" {timeout_ms:.0f} ms: is one running, and is the address right?"
            )

    def wait_for_change(self, deadline: Deadline) -> None:
        """Wait until a watch fires or the connection changes, at the latest until the deadline."""
        self._changes.wait(deadline.remaining_ms / 1_000)
        self._changes.clear()

    def report_to(self, report: Callable[[], None]) -> None:
        """Call `report` at each change."""
        self._report = report

    def close(self) -> None:
        """End the session, which deletes its ephemeral nodes; it expires if nothing answers."""
        if self._is_closed:
            return
        self._is_closed = True
        stopping = threading.Thread(target=_stop, args=(self._client,), daemon=True)
        with contextlib.suppress(RuntimeError):  # the interpreter exits: no new threads
            stopping.start()
            stopping.join(_CLOSE_TIMEOUT_S)

    def _state_changed(self, state: str) -> None:
        """Called in kazoo's thread."""
        if state == KazooState.CONNECTED:
            self.session_id = self._client.client_id[0]
            self._has_changed = True
            self.is_connected = True
        else:
            self.is_connected = False
            if state == KazooState.LOST:
                self.session_id = 0
        self._changed()

    def _changed(self) -> None:
        self._changes.set()
        self._report()

    def watch(self, _: Any) -> None:
        """The function for all watches: it notes that something has changed."""
        self._has_changed = True
        self._changed()

    @property
    def has_changed(self) -> bool:
        """Whether a watch fired or the connection was new since `take_change`."""
        return self._has_changed

    def take_change(self) -> bool:
        """Return `has_changed` and reset it; call it before reading, so that no change is lost."""
        has_changed, self._has_changed = self._has_changed, False
        return has_changed

    def note_change(self) -> None:
        self._has_changed = True

    # Requests

    def call(self, send: Send) -> Any:
        """Return the result of one request, or the error that ZooKeeper answered."""
        return self.call_all([send])[0]

    def call_all(self, sends: Sequence[Send]) -> list[Any]:
        """Return the results of requests that are sent together; an error answer is a result.

        ZooKeeperAway if the connection is lost, and ClientError if access is denied.
        """
        results: list[Any] = []
        for chunk in _chunks(sends):
            self.require_connection()
            session, sent_s = self.session_id, self.lease.now_s()
            pending = [send(self._client) for send in chunk]
            results += [self._result(each) for each in pending]
            if session == self.session_id:
                self.lease.answered(sent_s)
        return results

    def require_connection(self) -> None:
        if self._client.client_state == KeeperState.AUTH_FAILED:
            raise ClientError(f"ZooKeeper at {self._address} refused the credentials")
        if not self.is_connected:
            raise ZooKeeperAway(f"the connection to ZooKeeper at {self._address} is lost")

    def _result(self, pending: Any) -> Any:
        try:
            return pending.get(timeout=self._timeout_s)
        except _AWAY as error:
            raise ZooKeeperAway(
                f"ZooKeeper at {self._address} did not answer: {type(error).__name__}"
            ) from error
        except kazoo_errors.NoAuthError as error:
            raise ClientError(
                f"ZooKeeper at {self._address} denies access; check the credentials of this"
                " consumer"
            ) from error
        except kazoo_errors.KazooException as error:
            return error

    @property
    def max_wait_ms(self) -> float:
        """The longest time until `renew_lease` is due; a report tells everything else."""
        return self.lease.renewal_ms if self._renewal is None else self._timeout_s * 1_000

    def renew_lease(self) -> None:
        """Ask ZooKeeper, without waiting, whether the session lives, if the lease is old."""
        if self._renewal is not None:
            session, sent_s, pending = self._renewal
            if pending.ready():
                self._renewal = None
                if pending.successful() and session == self.session_id:
                    self.lease.answered(sent_s)
            elif session != self.session_id or self.lease.now_s() - sent_s > self._timeout_s:
                self._renewal = None  # kazoo can lose a request when the connection is lost
        if self._renewal is None and self.is_connected and self.lease.is_renewal_due:
            pending = self._client.exists_async("/")
            self._renewal = self.session_id, self.lease.now_s(), pending
            pending.rawlink(lambda _: self._changed())


def _chunks(sends: Sequence[Send]) -> Iterator[Sequence[Send]]:
    for start in range(0, len(sends), _IN_FLIGHT):
        yield sends[start : start + _IN_FLIGHT]


def _stop(client: Any) -> None:
    with contextlib.suppress(Exception):  # it cannot be stopped while it waits for a connect
        client.stop()
        client.close()
