"""Whether and when to restart a query that ended. Pure.

Nothing is lost when a query ends: the next run continues from the table. So transient failures are
retried with a growing backoff while nothing lands; only failures that an operator must resolve stop
a table.
"""

from typing import NamedTuple

from sawlog.pipeline.landing.failures import FATAL, FailureKind, LandingFailure

_INITIAL_BACKOFF_S = {
    FailureKind.CONFLICT: 0.1,
    FailureKind.SOURCE_REWRITTEN: 0.1,
    FailureKind.SCHEMA_CHANGED: 0.1,
    FailureKind.STATE_INCOMPATIBLE: 0.1,
    FailureKind.UNREACHABLE: 0.5,
    FailureKind.STORE_UNREACHABLE: 1.0,
    FailureKind.REGISTRY_UNREACHABLE: 1.0,
    FailureKind.NOT_FOUND: 1.0,
    FailureKind.DISK_FULL: 5.0,
    FailureKind.OTHER: 1.0,
}
_MAX_BACKOFF_S = {
    FailureKind.CONFLICT: 2.0,
    FailureKind.SOURCE_REWRITTEN: 30.0,
    FailureKind.SCHEMA_CHANGED: 2.0,
    FailureKind.STATE_INCOMPATIBLE: 30.0,
    FailureKind.UNREACHABLE: 5.0,
    FailureKind.STORE_UNREACHABLE: 30.0,
    FailureKind.REGISTRY_UNREACHABLE: 30.0,
    FailureKind.NOT_FOUND: 2.0,
    FailureKind.DISK_FULL: 30.0,
    FailureKind.OTHER: 30.0,
}
_MAX_ATTEMPTS = {FailureKind.OTHER: 20}  # about ten minutes
_MAX_ATTEMPTS_ONCE = {
    FailureKind.CONFLICT: 30,
    FailureKind.SOURCE_REWRITTEN: 3,
    FailureKind.SCHEMA_CHANGED: 30,
    FailureKind.STATE_INCOMPATIBLE: 3,
    FailureKind.UNREACHABLE: 1,
    FailureKind.STORE_UNREACHABLE: 3,
    FailureKind.REGISTRY_UNREACHABLE: 3,
    FailureKind.NOT_FOUND: 1,
    FailureKind.DISK_FULL: 1,
    FailureKind.OTHER: 5,
}


class Retry(NamedTuple):
    after_s: float


class GiveUp(NamedTuple):
    failure: LandingFailure


class RetryPolicy:
    """Counts the failures of one table since rows last landed."""

    def __init__(self, *, once: bool) -> None:
        self._max_attempts = _MAX_ATTEMPTS_ONCE if once else _MAX_ATTEMPTS
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
        most = self._max_attempts.get(failure.kind)
        if most is not None and self._count >= most:
            return GiveUp(failure)
        backoff_s = _INITIAL_BACKOFF_S[failure.kind] * 2 ** min(self._count - 1, 20)
        return Retry(min(backoff_s, _MAX_BACKOFF_S[failure.kind]))
