"""How long a ZooKeeper session lasts for certain, seen from the client.

ZooKeeper ends a session when it has heard nothing for the negotiated timeout. The client learns it
only when it reconnects, so until then it can only know when the session has not ended: each
answered request proves that the session was alive when the request was sent.
"""

import time
from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import SessionExpiredError, SessionMovedError
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import Connect

CERTAIN_SHARE = 0.75
"""The part of the timeout that counts. A server that is not the ensemble's leader answers a ping
itself and forwards it up to half a tick later; a timeout has two ticks or more."""

_ENDED = (SessionExpiredError.code, SessionMovedError.code)


def boot_time_s() -> float:
    """Return a time that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SessionLease:
    """Written in kazoo's thread, read in the event loop's. Without a session it has run out."""

    def __init__(self, clock: Callable[[], float] = boot_time_s) -> None:
        self.clock = clock
        self._timeout_s = 0.0
        self._sent_s = 0.0
        self._ends_s = float("-inf")

    def begin(self, sent_s: float, timeout_s: float) -> None:
        """The ensemble accepted, with this timeout, the connect request that was sent then."""
        self._timeout_s = timeout_s
        self._sent_s = sent_s
        self._ends_s = sent_s + timeout_s * CERTAIN_SHARE

    def renew(self, sent_s: float) -> None:
        """A request that was sent then is answered; answers may come in another order."""
        if sent_s > self._sent_s:
            self._sent_s = sent_s
            self._ends_s = sent_s + self._timeout_s * CERTAIN_SHARE

    def may_have_ended(self) -> bool:
        return self.clock() >= self._ends_s


class LeasedConnection(ConnectionHandler):  # type: ignore[misc]
    """kazoo's connection, which renews a lease with each answer to a request or a ping."""

    def __init__(self, lease: SessionLease, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._lease = lease
        self._sent_s: dict[int, list[float]] = {}  # of unanswered requests; all pings have one xid

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        if not isinstance(request, Connect):
            return super()._invoke(timeout, request, xid)
        self._sent_s.clear()
        sent_s = self._lease.clock()
        result = super()._invoke(timeout, request, xid)
        if result[0].time_out > 0:  # else the session has expired
            self._lease.begin(sent_s, result[0].time_out / 1000)
        return result

    def _submit(self, request: Any, timeout: float, xid: int | None = None) -> None:
        if xid:
            self._sent_s.setdefault(xid, []).append(self._lease.clock())
        super()._submit(request, timeout, xid)

    def _read_header(self, timeout: float) -> Any:
        header, buffer, offset = super()._read_header(timeout)
        sent_s = self._sent_s.get(header.xid)  # None for a watch event
        if sent_s is not None:
            if header.err not in _ENDED:
                self._lease.renew(sent_s[0])
            del sent_s[0]
            if not sent_s:
                del self._sent_s[header.xid]
        return header, buffer, offset


class LeasedClient(KazooClient):  # type: ignore[misc]
    """A kazoo client with a LeasedConnection; kazoo has no parameter for the class of it."""

    def __init__(self, lease: SessionLease, **more: Any) -> None:
        super().__init__(**more)
        self._connection = LeasedConnection(
            lease, self, self._conn_retry.copy(), logger=self.logger
        )
