"""What happens after a query of a table has ended."""

import pytest

from sawlog.pipeline.landing.driver.retry_policy import GiveUp, Retry, RetryPolicy
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure


def failure(kind: FailureKind) -> LandingFailure:
    return LandingFailure(kind, "told")


@pytest.mark.parametrize(
    "kind", [FailureKind.DATA_LOSS, FailureKind.TOPIC_DELETED, FailureKind.INVALID]
)
@pytest.mark.parametrize("once", [True, False])
def test_fatal_failures_stop_at_once(kind: FailureKind, once: bool) -> None:
    assert isinstance(RetryPolicy(once=once).ended(failure(kind)), GiveUp)


@pytest.mark.parametrize(
    "kind",
    [
        FailureKind.CONFLICT, FailureKind.UNREACHABLE, FailureKind.NOT_FOUND,
        FailureKind.DISK_FULL, FailureKind.SOURCE_REWRITTEN, FailureKind.SCHEMA_CHANGED,
        FailureKind.STATE_INCOMPATIBLE,
    ],
)  # fmt: skip
def test_transient_failures_are_retried_without_limit(kind: FailureKind) -> None:
    tries = RetryPolicy(once=False)
    waits = [tries.ended(failure(kind)) for _ in range(100)]
    assert all(isinstance(wait, Retry) for wait in waits)
    seconds = [wait.after_s for wait in waits if isinstance(wait, Retry)]
    assert seconds == sorted(seconds)
    assert seconds[-1] <= 30


def test_unknown_failures_are_retried_a_few_times() -> None:
    tries = RetryPolicy(once=False)
    ends = [tries.ended(failure(FailureKind.OTHER)) for _ in range(20)]
    assert [type(end) for end in ends] == [Retry] * 19 + [GiveUp]


def test_landed_rows_reset_the_count() -> None:
    tries = RetryPolicy(once=False)
    for _ in range(50):
        assert isinstance(tries.ended(failure(FailureKind.OTHER)), Retry)
        tries.landed()


def test_another_kind_resets_the_count() -> None:
    tries = RetryPolicy(once=False)
    for _ in range(10):
        assert isinstance(tries.ended(failure(FailureKind.OTHER)), Retry)
        assert isinstance(tries.ended(failure(FailureKind.UNREACHABLE)), Retry)


@pytest.mark.parametrize(
    "kind", [FailureKind.UNREACHABLE, FailureKind.NOT_FOUND, FailureKind.DISK_FULL]
)
def test_once_does_not_wait(kind: FailureKind) -> None:
    assert isinstance(RetryPolicy(once=True).ended(failure(kind)), GiveUp)


@pytest.mark.parametrize(
    "kind", [FailureKind.CONFLICT, FailureKind.SCHEMA_CHANGED, FailureKind.STATE_INCOMPATIBLE]
)
def test_once_retries_after_conflicts_and_schema_changes(kind: FailureKind) -> None:
    assert isinstance(RetryPolicy(once=True).ended(failure(kind)), Retry)
