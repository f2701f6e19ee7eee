"""What to do when the run of a table has ended: begin again, when, or give up. Pure.

A run that ends has lost nothing: the next begins where the table is. So what may pass is tried
again, with waits that grow while nothing lands; only what somebody must decide stops a table.
"""

from typing import NamedTuple

from sawlog.pipeline.landing.failures import FATAL, FailureKind, LandingFailure

_FIRST_WAIT_S = {
    FailureKind.CONFLICT: 0.1,
    FailureKind.SOURCE_REWRITTEN: 0.1,
    FailureKind.SCHEMA_CHANGED: 0.1,
    FailureKind.STATE_INCOMPATIBLE: 0.1,
    FailureKind.UNREACHABLE: 0.5,
    FailureKind.NOT_FOUND: 1.0,
    FailureKind.DISK_FULL: 5.0,
    FailureKind.OTHER: 1.0,
}
_LONGEST_WAIT_S = {
    FailureKind.CONFLICT: 2.0,
    FailureKind.SOURCE_REWRITTEN: 30.0,
    FailureKind.SCHEMA_CHANGED: 2.0,
    FailureKind.STATE_INCOMPATIBLE: 30.0,
    FailureKind.UNREACHABLE: 5.0,
    FailureKind.NOT_FOUND: 2.0,
    FailureKind.DISK_FULL: 30.0,
    FailureKind.OTHER: 30.0,
}
_MOST_TRIES = {FailureKind.OTHER: 20}  # ten minutes or so
_MOST_TRIES_ONCE = {
    FailureKind.CONFLICT: 30,
    FailureKind.SOURCE_REWRITTEN: 3,
    FailureKind.SCHEMA_CHANGED: 30,
    FailureKind.STATE_INCOMPATIBLE: 3,
    FailureKind.UNREACHABLE: 1,
    FailureKind.NOT_FOUND: 1,
    FailureKind.DISK_FULL: 1,
    FailureKind.OTHER: 5,
}


class Retry(NamedTuple):
    after_s: float


class GiveUp(NamedTuple):
    failure: LandingFailure


class RetryPolicy:
    """Counts the ends of one table's runs since something landed."""

    def __init__(self, *, once: bool) -> None:
        self._most = _MOST_TRIES_ONCE if once else _MOST_TRIES
        self._count = 0
        self._kind: FailureKind | None = None

    def landed(self) -> None:
        self._count = 0
        self._kind = None

    def ended(self, failure: LandingFailure) -> Retry | GiveUp:
        if failure.kind in FATAL:
            return GiveUp(failure)
        if failure.kind is not self._kind:
            self._kind, self._count = failure.kind, 0
        self._count += 1
        most = self._most.get(failure.kind)
        if most is not None and self._count >= most:
            return GiveUp(failure)
        doubled = _FIRST_WAIT_S[failure.kind] * 2 ** min(self._count - 1, 20)
        return Retry(min(doubled, _LONGEST_WAIT_S[failure.kind]))
