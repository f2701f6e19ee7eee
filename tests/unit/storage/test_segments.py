"""The container of segments: order, the active segment, and the look-up by offset."""

import pytest

from sawlog.storage.segments import Segments
from support.storage.segments import PartitionDirectory


@pytest.fixture
def directory() -> PartitionDirectory:
    return PartitionDirectory()


@pytest.fixture
def segments(directory: PartitionDirectory) -> Segments:
    return Segments([directory.segment(base) for base in (0, 20, 50)])


def test_the_last_segment_is_active(segments: Segments, directory: PartitionDirectory) -> None:
    assert segments.active.base_offset == 50
    segments.append(directory.segment(70))
    assert segments.active.base_offset == 70
    assert segments.base_offsets == [0, 20, 50, 70]


@pytest.mark.parametrize(
    ("offset", "base"), [(0, 0), (19, 0), (20, 20), (49, 20), (50, 50), (1000, 50)]
)
def test_an_offset_is_held_by_the_last_segment_that_begins_at_or_before_it(
    segments: Segments, offset: int, base: int
) -> None:
    assert segments.holding(offset).base_offset == base
    assert segments.since(offset)[0].base_offset == base


def test_an_offset_before_all_segments_is_looked_up_in_the_first(
    directory: PartitionDirectory,
) -> None:
    segments = Segments([directory.segment(10), directory.segment(20)])
    assert segments.holding(3).base_offset == 10


def test_cut_returns_the_segments_after_a_number(segments: Segments) -> None:
    assert [removed.base_offset for removed in segments.cut(0)] == [20, 50]
    assert segments.base_offsets == [0]
    assert segments.active.base_offset == 0
    assert segments.cut(0) == []


def test_drop_returns_the_oldest_segments_and_never_the_active_one(segments: Segments) -> None:
    assert [removed.base_offset for removed in segments.drop(2)] == [0, 20]
    assert segments.base_offset == 50
    with pytest.raises(AssertionError):
        segments.drop(1)
    assert segments.base_offsets == [50]


def test_replace_puts_one_segment_in_the_place_of_neighbours(
    segments: Segments, directory: PartitionDirectory
) -> None:
    merged = directory.segment(5)
    segments.replace([segments[0], segments[1]], merged)
    assert list(segments) == [merged, segments.active]
    assert segments.base_offsets == [5, 50]


def test_replace_refuses_segments_that_are_not_neighbours(
    segments: Segments, directory: PartitionDirectory
) -> None:
    with pytest.raises(AssertionError):
        segments.replace([segments[0], segments[2]], directory.segment(5))
    assert segments.base_offsets == [0, 20, 50]


def test_segments_are_never_empty() -> None:
    with pytest.raises(AssertionError):
        Segments([])


def test_a_segment_that_breaks_the_order_is_refused(
    segments: Segments, directory: PartitionDirectory
) -> None:
    with pytest.raises(AssertionError):
        segments.append(directory.segment(30))
    assert segments.active.base_offset == 50
