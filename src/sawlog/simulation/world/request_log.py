"""The requests of all clients of a run: which have no response yet, and which never got one."""

from typing import NamedTuple

from sawlog.protocol.peers import PeerError
from sawlog.simulation.schedule import Schedule

NO_RESPONSE = "no response to "


class SentRequest(NamedTuple):
    text: str
    sent_ms: int


class RequestLog:
    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._count = 0
        self.open: dict[int, SentRequest] = {}
        """The requests that wait for a response, by number."""
        self.last_unanswered: SentRequest | None = None
        """The request that timed out and was sent last."""

    def sent(self, text: str) -> int:
        """Remember a request, and return its number for `ended`."""
        self._count += 1
        self.open[self._count] = SentRequest(text, self._schedule.monotonic_ms())
        return self._count

    def ended(self, number: int, error: PeerError | None) -> None:
        """The request got its response, or there is none. A broken connection is an answer, too:
        the first request after a silent loss of the server gets a reset."""
        request = self.open.pop(number)
        last = self.last_unanswered
        is_unanswered = error is not None and NO_RESPONSE in str(error)
        if is_unanswered and (last is None or request.sent_ms >= last.sent_ms):
            self.last_unanswered = request
