"""Which records of a batch a cleaning retains: the rules of Kafka's Cleaner."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.compression import Codec
from sawlog.protocol.record_batch import (
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    BatchHeader,
    check_crc,
    encode_batch,
    read_header,
)
from sawlog.protocol.records import Record, build_batch, iterate
from sawlog.protocol.varint import encode_varint
from sawlog.storage.cleaner.batch_filter import BatchFilter, CleanerStats, RetentionRules
from sawlog.storage.cleaner.cleaned_transactions import CleanedTransactions
from sawlog.storage.cleaner.offset_map import OffsetMap, map_keys

NOW_MS = 1_700_000_000_000
RETENTION_MS = 86_400_000
HORIZON_MS = NOW_MS + RETENTION_MS
MAX_BYTES = 1 << 20
FIRST_MS, LAST_MS = -(1 << 63), (1 << 63) - 1

RULES = RetentionRules(NOW_MS, RETENTION_MS, end_offset=1_000, last_offsets={})


def encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def build(
    *pairs: tuple[str | None, str | None], base_offset: int = 0, at_ms: int = 5_000, **batch: Any
) -> bytes:
    """A batch of keys and values whose timestamps ascend by one."""
    contents = [
        Record(0, at_ms + number, encoded(key), encoded(value))
        for number, (key, value) in enumerate(pairs)
    ]
    return bytes(build_batch(contents, base_offset=base_offset, leader_epoch=3, **batch))


class Filter:
    """A filter whose offset map holds `last`, the last offsets of keys up to offset 999."""

    def __init__(
        self,
        last: dict[str, int] | None = None,
        rules: RetentionRules = RULES,
        *,
        latest_offset: int = 999,
    ) -> None:
        self.stats = CleanerStats()
        offsets = OffsetMap(1 << 20)
        last = last or {}
        offsets.add(map_keys([key.encode() for key in last]), list(last.values()))
        offsets.advance(latest_offset)
        self._filter = BatchFilter(offsets, rules, self.stats, CleanedTransactions())

    def __call__(self, batch: bytes) -> bytes | None:
        """What is left of the batch, checked; the batch lies in the middle of a chunk."""
        header = read_header(batch)
        result = self._filter.filter(b"before" + batch + b"after", 6, header)
        if result is None:
            return None
        left, left_header = result
        assert left_header == read_header(left)
        assert left_header.size == len(left)
        check_crc(left, left_header)
        for name in ("base_offset", "last_offset_delta", "leader_epoch", "magic"):
            assert getattr(left_header, name) == getattr(header, name), name
        for name in ("producer_id", "producer_epoch", "base_sequence", "timestamp_type"):
            assert getattr(left_header, name) == getattr(header, name), name
        return bytes(left)


def records_in(batch: bytes | None) -> list[Record]:
    assert batch is not None
    return list(iterate(batch, max_decompressed_bytes=MAX_BYTES))


def keys_in(batch: bytes | None) -> list[str]:
    return [record.key.decode() for record in records_in(batch) if record.key is not None]


def with_horizon(batch: bytes, horizon_ms: int) -> bytes:
    """The batch as a cleaning leaves it whose retention ends at `horizon_ms`."""
    rules = replace(RULES, now_ms=horizon_ms, delete_retention_ms=0)
    left = Filter(rules=rules)(batch)
    assert left is not None
    assert read_header(left).base_timestamp == horizon_ms
    return left


# Superseded records


def test_records_with_a_later_one_of_their_key_go() -> None:
    batch = build(("a", "1"), ("b", "1"), ("a", "2"), ("c", "1"), base_offset=10)
    left = Filter({"a": 12, "b": 500, "c": 13})(batch)
    assert [(record.offset, record.key) for record in records_in(left)] == [(12, b"a"), (13, b"c")]


def test_records_whose_key_is_not_in_the_map_stay() -> None:
    batch = build(("a", "1"), ("b", "1"))
    assert Filter({"a": 0})(batch) == batch


def test_a_batch_is_removed_with_its_last_record() -> None:
    cleaning = Filter({"a": 50, "b": 51})
    assert cleaning(build(("a", "1"), ("b", "1"))) is None
    assert (cleaning.stats.records_read, cleaning.stats.records_written) == (2, 0)
    assert (cleaning.stats.bytes_written, cleaning.stats.changed_batches) == (0, 1)


def test_long_keys_are_superseded_too() -> None:
    long = "k" * 1_000
    left = Filter({long: 9})(build((long, "old"), ("b", "1")))
    assert keys_in(left) == ["b"]


def test_records_without_a_key_go_and_are_counted() -> None:
    cleaning = Filter()
    left = cleaning(build((None, "1"), ("a", "1"), (None, None)))
    assert keys_in(left) == ["a"]
    assert cleaning.stats.keyless_records == 2


def test_an_empty_key_is_a_key() -> None:
    batch = build(("", "1"), ("a", "1"))
    assert Filter({"a": 1})(batch) == batch
    assert keys_in(Filter({"": 5})(batch)) == ["a"]


def test_values_headers_and_timestamps_of_retained_records_stay() -> None:
    contents = [
        Record(0, 50 + n % 3, b"k%d" % n, bytes([n]) * n, (("name", b"x"), ("null", None)))
        for n in range(6)
    ]
    batch = bytes(build_batch(contents))
    left = Filter({"k1": 70, "k2": 71})(batch)
    before = [record for record in records_in(batch) if record.key not in (b"k1", b"k2")]
    assert records_in(left) == before


def test_the_maximum_timestamp_is_that_of_the_retained_records() -> None:
    batch = build(("a", "1"), ("b", "1"), ("c", "1"), at_ms=100)
    left = Filter({"c": 70})(batch)
    assert left is not None
    assert read_header(left).max_timestamp == 101


# Batches that stay as they are


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_that_loses_no_record_is_copied(codec: Codec) -> None:
    batch = build(("a", "1"), ("b", "2"), codec=codec)
    cleaning = Filter({"a": 0, "b": 1})
    assert cleaning(batch) == batch
    stats = cleaning.stats
    assert (stats.changed_batches, stats.bytes_read, stats.bytes_written) == (
        0,
        len(batch),
        len(batch),
    )


def test_a_batch_after_the_end_of_the_map_is_copied_unread() -> None:
    cleaning = Filter({"a": 999}, latest_offset=9)
    after = build(("a", "1"), (None, "x"), base_offset=10)
    assert cleaning(after) == after
    unreadable = bytes(encode_batch(read_header(after), b"these are no records"))
    assert cleaning(unreadable) == unreadable
    assert cleaning(build(("a", "1"), base_offset=9)) is None


# Tombstones


def test_a_tombstone_supersedes_earlier_values_and_stays() -> None:
    cleaning = Filter({"a": 11})
    assert cleaning(build(("a", "1"))) is None
    assert keys_in(cleaning(build(("b", "1"), ("a", None), base_offset=10))) == ["b", "a"]


def test_the_first_cleaning_sets_the_delete_horizon() -> None:
    batch = build(("a", None), ("b", "1"))
    left = Filter()(batch)
    assert left is not None
    header = read_header(left)
    assert header.attributes & DELETE_HORIZON
    assert header.base_timestamp == HORIZON_MS
    assert header.max_timestamp == read_header(batch).max_timestamp
    assert records_in(left) == records_in(batch), "timestamps are those of the producer"


def test_a_later_cleaning_does_not_move_the_horizon() -> None:
    left = with_horizon(build(("a", None), ("b", "1"), ("c", "1")), HORIZON_MS)
    later = replace(RULES, now_ms=NOW_MS + 1_000)
    assert Filter(rules=later)(left) == left
    rebuilt = Filter({"b": 70}, later)(left)
    assert rebuilt is not None
    assert read_header(rebuilt).base_timestamp == HORIZON_MS
    assert read_header(rebuilt).attributes & DELETE_HORIZON
    assert records_in(rebuilt) == [r for r in records_in(left) if r.key != b"b"]


def test_no_horizon_is_set_for_a_superseded_tombstone() -> None:
    left = Filter({"a": 50})(build(("a", None), ("b", "1")))
    assert left is not None
    assert not read_header(left).attributes & DELETE_HORIZON
    assert read_header(left).base_timestamp == 5_000


@pytest.mark.parametrize(
    ("now_ms", "keys"), [(HORIZON_MS - 1, ["a", "b"]), (HORIZON_MS, ["b"]), (LAST_MS, ["b"])]
)
def test_a_tombstone_goes_at_its_horizon(now_ms: int, keys: list[str]) -> None:
    left = with_horizon(build(("a", None), ("b", "1")), HORIZON_MS)
    assert keys_in(Filter(rules=replace(RULES, now_ms=now_ms))(left)) == keys


def test_without_retention_a_tombstone_still_stays_for_one_cleaning() -> None:
    rules = replace(RULES, delete_retention_ms=0)
    left = Filter(rules=rules)(build(("a", None)))
    assert keys_in(left) == ["a"]
    assert left is not None
    assert Filter(rules=rules)(left) is None


def test_a_value_after_its_tombstone_stays_behind_the_horizon() -> None:
    left = with_horizon(build(("a", None), ("a", "2")), NOW_MS)
    assert [r.value for r in records_in(Filter()(left))] == [b"2"]


def test_log_append_time_is_kept_when_the_horizon_is_set() -> None:
    batch = build(("a", None), ("b", "1"), ("c", "1"), timestamp_type=1)
    left = Filter({"c": 60})(batch)
    assert left is not None
    header = read_header(left)
    assert header.attributes & LOG_APPEND_TIME
    assert header.attributes & DELETE_HORIZON
    append_time = read_header(batch).max_timestamp
    assert [(r.key, r.timestamp) for r in records_in(left)] == [
        (b"a", append_time),
        (b"b", append_time),
    ]


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("value", ["1", None])
def test_a_rebuilt_batch_has_its_codec(codec: Codec, value: str | None) -> None:
    batch = build(*((f"key-{n}", value) for n in range(50)), codec=codec)
    left = Filter({"key-7": 500})(batch)
    assert left is not None
    assert read_header(left).codec == codec
    assert records_in(left) == [r for r in records_in(batch) if r.key != b"key-7"]


TIMESTAMPS = st.integers(FIRST_MS, LAST_MS) | st.sampled_from(
    [FIRST_MS, LAST_MS, -1, 0, NOW_MS, HORIZON_MS]
)


def batch_with_timestamps(timestamps: Sequence[int]) -> bytes:
    """A batch of tombstones; timestamp deltas overflow as in Java."""
    header = read_header(build(*[("k", None)] * len(timestamps)))
    base = timestamps[0]
    body = b""
    for number, timestamp in enumerate(timestamps):
        delta = (timestamp - base - FIRST_MS) % (1 << 64) + FIRST_MS
        fields = encode_varint(delta) + encode_varint(number)
        record = b"\0" + fields + encode_varint(1) + b"k" + encode_varint(-1) + b"\0"
        body += encode_varint(len(record)) + record
    header = header._replace(base_timestamp=base, max_timestamp=max(timestamps))
    return bytes(encode_batch(header, body))


@given(st.lists(TIMESTAMPS, min_size=1, max_size=5))
def test_extreme_timestamps_survive_the_horizon(timestamps: list[int]) -> None:
    batch = batch_with_timestamps(timestamps)
    assert [r.timestamp for r in records_in(batch)] == timestamps
    left = Filter()(batch)
    assert left is not None
    assert [r.timestamp for r in records_in(left)] == timestamps
    assert read_header(left).max_timestamp == max(timestamps)


# Empty batches


def producer(sequence: int = 7) -> dict[str, int]:
    return {"producer_id": 4, "producer_epoch": 2, "base_sequence": sequence}


def assert_empty(left: bytes | None, batch: bytes) -> BatchHeader:
    """Assert that a batch was emptied as Kafka does it."""
    assert left is not None
    header, original = read_header(left), read_header(batch)
    assert (len(left), header.count, header.codec) == (HEADER_SIZE, 0, Codec.NONE)
    assert (header.base_timestamp, header.max_timestamp) == (-1, original.max_timestamp)
    assert header.last_sequence == original.last_sequence
    assert records_in(left) == []
    return header


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_the_last_batch_of_an_active_producer_stays_without_records(codec: Codec) -> None:
    batch = build(("a", "1"), ("b", "1"), base_offset=10, codec=codec, **producer())
    rules = replace(RULES, last_offsets={4: 11})
    cleaning = Filter({"a": 50, "b": 51}, rules)
    left = cleaning(batch)
    assert_empty(left, batch)
    assert cleaning.stats.changed_batches == 1
    assert (cleaning.stats.records_written, cleaning.stats.bytes_written) == (0, HEADER_SIZE)
    assert left is not None
    again = Filter({"a": 50, "b": 51}, rules)
    assert again(left) == left
    assert again.stats.changed_batches == 0, "the next cleaning has nothing to do"


@pytest.mark.parametrize("last_offsets", [{}, {4: 30}, {5: 11}])
def test_the_batch_of_a_producer_that_wrote_later_goes(last_offsets: dict[int, int]) -> None:
    batch = build(("a", "1"), ("b", "1"), base_offset=10, **producer())
    rules = replace(RULES, last_offsets=last_offsets)
    assert Filter({"a": 50, "b": 51}, rules)(batch) is None


def test_an_empty_batch_goes_when_its_producer_is_not_active_any_more() -> None:
    batch = build(("a", "1"), base_offset=10, **producer())
    empty = Filter({"a": 50}, replace(RULES, last_offsets={4: 10}))(batch)
    assert empty is not None
    assert Filter({"a": 50})(empty) is None


def test_the_last_batch_of_the_cleaned_range_stays_without_records() -> None:
    batch = build(("a", "1"), ("b", "1"), base_offset=998)
    rules = replace(RULES, end_offset=1_000)
    assert_empty(Filter({"a": 1_500, "b": 1_500}, rules)(batch), batch)
    assert Filter({"a": 1_500}, rules)(build(("a", "1"), base_offset=990)) is None


def test_an_emptied_batch_has_no_horizon() -> None:
    batch = with_horizon(build(("a", None), base_offset=10, **producer()), NOW_MS)
    left = Filter(rules=replace(RULES, last_offsets={4: 10}))(batch)
    header = assert_empty(left, batch)
    assert not header.attributes & DELETE_HORIZON


def test_the_sequences_of_a_shortened_batch_stay() -> None:
    batch = build(("a", "1"), ("b", "1"), ("c", "1"), **producer(20))
    left = Filter({"a": 50, "c": 50})(batch)
    assert left is not None
    header = read_header(left)
    assert (header.base_sequence, header.last_sequence, header.count) == (20, 22, 1)


# Damage


def test_records_that_cannot_be_read_are_an_error() -> None:
    header = read_header(build(("a", "1")))
    with pytest.raises(KafkaError) as caught:
        Filter()(bytes(encode_batch(header, b"no records")))
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_batch_that_decompresses_to_too_much_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch = build(*[("a", "1" * 1_000)] * 10, codec=Codec.ZSTD)
    monkeypatch.setattr("sawlog.storage.cleaner.batch_filter.MAX_DECOMPRESSED_BYTES", 5_000)
    with pytest.raises(KafkaError):
        Filter()(batch)


# All rules together


@given(st.data())
def test_a_cleaning_equals_the_rules_record_by_record(data: st.DataObject) -> None:
    names = ["a", "b", "c", "d"]
    pairs = data.draw(
        st.lists(
            st.tuples(st.sampled_from([*names, None]), st.sampled_from(["1", "22", None])),
            min_size=1,
            max_size=8,
        )
    )
    last = data.draw(st.dictionaries(st.sampled_from(names), st.integers(0, 40)))
    codec = data.draw(st.sampled_from(Codec))
    batch = build(*pairs, base_offset=10, codec=codec)
    before = [record for record in records_in(batch) if record.key is not None]
    is_over = any(record.value is None for record in before) and data.draw(st.booleans())
    if is_over:
        batch = with_horizon(batch, NOW_MS)
    left = Filter(last)(batch)
    expected = [
        record
        for record in before
        if record.key is not None
        and record.offset >= last.get(record.key.decode(), -1)
        and not (is_over and record.value is None)
    ]
    assert (records_in(left) if left is not None else []) == expected
