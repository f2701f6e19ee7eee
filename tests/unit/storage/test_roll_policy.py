"""When a segment is complete: pure decisions about numbers."""

import pytest

from sawlog.storage.log_config import FOREVER
from sawlog.storage.roll_policy import ALWAYS, MAX_RELATIVE_OFFSET, RollPolicy, SegmentFill

POLICY = RollPolicy(segment_bytes=1000, segment_ms=500, segment_jitter_ms=0, segment_index_bytes=80)
FILL = SegmentFill(
    base_offset=100,
    size_bytes=400,
    first_timestamp=10_000,
    created_ms=50_000,
    jitter_ms=0,
    index_entries=3,
    time_index_entries=3,
)


def is_due(
    fill: SegmentFill,
    *,
    size: int = 100,
    timestamp: int = 10_100,
    last_offset: int = 150,
    now_ms: int = 50_001,
) -> bool:
    return POLICY.is_due(fill, size, timestamp, last_offset, now_ms)


def test_a_batch_that_fits_stays_in_the_segment() -> None:
    assert not is_due(FILL)


@pytest.mark.parametrize(("size", "expected"), [(600, False), (601, True)])
def test_segment_bytes_is_the_largest_size_of_a_segment(size: int, expected: bool) -> None:
    assert is_due(FILL, size=size) == expected


@pytest.mark.parametrize(("timestamp", "expected"), [(10_500, False), (10_501, True)])
def test_segment_ms_counts_from_the_first_batch(timestamp: int, expected: bool) -> None:
    assert is_due(FILL, timestamp=timestamp) == expected


def test_jitter_shortens_segment_ms() -> None:
    assert is_due(FILL._replace(jitter_ms=450), timestamp=10_051)
    assert not is_due(FILL._replace(jitter_ms=450), timestamp=10_050)


@pytest.mark.parametrize(("now_ms", "expected"), [(50_500, False), (50_501, True)])
def test_without_timestamps_the_age_of_the_segment_counts(now_ms: int, expected: bool) -> None:
    fill = FILL._replace(first_timestamp=-1)
    assert is_due(fill, timestamp=-1, now_ms=now_ms) == expected
    assert POLICY.check_after_ms(fill) == ALWAYS


@pytest.mark.parametrize(
    ("entries", "time_entries", "expected"), [(9, 4, False), (10, 4, True), (9, 5, True)]
)
def test_a_full_index_completes_the_segment(
    entries: int, time_entries: int, expected: bool
) -> None:
    """80 bytes have room for 10 entries of 8 bytes, and for 6 of 12, the last one at the close."""
    fill = FILL._replace(index_entries=entries, time_index_entries=time_entries)
    assert is_due(fill) == expected
    assert (POLICY.check_after_ms(fill) == ALWAYS) == expected


def test_a_relative_offset_must_fit_into_31_bits() -> None:
    assert not is_due(FILL, last_offset=100 + MAX_RELATIVE_OFFSET)
    assert is_due(FILL, last_offset=101 + MAX_RELATIVE_OFFSET)


def test_an_empty_segment_takes_any_batch_whose_offset_fits() -> None:
    empty = FILL._replace(size_bytes=0, first_timestamp=-1)
    assert not is_due(empty, size=5000, timestamp=99_999, now_ms=99_999)
    assert is_due(empty, last_offset=101 + MAX_RELATIVE_OFFSET)
    assert POLICY.check_after_ms(empty) == FOREVER


def test_appends_up_to_the_check_time_need_not_ask() -> None:
    limit = POLICY.check_after_ms(FILL)
    assert not is_due(FILL, timestamp=limit)
    assert is_due(FILL, timestamp=limit + 1)
