"""Headers of record batches: reading, validation of produced batches, offset assignment."""

from typing import Any

import pytest

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.record_batch import (
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    batches_in,
    check_crc,
    check_produced,
    crc_matches,
    read_header,
    stamp,
    stamp_append_time,
)
from support.protocol.batches import raw_batch

LIMIT = 1_000_000


def error_code_of(records: bytes | bytearray | None, limit: int = LIMIT) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        check_produced(None if records is None else memoryview(records), max_batch_bytes=limit)
    assert raised.value.message
    return raised.value.code


def test_a_header_is_read_field_by_field() -> None:
    batch = raw_batch(
        b"x" * 10,
        base_offset=100,
        leader_epoch=7,
        attributes=TRANSACTIONAL | 4,
        last_offset_delta=9,
        base_timestamp=1_111,
        max_timestamp=2_222,
        producer_id=33,
        producer_epoch=4,
        base_sequence=55,
        count=10,
    )
    header = read_header(b"\xff" * 3 + batch, 3)
    assert header[:4] == (100, 59, 7, 2)
    assert header[6:] == (9, 1_111, 2_222, 33, 4, 55, 10)
    assert (header.size, header.last_offset, header.next_offset) == (len(batch), 109, 110)
    assert (header.codec, header.timestamp_type, header.last_sequence) == (4, 0, 64)
    assert header.is_transactional
    assert header.has_producer
    assert not header.is_control


def test_sequences_wrap_around_at_2_to_the_31() -> None:
    batch = raw_batch(producer_id=1, base_sequence=2**31 - 2, last_offset_delta=4, count=5)
    assert read_header(batch).last_sequence == 2
    assert read_header(raw_batch()).last_sequence == -1


def test_a_truncated_header_is_corrupt() -> None:
    with pytest.raises(KafkaError) as raised:
        read_header(raw_batch()[: HEADER_SIZE - 1])
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("attributes", [0, 1, 2, 3, 4, TRANSACTIONAL])
def test_a_valid_batch_is_accepted(attributes: int) -> None:
    batch = raw_batch(attributes=attributes, producer_id=5, base_sequence=0, producer_epoch=0)
    header = check_produced(memoryview(batch), max_batch_bytes=len(batch))
    assert header == read_header(batch)


def test_validation_keeps_no_view_of_the_batch() -> None:
    batch = raw_batch()
    check_produced(memoryview(batch), max_batch_bytes=LIMIT)
    batch.extend(b"a bytearray with a view on it refuses to grow")


WRONG_FIELDS: list[tuple[dict[str, Any], ErrorCode]] = [
    ({"magic": 0}, ErrorCode.INVALID_RECORD),
    ({"magic": 1}, ErrorCode.INVALID_RECORD),
    ({"magic": 3}, ErrorCode.CORRUPT_MESSAGE),
    ({"magic": -1}, ErrorCode.CORRUPT_MESSAGE),
    ({"base_offset": 1}, ErrorCode.INVALID_RECORD),
    ({"crc": 0}, ErrorCode.CORRUPT_MESSAGE),
    ({"length": -1}, ErrorCode.CORRUPT_MESSAGE),
    ({"length": 13}, ErrorCode.CORRUPT_MESSAGE),
    ({"length": 2**31 - 1}, ErrorCode.INVALID_RECORD),
    ({"count": 0, "last_offset_delta": -1}, ErrorCode.INVALID_RECORD),
    ({"count": 0}, ErrorCode.INVALID_RECORD),
    ({"count": -1, "last_offset_delta": -2}, ErrorCode.INVALID_RECORD),
    ({"count": 2}, ErrorCode.INVALID_RECORD),
    ({"last_offset_delta": 1}, ErrorCode.INVALID_RECORD),
    ({"attributes": CONTROL}, ErrorCode.INVALID_RECORD),
    ({"attributes": CONTROL | TRANSACTIONAL}, ErrorCode.INVALID_RECORD),
    ({"attributes": LOG_APPEND_TIME}, ErrorCode.INVALID_TIMESTAMP),
    ({"attributes": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ({"attributes": 7}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ({"producer_id": 0, "base_sequence": -1}, ErrorCode.INVALID_RECORD),
]


@pytest.mark.parametrize(("fields", "code"), WRONG_FIELDS)
def test_an_invalid_field_is_rejected(fields: dict[str, Any], code: ErrorCode) -> None:
    assert error_code_of(raw_batch(**fields)) is code


def test_missing_records_are_rejected() -> None:
    assert error_code_of(None) is ErrorCode.INVALID_RECORD
    assert error_code_of(b"") is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("length", [1, 11, 12, 16, 17, 60, 61, 67])
def test_a_truncated_batch_is_rejected(length: int) -> None:
    assert error_code_of(raw_batch()[:length]) is ErrorCode.INVALID_RECORD


def test_a_batch_shorter_than_its_header_is_corrupt() -> None:
    assert error_code_of(raw_batch(length=40)[:52]) is ErrorCode.CORRUPT_MESSAGE


def test_a_second_batch_is_rejected() -> None:
    assert error_code_of(raw_batch() + raw_batch()) is ErrorCode.INVALID_RECORD
    assert error_code_of(raw_batch() + b"\x00") is ErrorCode.INVALID_RECORD


def test_the_size_limit_is_for_the_whole_batch() -> None:
    batch = raw_batch()
    assert error_code_of(batch, limit=len(batch) - 1) is ErrorCode.MESSAGE_TOO_LARGE


def test_every_flipped_bit_under_the_crc_is_detected() -> None:
    batch = raw_batch()
    for position in range(17, len(batch)):
        for bit in range(8):
            batch[position] ^= 1 << bit
            assert error_code_of(batch) is ErrorCode.CORRUPT_MESSAGE
            batch[position] ^= 1 << bit
    check_produced(memoryview(batch), max_batch_bytes=LIMIT)


def test_offset_and_epoch_are_set_without_a_new_crc() -> None:
    batch = raw_batch(count=3, last_offset_delta=2)
    before = read_header(batch)
    stamp(memoryview(batch), 1 << 40, 9)
    after = read_header(batch)
    assert after == before._replace(base_offset=1 << 40, leader_epoch=9)
    check_crc(batch, after)


def test_log_append_time_changes_only_type_and_max_timestamp() -> None:
    batch = raw_batch(attributes=3, count=3, last_offset_delta=2)
    before = read_header(batch)
    stamp_append_time(memoryview(batch), 5_000)
    after = read_header(batch)
    assert (after.max_timestamp, after.timestamp_type, after.codec) == (5_000, 1, 3)
    assert after._replace(
        attributes=before.attributes, max_timestamp=before.max_timestamp, crc=before.crc
    ) == (before)
    check_crc(batch, after)


def test_consecutive_batches_are_found() -> None:
    first, second = raw_batch(b"a" * 20), raw_batch(b"b" * 30, base_offset=1)
    found = list(batches_in(first + second))
    assert found == [(0, read_header(first)), (len(first), read_header(second))]


@pytest.mark.parametrize("kept", [0, 1, 16, 60, 61, 90])
def test_a_truncated_last_batch_is_ignored(kept: int) -> None:
    first, second = raw_batch(b"a" * 20), raw_batch(b"b" * 30)
    assert [position for position, _ in batches_in(first + second[:kept])] == [0]


@pytest.mark.parametrize("wrong", [{"magic": 1}, {"length": 48}, {"length": 0}, {"length": -60}])
def test_other_bytes_between_batches_are_corrupt(wrong: dict[str, Any]) -> None:
    found = batches_in(raw_batch() + raw_batch(**wrong))
    next(found)
    with pytest.raises(KafkaError) as raised:
        next(found)
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_crc_is_checked_at_any_position() -> None:
    batch = raw_batch(b"abc")
    header = read_header(batch)
    assert crc_matches(b"front" + batch + b"back", header, 5)
    assert not crc_matches(batch[:-1], header)
    batch[-1] ^= 1
    with pytest.raises(KafkaError) as raised:
        check_crc(batch, header)
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE
