"""Parked requests: Produce, Fetch, ListOffsets and DeleteRecords that wait for a high watermark.

The purgatory knows every parked request by its client and owns its timeout. The requests of a
client that disconnects are dropped: their responses would go nowhere, and each would cost work at
every move of a watermark until its timeout.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sawlog.broker.replicas import Replicas
    from sawlog.broker.request import Request
    from sawlog.core.errors import KafkaError
    from sawlog.core.ports import Client, Timer, TimerHandle
    from sawlog.protocol.schema import Message
    from sawlog.replication.replica import Replica

    class CommitContext(Protocol):
        replicas: Replicas
        purgatory: "Purgatory"


class DelayedRequest(Protocol):
    """A parked request. It replies only if `Purgatory.complete` returns True, so once at most."""

    def expire(self) -> None:
        """Reply with the results so far, because the timeout is over."""
        ...

    def abandon(self) -> None:
        """Stop waiting, because the client disconnected; the request is no longer parked."""
        ...

    def shut_down(self) -> None:
        """Reply now if that is not possible after the logs are closed."""
        ...


class Purgatory:
    """Invariant: holds every request from `park` until it is completed or abandoned, with its
    timeout."""

    __slots__ = ("_by_client", "_timer")

    def __init__(self, timer: "Timer") -> None:
        self._timer = timer
        self._by_client: dict[Client, dict[DelayedRequest, TimerHandle | None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_client.values()))

    def park(self, client: "Client", request: DelayedRequest, timeout_ms: int | None) -> None:
        """Hold a request; without a timeout it waits until it is completed."""
        timeout = None
        if timeout_ms is not None:
            timeout = self._timer.after(timeout_ms, request.expire)
        requests = self._by_client.get(client)
        if requests is None:
            self._by_client[client] = {request: timeout}
        else:
            requests[request] = timeout

    def complete(self, client: "Client", request: DelayedRequest) -> bool:
        """Release a request that is about to reply; False if it is not parked any more."""
        requests = self._by_client.get(client)
        if requests is None or request not in requests:
            return False
        timeout = requests.pop(request)
        if not requests:
            del self._by_client[client]
        if timeout is not None:
            timeout.cancel()
        return True

    def abandon(self, client: "Client") -> None:
        """Drop the requests of a client that disconnected."""
        for request, timeout in self._by_client.pop(client, {}).items():
            if timeout is not None:
                timeout.cancel()
            request.abandon()

    def shut_down(self) -> None:
        """Let requests reply that cannot after the logs are closed."""
        for requests in list(self._by_client.values()):
            for request in list(requests):
                request.shut_down()


def reply_after_commit(
    context: "CommitContext",
    partitions: Iterable[tuple[str, int]],
    request: "Request",
    respond: "Callable[[], Message | None]",
) -> None:
    """Reply with `respond()` once all records written to these partitions so far are committed. If
    that is None, the request is parked by it and answered later.

    Waits only for a flush, never for followers: a client that flushed its producer then sees its
    records in ListOffsets.
    """
    uncommitted = [
        replica
        for name in partitions
        if (replica := context.replicas.by_partition.get(name)) is not None
        and replica.high_watermark < replica.log.end_offset
        and replica.can_commit_alone
    ]
    if uncommitted:
        _DelayedReply(context.purgatory, request, respond).park(uncommitted)
    else:
        _reply(request, respond)


def _reply(request: "Request", respond: "Callable[[], Message | None]") -> None:
    response = respond()
    if response is not None:
        request.reply(response)


class _DelayedReply:
    __slots__ = ("_left", "_purgatory", "_request", "_respond")

    def __init__(
        self, purgatory: Purgatory, request: "Request", respond: "Callable[[], Message | None]"
    ) -> None:
        self._purgatory = purgatory
        self._request = request
        self._respond = respond
        self._left = 0

    def park(self, uncommitted: "list[Replica]") -> None:
        self._left = len(uncommitted)
        self._purgatory.park(self._request.client, self, timeout_ms=None)
        for replica in uncommitted:
            replica.when_committed(replica.log.end_offset, self._committed)

    def _committed(self, _: "KafkaError | None") -> None:
        self._left -= 1
        if self._left == 0 and self._purgatory.complete(self._request.client, self):
            try:
                _reply(self._request, self._respond)
            except Exception as error:
                self._request.fail(error)

    def expire(self) -> None:
        """Never called: there is no timeout."""

    def abandon(self) -> None:
        """`_committed` finds the request gone."""

    def shut_down(self) -> None:
        """Closing the logs flushes them, and so completes the request."""
