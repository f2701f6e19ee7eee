"""Which part of a log can be cleaned, how urgently, and in which groups of segments."""

from dataclasses import replace
from typing import Any

import pytest

from sawlog.protocol.record_batch import read_header
from sawlog.protocol.records import Record, build_batch
from sawlog.storage.cleaner.cleanable_log import CleanableLog, cleanable_log, group_segments
from sawlog.storage.log import Log
from sawlog.storage.segment import Segment
from support.storage.compaction import compacted
from support.storage.logs import SimulatedStorage, append
from support.storage.segments import PartitionDirectory, append_batch

BATCH_BYTES = 200
PER_SEGMENT = 5
START_MS = 1_700_000_000_000
SECOND_MS = 1_000


def log_of(segments: int, **config: Any) -> Log:
    """A log with so many closed segments of five records, one a second, and one in the active."""
    settings = compacted(segment_bytes=PER_SEGMENT * BATCH_BYTES, **config)
    log = SimulatedStorage(settings).log
    for number in range(segments * PER_SEGMENT + 1):
        at_ms = START_MS + number * SECOND_MS
        append(log, [Record(0, at_ms, b"%03d" % number, bytes(BATCH_BYTES - 73))])
    assert list(log.segments.base_offsets) == list(range(0, log.end_offset, PER_SEGMENT))
    assert {s.file.size for s in list(log.segments)[:-1]} <= {PER_SEGMENT * BATCH_BYTES}
    return log


def look(
    log: Log, cleaned_up_to: int = 0, *, limit: int | None = None, now_ms: int = START_MS
) -> CleanableLog:
    return cleanable_log(log, cleaned_up_to, log.end_offset if limit is None else limit, now_ms)


def parts(found: CleanableLog) -> tuple[int, int, int, int]:
    """First dirty offset, end offset, clean segments, dirty segments."""
    size = PER_SEGMENT * BATCH_BYTES
    return (
        found.first_dirty_offset,
        found.end_offset,
        found.clean_bytes // size,
        found.dirty_bytes // size,
    )


def test_all_closed_segments_are_dirty_at_first() -> None:
    found = look(log_of(4))
    assert parts(found) == (0, 20, 0, 4)
    assert found.dirty_ratio == 1.0


def test_segments_before_the_first_dirty_offset_are_clean() -> None:
    found = look(log_of(4), 15)
    assert parts(found) == (15, 20, 3, 1)
    assert found.dirty_ratio == 0.25


def test_a_segment_that_is_partly_clean_counts_as_dirty() -> None:
    assert parts(look(log_of(4), 12)) == (12, 20, 2, 2)


def test_a_log_without_closed_segments_has_nothing_to_clean() -> None:
    found = look(log_of(0))
    assert parts(found) == (0, 0, 0, 0)
    assert (found.dirty_ratio, found.is_due) == (0.0, False)


def test_a_clean_log_is_not_due() -> None:
    found = look(log_of(4, min_cleanable_dirty_ratio=0.0), 20)
    assert parts(found) == (20, 20, 4, 0)
    assert not found.is_due


@pytest.mark.parametrize(
    ("ratio", "is_due"), [(0.0, True), (0.49, True), (0.5, False), (1.0, False)]
)
def test_a_log_is_due_above_the_dirty_ratio(ratio: float, is_due: bool) -> None:
    assert look(log_of(4, min_cleanable_dirty_ratio=ratio), 10).is_due is is_due


@pytest.mark.parametrize(
    ("limit", "end_offset"), [(0, 0), (4, 0), (5, 5), (9, 5), (19, 15), (20, 20), (21, 20)]
)
def test_a_segment_that_is_not_wholly_below_the_limit_is_left_alone(
    limit: int, end_offset: int
) -> None:
    assert look(log_of(4), limit=limit).end_offset == end_offset


@pytest.mark.parametrize("cleaned_up_to", [22, 1_000])
def test_a_checkpoint_beyond_the_end_is_ignored(cleaned_up_to: int) -> None:
    assert parts(look(log_of(4), cleaned_up_to)) == (0, 20, 0, 4)


def test_a_checkpoint_before_the_start_is_ignored() -> None:
    log = log_of(4)
    log.advance_start(12)
    assert parts(look(log, 3)) == (12, 20, 0, 2)


def test_nothing_is_dirty_if_the_limit_is_below_the_first_dirty_offset() -> None:
    found = look(log_of(4), 15, limit=7)
    assert (found.end_offset, found.dirty_bytes, found.is_due) == (5, 0, False)


@pytest.mark.parametrize(
    ("now_s", "end_offset"), [(4, 0), (13, 0), (14, 5), (18, 5), (19, 10), (29, 20), (99, 20)]
)
def test_records_younger_than_the_minimum_lag_are_not_cleaned(now_s: int, end_offset: int) -> None:
    log = log_of(4, min_compaction_lag_ms=10 * SECOND_MS)
    assert look(log, now_ms=START_MS + now_s * SECOND_MS).end_offset == end_offset


def test_the_minimum_lag_concerns_dirty_segments_only() -> None:
    log = log_of(4, min_compaction_lag_ms=10 * SECOND_MS)
    assert parts(look(log, 10, now_ms=START_MS)) == (10, 10, 2, 0)


@pytest.mark.parametrize(
    ("cleaned_up_to", "now_s", "delay_s"),
    [(0, 10, 0), (0, 11, 1), (0, 40, 30), (10, 20, 0), (10, 23, 3), (20, 99, 0)],
)
def test_a_log_is_due_after_the_maximum_lag(cleaned_up_to: int, now_s: int, delay_s: int) -> None:
    log = log_of(4, max_compaction_lag_ms=10 * SECOND_MS, min_cleanable_dirty_ratio=1.0)
    found = look(log, cleaned_up_to, now_ms=START_MS + now_s * SECOND_MS)
    assert found.delay_ms == delay_s * SECOND_MS
    assert found.is_due is (delay_s > 0)


def test_without_a_maximum_lag_nothing_is_delayed() -> None:
    assert look(log_of(4), now_ms=START_MS * 2).delay_ms == 0


# Groups


def closed(*sizes: tuple[int, int]) -> list[Segment]:
    """Segments with these base offsets and numbers of batches of `SIZE` bytes."""
    directory = PartitionDirectory()
    segments = []
    for base_offset, batches in sizes:
        segment = directory.segment(base_offset)
        segment.index_interval_bytes = 0
        for number in range(batches):
            append_batch(segment, base_offset + number)
        segments.append(segment)
    return segments


SIZE = len(build_batch([Record(0, 0, None, bytes(10))]))


def groups(
    segments: list[Segment],
    *,
    max_bytes: int = 1 << 30,
    max_index_bytes: int = 1 << 20,
    end_offset: int = 1_000,
) -> list[list[int]]:
    grouped = group_segments(segments, max_bytes, max_index_bytes, end_offset)
    assert [one for group in grouped for one in group] == segments
    return [[segment.base_offset for segment in group] for group in grouped]


def test_the_size_of_a_batch_is_as_the_tests_assume() -> None:
    (segment,) = closed((0, 1))
    assert segment.file.size == SIZE
    assert read_header(segment.file.read(0, SIZE)).size == SIZE


def test_no_segments_are_no_groups() -> None:
    assert groups([]) == []


def test_neighbours_are_grouped_up_to_the_size_of_a_segment() -> None:
    segments = closed((0, 2), (10, 1), (20, 1), (30, 3), (40, 1))
    assert groups(segments, max_bytes=3 * SIZE) == [[0, 10], [20], [30], [40]]
    assert groups(segments, max_bytes=4 * SIZE) == [[0, 10, 20], [30, 40]]
    assert groups(segments) == [[0, 10, 20, 30, 40]]


def test_a_segment_beyond_the_size_is_a_group_of_its_own() -> None:
    assert groups(closed((0, 5), (10, 1), (20, 1)), max_bytes=2 * SIZE) == [[0], [10, 20]]


def test_the_indexes_of_a_group_fit_into_one() -> None:
    segments = closed((0, 5), (10, 5), (20, 5))
    entries = len(segments[0].index)
    assert entries == 4
    assert groups(segments, max_index_bytes=2 * entries * 8) == [[0, 10], [20]]
    assert groups(segments, max_index_bytes=2 * entries * 8 - 1) == [[0], [10], [20]]


def test_the_time_indexes_of_a_group_fit_into_one() -> None:
    segments = closed((0, 1), (10, 1), (20, 1))
    for segment in segments:
        for number in range(3):
            segment.time_index.add((number, number))
    assert groups(segments, max_index_bytes=2 * 3 * 12) == [[0, 10], [20]]
    assert groups(segments, max_index_bytes=2 * 3 * 12 - 1) == [[0], [10], [20]]


def test_the_offsets_of_a_group_fit_into_31_bits() -> None:
    far = (1 << 31) - 1
    assert groups(closed((0, 1), (10, 1)), end_offset=far + 1) == [[0, 10]]
    assert groups(closed((0, 1), (10, 1)), end_offset=far + 2) == [[0], [10]]
    segments = closed((0, 1), (10, 1), (far + 1, 1))
    assert groups(segments, end_offset=far + 100) == [[0, 10], [far + 1]]
    segments = closed((0, 1), (10, 1), (far + 2, 1))
    assert groups(segments, end_offset=far + 100) == [[0], [10], [far + 2]]


def test_empty_segments_are_grouped_whatever_their_offsets() -> None:
    far = 1 << 31
    assert groups(closed((0, 0), (far, 0), (2 * far, 0)), end_offset=3 * far) == [[0, far, 2 * far]]


def test_the_policy_of_the_log_decides_when_it_is_due() -> None:
    log = log_of(2, min_cleanable_dirty_ratio=1.0)
    assert not look(log).is_due, "1.0 is not above 1.0"
    log.reconfigure(replace(log.config, min_cleanable_dirty_ratio=0.9))
    assert look(log).is_due
