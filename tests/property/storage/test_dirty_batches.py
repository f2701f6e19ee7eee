"""Dirty batches are filtered by the offsets in the map, with the same result as by their keys."""

from hypothesis import given
from hypothesis import strategies as st

from sawlog.protocol.compression import Codec
from sawlog.protocol.record_batch import DELETE_HORIZON, HEADER_SIZE, encode_batch, read_header
from sawlog.protocol.records import Record, build_batch
from sawlog.storage.cleaner.batch_filter import (
    BatchFilter,
    CleanerStats,
    RetentionRules,
    is_known,
    open_records,
)
from sawlog.storage.cleaner.cleaned_transactions import CleanedTransactions
from sawlog.storage.cleaner.offset_map import OffsetMap, map_keys

NOW_MS = 1_000_000
HIGHEST_MS = (1 << 63) - 1

KEYS = st.one_of(
    st.none(), st.sampled_from([b"", b"a", b"b", b"c", b"k" * 46, b"k" * 47, b"k" * 70])
)
TIMESTAMPS = st.one_of(
    st.integers(0, 300), st.sampled_from([NOW_MS - 1, NOW_MS, NOW_MS + 1, HIGHEST_MS])
)
RECORDS = st.builds(
    Record,
    offset=st.just(0),
    timestamp=TIMESTAMPS,
    key=KEYS,
    value=st.one_of(st.none(), st.sampled_from([b"", b"v", b"v" * 100])),
)
BATCHES = st.lists(
    st.tuples(
        st.lists(RECORDS, min_size=1, max_size=8),
        st.sampled_from([Codec.NONE, Codec.ZSTD]),
        st.booleans(),  # whether a cleaning has set the delete horizon
    ),
    min_size=1,
    max_size=6,
)


def batches_of(drawn: list[tuple[list[Record], Codec, bool]]) -> list[bytes]:
    batches = []
    offset = 7
    for records, codec, has_horizon in drawn:
        batch = build_batch(records, codec=codec, base_offset=offset)
        if has_horizon:
            header = read_header(batch)
            header = header._replace(attributes=header.attributes | DELETE_HORIZON)
            batch = encode_batch(header, batch[HEADER_SIZE:])
        batches.append(bytes(batch))
        offset += len(records)
    return batches


def filtered(
    batches: list[bytes], first_dirty: int, *, by_offset: bool
) -> tuple[list[bytes | None], CleanerStats]:
    """What is left of each batch after a cleaning of the log from `first_dirty` on."""
    offsets = OffsetMap(1 << 20, first_dirty) if by_offset else OffsetMap(1 << 20)
    keyless = 0
    for batch in batches:
        header = read_header(batch)
        if header.last_offset >= first_dirty:
            _, columns = open_records(batch, 0, header)
            found = [header.base_offset + delta for delta in columns.offset_deltas]
            offsets.add(map_keys(columns.keys), found)
            offsets.advance(header.last_offset)
            if is_known(header, offsets):
                keyless += columns.keys.count(None)
    rules = RetentionRules(NOW_MS, 1_000, end_offset=offsets.latest_offset + 1, last_offsets={})
    stats = CleanerStats(keyless_records=keyless)
    batch_filter = BatchFilter(offsets, rules, stats, CleanedTransactions())
    left = (batch_filter.filter(batch, 0, read_header(batch)) for batch in batches)
    return [None if one is None else bytes(one[0]) for one in left], stats


@given(BATCHES, st.integers(0, 30))
def test_dirty_batches_are_filtered_by_offset_as_by_key(
    drawn: list[tuple[list[Record], Codec, bool]], dirty_after: int
) -> None:
    batches = batches_of(drawn)
    first_dirty = min(7 + dirty_after, read_header(batches[-1]).base_offset)
    by_offset = filtered(batches, first_dirty, by_offset=True)
    assert by_offset == filtered(batches, first_dirty, by_offset=False)
