"""Transaction markers: their bytes are Kafka's, and other control batches are refused."""

import pytest

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.control_records import (
    ControlType,
    EndTransactionMarker,
    marker_batch,
    read_marker,
)
from sawlog.protocol.record_batch import check_crc, read_header
from sawlog.protocol.records import Record, build_batch, iterate

ABORT = bytes.fromhex("0000 0000")
COMMIT = bytes.fromhex("0000 0001")


def control_batch(key: bytes | None, value: bytes | None) -> bytearray:
    return build_batch([Record(0, 1_000, key, value)], control=True, transactional=True)


@pytest.mark.parametrize("control_type", ControlType)
def test_a_marker_is_read_back(control_type: ControlType) -> None:
    marker = EndTransactionMarker(control_type, 17)
    batch = marker_batch(marker, producer_id=9, producer_epoch=3, timestamp_ms=1_234)
    header = read_header(batch)
    check_crc(batch, header)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 3, -1)
    assert (header.count, header.last_offset_delta, header.max_timestamp) == (1, 0, 1_234)
    assert read_marker(batch) == marker
    assert marker.is_abort == (control_type is ControlType.ABORT)


def test_key_and_value_are_those_of_kafka() -> None:
    batch = marker_batch(EndTransactionMarker(ControlType.COMMIT, 258), 9, 3, 1_234)
    (record,) = iterate(batch, max_decompressed_bytes=1_000)
    assert record.key == COMMIT
    assert record.value == bytes.fromhex("0000 00000102")
    assert record.headers == ()


def test_a_later_version_is_read_as_version_0() -> None:
    batch = control_batch(bytes.fromhex("0001 0000 ff"), bytes.fromhex("0002 00000005 ffff"))
    assert read_marker(batch) == EndTransactionMarker(ControlType.ABORT, 5)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param(None, bytes(6), id="no key"),
        pytest.param(ABORT, None, id="no value"),
        pytest.param(ABORT[:3], bytes(6), id="short key"),
        pytest.param(ABORT, bytes(5), id="short value"),
        pytest.param(bytes.fromhex("0000 0002"), bytes(6), id="leader change of KRaft"),
        pytest.param(bytes.fromhex("ffff 0000"), bytes(6), id="negative key version"),
        pytest.param(ABORT, bytes.fromhex("ffff 00000000"), id="negative value version"),
    ],
)
def test_another_control_record_is_no_marker(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(KafkaError) as error:
        read_marker(control_batch(key, value))
    assert error.value.code is ErrorCode.INVALID_RECORD


def test_a_cleaned_control_batch_has_no_marker() -> None:
    with pytest.raises(KafkaError) as error:
        read_marker(build_batch([], control=True, transactional=True))
    assert error.value.code is ErrorCode.INVALID_RECORD
