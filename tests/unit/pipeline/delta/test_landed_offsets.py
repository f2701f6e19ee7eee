"""Whether a batch may be appended to a table with given offsets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sawlog.core.ids import TopicPartition
from sawlog.pipeline.delta.errors import OffsetConflict
from sawlog.pipeline.delta.landed_offsets import (
    OffsetCheck,
    OffsetSpan,
    application_id,
    check_offsets,
    notes_of,
    offsets_of,
)
from support.pipeline.tables import at


def test_a_batch_that_starts_at_the_stored_offsets_is_next() -> None:
    stored = {at(0): 500, at(1): 80}
    assert (
        check_offsets(stored, {at(0): OffsetSpan(500, 700), at(1): OffsetSpan(80, 95)})
        is OffsetCheck.NEXT
    )


def test_a_batch_that_the_table_has_is_committed() -> None:
    stored = {at(0): 700, at(1): 200}
    assert (
        check_offsets(stored, {at(0): OffsetSpan(500, 700), at(1): OffsetSpan(80, 95)})
        is OffsetCheck.COMMITTED
    )


def test_an_unknown_partition_starts_at_zero() -> None:
    assert check_offsets({}, {at(0): OffsetSpan(0, 10)}) is OffsetCheck.NEXT
    with pytest.raises(OffsetConflict):
        check_offsets({}, {at(0): OffsetSpan(5, 10)})


def test_an_empty_span_is_ignored() -> None:
    assert (
        check_offsets({at(0): 5}, {at(0): OffsetSpan(5, 9), at(1): OffsetSpan(77, 77)})
        is OffsetCheck.NEXT
    )
    assert check_offsets({}, {at(1): OffsetSpan(77, 77)}) is OffsetCheck.COMMITTED
    assert check_offsets({}, {}) is OffsetCheck.COMMITTED


@pytest.mark.parametrize("stored", [0, 99, 101, 199])
def test_a_batch_that_would_lose_or_duplicate_rows_is_a_conflict(stored: int) -> None:
    with pytest.raises(OffsetConflict) as caught:
        check_offsets({at(0): stored}, {at(0): OffsetSpan(100, 200)})
    found = caught.value
    assert (found.partition, found.stored, found.start, found.end) == (at(0), stored, 100, 200)
    assert f"access-0 up to offset {stored}" in str(found)


def test_a_batch_partly_landed_by_another_writer_is_a_conflict() -> None:
    with pytest.raises(OffsetConflict) as caught:
        check_offsets({at(0): 0, at(1): 10}, {at(0): OffsetSpan(0, 10), at(1): OffsetSpan(0, 10)})
    assert caught.value.partition == at(1)


def test_a_span_that_ends_before_its_start_is_rejected() -> None:
    with pytest.raises(ValueError, match="access-0 cannot move from 5 to 4"):
        check_offsets({}, {at(0): OffsetSpan(5, 4)})


offsets = st.integers(0, 6)
spans = st.tuples(offsets, offsets).map(lambda pair: OffsetSpan(min(pair), max(pair)))


@given(st.dictionaries(st.integers(0, 3), offsets), st.dictionaries(st.integers(0, 3), spans))
def test_the_next_batch_adds_each_offset_once(
    stored: dict[int, int], batch: dict[int, OffsetSpan]
) -> None:
    """The result against a model: sets of offsets of the table and of the batch."""
    have = {(p, offset) for p, end in stored.items() for offset in range(end)}
    brings = {(p, offset) for p, span in batch.items() for offset in range(*span)}
    try:
        result = check_offsets(
            {at(p): end for p, end in stored.items()}, {at(p): span for p, span in batch.items()}
        )
    except OffsetConflict:
        assert brings
        return
    if result is OffsetCheck.COMMITTED:
        assert brings <= have
        return
    assert not brings & have
    after = have | brings
    for partition, span in batch.items():
        if span.start != span.end:
            assert {offset for p, offset in after if p == partition} == set(range(span.end))


def test_application_ids_round_trip_and_others_are_ignored() -> None:
    mine = {at(0): 7, at(12, "b.c_d-e"): 9}
    versions = {application_id("a/b", partition): offset for partition, offset in mine.items()}
    versions |= {application_id("a", at(0)): 3, "a/b": 1, "a/b/t/x": 2, "query": 5, "a/b//1": 4}
    assert offsets_of("a/b", versions) == mine
    assert offsets_of("a", versions) == {at(0): 3}
    assert offsets_of("other", versions) == {}


def test_notes_are_not_offsets() -> None:
    versions = {"a/t/0": 7, "a/(dead letters)t/0": 3, "a/(replays)/0": 1}
    assert offsets_of("a", versions) == {at(0, "t"): 7}
    assert notes_of("a", versions) == {at(0, "(dead letters)t"): 3, at(0, "(replays)"): 1}


def test_an_application_id_names_pipeline_topic_and_partition() -> None:
    assert application_id("lake-access", TopicPartition(*at(3))) == "lake-access/access/3"
