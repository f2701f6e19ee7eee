"""When a batch starts."""

from sawlog.pipeline.landing.configuration.pipeline_config import CommitBounds
from sawlog.pipeline.landing.planning.batch_trigger import BatchTrigger

BOUNDS = CommitBounds(every_s=10, rows=1_000, fetched_bytes=5_000)


def test_the_first_rows_do_not_wait() -> None:
    assert BatchTrigger(BOUNDS).is_due(1, 0, now_s=100)


def test_an_empty_batch_is_never_due() -> None:
    pacing = BatchTrigger(BOUNDS)
    assert not pacing.is_due(0, 0, now_s=100)
    pacing.started(100)
    assert not pacing.is_due(0, 0, now_s=1_000)


def test_a_trickle_waits_until_the_time_is_up() -> None:
    pacing = BatchTrigger(BOUNDS)
    pacing.started(100)
    assert not pacing.is_due(999, 4_999, now_s=109.9)
    assert pacing.remaining_s(104) == 6
    assert pacing.is_due(1, 1, now_s=110)


def test_a_full_batch_does_not_wait() -> None:
    pacing = BatchTrigger(BOUNDS)
    pacing.started(100)
    assert pacing.is_due(1_000, 0, now_s=100)
    assert pacing.is_due(1, 5_000, now_s=100)
