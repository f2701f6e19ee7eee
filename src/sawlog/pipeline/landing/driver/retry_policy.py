"""What to do when the run of a table has ended: begin again, when, or give up. Pure.

A run that ends has lost nothing: the next begins where the table is. So what may pass is tried
again, with waits that grow while nothing lands; only what somebody must decide stops a table.
"""

from typing import NamedTuple

from sawlog.pipeline.landing.failures import FATAL, Kind, LandingFailure

_FIRST_WAIT_S = {
    Kind.OVERTAKEN: 0.1,
    Kind.SET_BACK: 0.1,
    Kind.EVOLVED: 0.1,
    Kind.OTHER_STATE: 0.1,
    Kind.UNREACHABLE: 0.5,
    Kind.NO_TOPIC: 1.0,
    Kind.DISK_FULL: 5.0,
    Kind.OTHER: 1.0,
}
_LONGEST_WAIT_S = {
    Kind.OVERTAKEN: 2.0,
    Kind.SET_BACK: 30.0,
    Kind.EVOLVED: 2.0,
    Kind.OTHER_STATE: 30.0,
    Kind.UNREACHABLE: 5.0,
    Kind.NO_TOPIC: 2.0,
    Kind.DISK_FULL: 30.0,
    Kind.OTHER: 30.0,
}
_MOST_TRIES = {Kind.OTHER: 20}  # ten minutes or so
_MOST_TRIES_ONCE = {
    Kind.OVERTAKEN: 30,
    Kind.SET_BACK: 3,
    Kind.EVOLVED: 30,
    Kind.OTHER_STATE: 3,
    Kind.UNREACHABLE: 1,
    Kind.NO_TOPIC: 1,
    Kind.DISK_FULL: 1,
    Kind.OTHER: 5,
}


class Again(NamedTuple):
    after_s: float


class GiveUp(NamedTuple):
    failure: LandingFailure


class RetryPolicy:
    """Counts the ends of one table's runs since something landed."""

    def __init__(self, *, once: bool) -> None:
        self._most = _MOST_TRIES_ONCE if once else _MOST_TRIES
        self._count = 0
        self._kind: Kind | None = None

    def landed(self) -> None:
        self._count = 0
        self._kind = None

    def ended(self, failure: LandingFailure) -> Again | GiveUp:
        if failure.kind in FATAL:
            return GiveUp(failure)
        if failure.kind is not self._kind:
            self._kind, self._count = failure.kind, 0
        self._count += 1
        most = self._most.get(failure.kind)
        if most is not None and self._count >= most:
            return GiveUp(failure)
        doubled = _FIRST_WAIT_S[failure.kind] * 2 ** min(self._count - 1, 20)
        return Again(min(doubled, _LONGEST_WAIT_S[failure.kind]))
