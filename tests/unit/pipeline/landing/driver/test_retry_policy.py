"""What happens after a run of a table has ended."""

import pytest

from sawlog.pipeline.landing.driver.retry_policy import Again, GiveUp, RetryPolicy
from sawlog.pipeline.landing.failures import Kind, LandingFailure


def failure(kind: Kind) -> LandingFailure:
    return LandingFailure(kind, "told")


@pytest.mark.parametrize("kind", [Kind.LOST, Kind.TOPIC_GONE, Kind.REFUSED])
@pytest.mark.parametrize("once", [True, False])
def test_what_somebody_must_decide_stops_at_once(kind: Kind, once: bool) -> None:
    assert isinstance(RetryPolicy(once=once).ended(failure(kind)), GiveUp)


@pytest.mark.parametrize(
    "kind",
    [
        Kind.OVERTAKEN, Kind.UNREACHABLE, Kind.NO_TOPIC, Kind.DISK_FULL, Kind.SET_BACK,
        Kind.EVOLVED, Kind.OTHER_STATE,
    ],
)  # fmt: skip
def test_what_may_pass_is_waited_for_as_long_as_it_takes(kind: Kind) -> None:
    tries = RetryPolicy(once=False)
    waits = [tries.ended(failure(kind)) for _ in range(100)]
    assert all(isinstance(wait, Again) for wait in waits)
    seconds = [wait.after_s for wait in waits if isinstance(wait, Again)]
    assert seconds == sorted(seconds)
    assert seconds[-1] <= 30


def test_what_nobody_knows_is_tried_a_few_times() -> None:
    tries = RetryPolicy(once=False)
    ends = [tries.ended(failure(Kind.OTHER)) for _ in range(20)]
    assert [type(end) for end in ends] == [Again] * 19 + [GiveUp]


def test_rows_that_land_begin_the_count_anew() -> None:
    tries = RetryPolicy(once=False)
    for _ in range(50):
        assert isinstance(tries.ended(failure(Kind.OTHER)), Again)
        tries.landed()


def test_another_kind_begins_the_count_anew() -> None:
    tries = RetryPolicy(once=False)
    for _ in range(10):
        assert isinstance(tries.ended(failure(Kind.OTHER)), Again)
        assert isinstance(tries.ended(failure(Kind.UNREACHABLE)), Again)


@pytest.mark.parametrize("kind", [Kind.UNREACHABLE, Kind.NO_TOPIC, Kind.DISK_FULL])
def test_once_does_not_wait_for_what_is_not_there(kind: Kind) -> None:
    assert isinstance(RetryPolicy(once=True).ended(failure(kind)), GiveUp)


@pytest.mark.parametrize("kind", [Kind.OVERTAKEN, Kind.EVOLVED, Kind.OTHER_STATE])
def test_once_goes_on_where_another_driver_was_first_or_columns_are_new(kind: Kind) -> None:
    assert isinstance(RetryPolicy(once=True).ended(failure(kind)), Again)
