"""The fast scan of a coordinator's log finds the same records as the generic reader."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sawlog.coordinator.last_values import LastValues
from sawlog.core.errors import KafkaError
from sawlog.protocol.compression import Codec
from sawlog.protocol.record_batch import batches_in
from sawlog.protocol.records import Record, build_batch, iterate

KEYS = st.sampled_from([b"a", b"b", b"", b"c" * 70, b"d" * 9_000, None])
VALUES = st.sampled_from([None, b"", b"x", b"y" * 80, b"z" * 9_000])
HEADERS = st.sampled_from([(), (("h", b"v"),)])
TIMES = st.integers(0, 10) | st.integers(0, 2**40)
RECORDS = st.lists(st.tuples(TIMES, KEYS, VALUES, HEADERS), min_size=1, max_size=3)
CODECS = st.sampled_from([Codec.NONE, Codec.NONE, Codec.NONE, Codec.LZ4, Codec.ZSTD])
BATCHES = st.lists(st.tuples(RECORDS, CODECS, st.booleans()), max_size=4)


def log_of(batches: list[Any]) -> bytes:
    log = bytearray()
    offset = 5
    for records, codec, control in batches:
        built = [Record(0, *record) for record in records]
        log += build_batch(built, codec=codec, control=control, base_offset=offset)
        offset += len(records)
    return bytes(log)


def read_generically(log: bytes, from_offset: int) -> tuple[list[Any], int]:
    last: dict[bytes, bytes | None] = {}
    end = from_offset
    for position, header in batches_in(log):
        end = header.next_offset
        if header.is_control:
            continue
        batch = log[position : position + header.size]
        for record in iterate(batch, max_decompressed_bytes=1 << 24):
            if record.key is not None and record.offset >= from_offset:
                last.pop(record.key, None)
                last[record.key] = record.value
    return list(last.items()), end


@settings(deadline=None)
@given(BATCHES, st.integers(0, 20), st.integers(0, 200))
def test_the_last_value_of_each_key_is_kept_in_the_order_of_the_log(
    batches: list[Any], skipped: int, cut: int
) -> None:
    log = log_of(batches)
    log = log[: len(log) - cut]
    last = LastValues()
    end = last.read(log, 5 + skipped)
    assert (list(last.values.items()), end) == read_generically(log, 5 + skipped)


@settings(deadline=None)
@given(BATCHES, st.data())
def test_damage_is_detected_or_has_no_effect(batches: list[Any], data: st.DataObject) -> None:
    log = bytearray(log_of(batches))
    if log:
        place = data.draw(st.integers(0, len(log) - 1))
        log[place] ^= data.draw(st.integers(1, 255))
    last = LastValues()
    try:
        end = last.read(bytes(log), 5)
        expected = read_generically(bytes(log), 5)
    except KafkaError:
        return
    assert (list(last.values.items()), end) == expected
