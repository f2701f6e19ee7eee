"""Requests that wait, by the client that waits for them.

A client that goes away takes its requests along: nobody reads their answers, and each would cost
work at every move of a watermark until its time is up. When the broker stops, those that still
wait are answered with what there is.
"""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sawlog.core.ports import Client


class Parked(Protocol):
    def abandon(self) -> None:
        """The client is gone: forget the request."""
        ...

    def finish(self) -> None:
        """The broker stops: answer now."""
        ...


class Parking:
    """Every waiting request is here exactly once, from `park` to `leave`."""

    __slots__ = ("_by_client",)

    def __init__(self) -> None:
        self._by_client: dict[Client, dict[Parked, None]] = {}

    def __len__(self) -> int:
        return sum(len(requests) for requests in self._by_client.values())

    def park(self, client: "Client", request: Parked) -> None:
        self._by_client.setdefault(client, {})[request] = None

    def leave(self, client: "Client", request: Parked) -> None:
        requests = self._by_client.get(client)
        if requests is not None:
            requests.pop(request, None)
            if not requests:
                del self._by_client[client]

    def abandon(self, client: "Client") -> None:
        for request in self._by_client.pop(client, {}):
            request.abandon()

    def finish(self) -> None:
        for requests in list(self._by_client.values()):
            for request in list(requests):
                request.finish()
