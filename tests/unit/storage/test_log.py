"""Appends, rolls and reads of one log."""

from dataclasses import replace

import pytest

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.record_batch import check_crc, read_header
from sawlog.protocol.records import Record, build_batch
from sawlog.storage.log import Log
from sawlog.storage.log_config import LogConfig
from sawlog.storage.segment import Segment
from support.storage.logs import TP, SimulatedStorage, append, headers_in, read, records


def rejected(log: Log, contents: list[Record], **batch: object) -> ErrorCode:
    before = (log.end_offset, log.size_bytes, len(log.segments), log.producer_states.encode())
    with pytest.raises(KafkaError) as error:
        append(log, contents, **batch)
    assert (
        log.end_offset,
        log.size_bytes,
        len(log.segments),
        log.producer_states.encode(),
    ) == before
    return error.value.code


def test_the_example_of_the_docstring() -> None:
    storage = SimulatedStorage(LogConfig(segment_bytes=1_000))
    batch = records(10, timestamp=storage.now_ms, value=bytes(26))
    log = storage.log
    for _ in range(3):
        append(log, batch)
    assert (log.segments.base_offsets, log.end_offset) == ([0, 20], 30)
    assert storage.flush() is None
    assert log.flushed_offset == 30
    piece = read(log, 13)
    assert piece is not None
    assert read_header(piece.read()).base_offset == 10
    log.truncate(13)
    assert (log.end_offset, log.flushed_offset) == (10, 10)
    log.advance_start(5)
    with pytest.raises(KafkaError):
        read(log, 4)


def test_a_batch_is_stamped_in_place_and_stored_as_it_is() -> None:
    log = SimulatedStorage().log
    append(log, records(3), epoch=7)
    batch = build_batch(records(2))
    appended = log.append(memoryview(batch), read_header(batch), 7)
    assert appended == (3, -1, False)
    header = read_header(batch)
    assert (header.base_offset, header.leader_epoch) == (3, 7)
    check_crc(batch, header)
    piece = read(log, 3)
    assert piece is not None
    assert piece.read() == batch


def test_an_index_that_cannot_be_written_does_not_fail_the_append(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    storage = SimulatedStorage(LogConfig(index_interval_bytes=1))

    def fail(*_: object) -> None:
        raise ValueError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(Segment, "add_index_entry", fail)
        assert [storage.append().base_offset for _ in range(3)] == [0, 1, 2]
    assert "index entry not written" in caplog.messages
    storage.recover()
    assert storage.log.end_offset == 3


def test_log_append_time_is_the_time_of_the_broker() -> None:
    storage = SimulatedStorage(LogConfig(timestamp_type="LogAppendTime"))
    batch = build_batch(records(2, timestamp=5))
    appended = storage.log.append(memoryview(batch), read_header(batch), 0)
    assert appended.append_time_ms == storage.now_ms
    header = headers_in(storage.log)[0]
    assert (header.max_timestamp, header.timestamp_type) == (storage.now_ms, 1)
    check_crc(batch, read_header(batch))
    found = storage.log.offset_for_timestamp(storage.now_ms, 2)
    assert found == (0, storage.now_ms, 0)


def test_records_without_a_timestamp_are_not_found_by_time() -> None:
    storage = SimulatedStorage()
    append(storage.log, records(1, timestamp=-1))
    assert storage.log.offset_for_timestamp(0, 1) is None
    assert storage.log.offset_of_max_timestamp(1) is None


def test_a_batch_larger_than_a_segment_is_rejected() -> None:
    log = SimulatedStorage(LogConfig(segment_bytes=500)).log
    assert rejected(log, records(1, value=bytes(500))) == ErrorCode.RECORD_LIST_TOO_LARGE


def test_duplicates_keep_their_offset_and_out_of_order_is_rejected() -> None:
    log = SimulatedStorage().log
    batch: dict[str, object] = {"producer_id": 5, "producer_epoch": 0}
    assert append(log, records(3), base_sequence=0, **batch).base_offset == 0
    assert append(log, records(2), base_sequence=3, **batch).base_offset == 3
    duplicate = append(log, records(3), base_sequence=0, **batch)
    assert duplicate == (0, 1_700_000_000_000, True)
    assert log.end_offset == 5
    code = rejected(log, records(1), base_sequence=9, **batch)
    assert code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    fenced = {"producer_id": 5, "producer_epoch": 1, "base_sequence": 0}
    append(log, records(1), **fenced)
    assert rejected(log, records(1), base_sequence=5, **batch) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_follower_keeps_the_offsets_and_epochs_of_the_leader() -> None:
    leader, follower = SimulatedStorage(), SimulatedStorage(LogConfig(segment_bytes=700))
    for epoch in (3, 3, 4):
        append(
            leader.log,
            records(4, value=bytes(50)),
            epoch=epoch,
            producer_id=1,
            producer_epoch=0,
            base_sequence=leader.log.end_offset,
        )
    for header in headers_in(leader.log):
        piece = read(leader.log, header.base_offset, 1)
        assert piece is not None
        follower.log.append_as_follower(memoryview(bytearray(piece.read())), header)
    assert headers_in(follower.log) == headers_in(leader.log)
    assert follower.log.epochs.entries == leader.log.epochs.entries
    assert follower.log.producer_states.states == leader.log.producer_states.states
    with pytest.raises(KafkaError) as error:
        follower.log.append_as_follower(memoryview(bytearray(piece.read())), header)
    assert error.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


# Rolling


def test_a_log_rolls_by_size() -> None:
    log = SimulatedStorage(LogConfig(segment_bytes=1_000)).log
    for _ in range(5):
        append(log, records(1, value=bytes(260)))
    sizes = [segment.file.size for segment in log.segments]
    assert all(0 < size <= 1_000 for size in sizes)
    assert log.segments.base_offsets == [0, 3]


def test_a_log_rolls_by_the_timestamps_of_its_records() -> None:
    storage = SimulatedStorage(LogConfig(segment_ms=1_000))
    now_ms = storage.now_ms
    for difference_ms in (0, 1_000, 500, 1_001, 1_500, 2_002):
        append(storage.log, records(1, timestamp=now_ms + difference_ms))
    assert storage.log.segments.base_offsets == [0, 3, 5]


def test_a_log_without_timestamps_rolls_by_the_clock() -> None:
    storage = SimulatedStorage(LogConfig(segment_ms=1_000))
    append(storage.log, records(1, timestamp=-1))
    storage.schedule.run_for(1_000)
    append(storage.log, records(1, timestamp=-1))
    storage.schedule.run_for(1)
    append(storage.log, records(1, timestamp=-1))
    assert storage.log.segments.base_offsets == [0, 2]


def test_jitter_rolls_earlier() -> None:
    storage = SimulatedStorage(LogConfig(segment_ms=1_000, segment_jitter_ms=900))
    now_ms = storage.now_ms
    log = storage.log
    jitter_ms = log.segments.active.jitter_ms
    assert 0 < jitter_ms < 900
    for difference_ms in (0, 1_000 - jitter_ms, 1_001 - jitter_ms):
        append(log, records(1, timestamp=now_ms + difference_ms))
    assert log.segments.base_offsets == [0, 2]


def test_a_log_rolls_when_its_index_is_full() -> None:
    log = SimulatedStorage(LogConfig(segment_index_bytes=80, index_interval_bytes=0)).log
    for number in range(30):
        append(log, records(1, timestamp=1_700_000_000_000 + number))
    assert len(log.segments) > 3
    assert all(len(segment.index) <= 10 for segment in log.segments)
    assert all(len(segment.time_index) <= 6 for segment in log.segments)


def test_a_log_rolls_before_a_relative_offset_overflows() -> None:
    log = SimulatedStorage().log
    append(log, records(1))
    for base_offset in (2**31 - 1, 2**31, 2**33):
        batch = build_batch(records(1), base_offset=base_offset, leader_epoch=0)
        log.append_as_follower(memoryview(batch), read_header(batch))
    assert log.segments.base_offsets == [0, 2**31, 2**33]
    assert [header.base_offset for header in headers_in(log)] == [0, 2**31 - 1, 2**31, 2**33]


@pytest.mark.parametrize("free_bytes", [0, 60], ids=["epoch checkpoint", "batch"])
def test_a_follower_without_space_does_not_know_the_epoch_of_the_refused_batch(
    free_bytes: int,
) -> None:
    storage = SimulatedStorage()
    log = storage.log
    append(log, records(1))
    batch = build_batch(records(1), base_offset=1, leader_epoch=1)
    storage.disk.free_bytes = free_bytes
    with pytest.raises(KafkaError) as error:
        log.append_as_follower(memoryview(batch), read_header(batch))
    assert error.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (log.end_offset, log.epochs.latest) == (1, 0)
    storage.disk.free_bytes = None
    log.append_as_follower(memoryview(batch), read_header(batch))
    assert log.epochs.entries == ((0, 0), (1, 1))


def test_a_new_config_applies_from_the_next_append() -> None:
    storage = SimulatedStorage()
    log = storage.log
    append(log, records(1, value=bytes(300)))
    log.reconfigure(LogConfig(segment_bytes=500))
    append(log, records(1, value=bytes(300)))
    assert log.segments.base_offsets == [0, 1]
    assert rejected(log, records(1, value=bytes(500))) == ErrorCode.RECORD_LIST_TOO_LARGE


# Reading


@pytest.fixture
def log() -> Log:
    """Twelve batches of three records and some 130 bytes, five to a segment."""
    log = SimulatedStorage(LogConfig(segment_bytes=700, index_interval_bytes=200)).log
    for number in range(12):
        append(log, records(3, timestamp=1_700_000_000_000 + number, value=b"%02d" % number * 6))
    assert log.segments.base_offsets == [0, 15, 30]
    return log


def test_a_slice_begins_with_the_batch_that_holds_the_offset(log: Log) -> None:
    for offset in range(log.end_offset):
        piece = read(log, offset, 1)
        assert piece is not None
        header = read_header(piece.read())
        assert header.base_offset <= offset < header.next_offset
        assert piece.length == header.size


def test_a_slice_ends_with_its_segment(log: Log) -> None:
    piece = read(log, 4)
    assert piece is not None
    assert piece.position + piece.length == piece.file.size == log.segments[0].file.size


def test_a_slice_ends_at_max_bytes(log: Log) -> None:
    whole = read(log, 15)
    assert whole is not None
    piece = log.read(15, 300, limit_offset=36, whole_first_batch=False)
    assert piece == (whole.file, whole.position, 300)
    assert log.read(15, 10, limit_offset=36, whole_first_batch=False) is None, (
        "no part of a batch (KIP-74)"
    )


def test_a_slice_ends_at_the_limit_offset(log: Log) -> None:
    for limit in range(18, 30, 3):
        piece = log.read(15, 1 << 20, limit_offset=limit, whole_first_batch=True)
        assert piece is not None
        assert piece.length == log.bytes_between(15, limit)
    assert log.read(15, 1 << 20, limit_offset=15, whole_first_batch=True) is None
    assert log.read(36, 1 << 20, limit_offset=36, whole_first_batch=True) is None


@pytest.mark.parametrize("offset", [-1, 37, 1000])
def test_offsets_out_of_range_are_rejected(log: Log, offset: int) -> None:
    with pytest.raises(KafkaError) as error:
        read(log, offset)
    assert error.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_read_at_the_tail_needs_no_index_look_up() -> None:
    storage = SimulatedStorage()
    storage.append()
    storage.flush()
    log = storage.log
    for _ in range(10):
        storage.append()
        storage.flush()
        storage.disk.reads.clear()
        piece = log.read(
            log.end_offset - 1, 1 << 20, limit_offset=log.flushed_offset, whole_first_batch=True
        )
        assert piece is not None
        assert read_header(piece.read()).next_offset == log.end_offset
        assert len(storage.disk.reads) == 1, "only the slice itself"


def test_bytes_between_spans_segments(log: Log) -> None:
    sizes = {header.base_offset: header.size for header in headers_in(log)}
    for start in (0, 3, 16, 33):
        for limit in (3, 15, 18, 36):
            expected = sum(
                size for base, size in sizes.items() if base + 3 > start and base < limit
            )
            assert log.bytes_between(start, limit) == (expected if start < limit else 0)


# Look-up by timestamp


def test_records_are_found_by_timestamp(log: Log) -> None:
    start_ms = 1_700_000_000_000
    for number in range(12):
        assert log.offset_for_timestamp(start_ms + number, 36) == (number * 3, start_ms + number, 0)
    assert log.offset_for_timestamp(0, 36) == (0, start_ms, 0)
    assert log.offset_for_timestamp(start_ms + 12, 36) is None
    assert log.offset_for_timestamp(start_ms + 5, 15) is None, "beyond the limit"
    assert log.offset_of_max_timestamp(36) == (33, start_ms + 11, 0)
    assert log.offset_of_max_timestamp(15) == (12, start_ms + 4, 0)


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_a_record_inside_a_batch_is_found_by_timestamp(codec: int) -> None:
    log = SimulatedStorage().log
    times = [7, 3, 9, 9, 4]
    contents = [Record(number, time, None, b"") for number, time in enumerate(times)]
    append(log, contents, codec=codec)
    assert log.offset_for_timestamp(3, 5) == (0, 7, 0)
    assert log.offset_for_timestamp(8, 5) == (2, 9, 0)
    assert log.offset_of_max_timestamp(5) == (2, 9, 0)
    log.advance_start(3)
    assert log.offset_for_timestamp(8, 5) == (3, 9, 0)


def test_records_with_timestamps_out_of_order_are_found() -> None:
    log = SimulatedStorage(LogConfig(segment_bytes=700, index_interval_bytes=100)).log
    times = [50, 10, 60, 20, 90, 30, 90, 40, 91, 5, 1, 2]
    for time in times:
        append(log, records(1, timestamp=time, value=bytes(60)))
    for wanted in range(93):
        expected = next((number for number, time in enumerate(times) if time >= wanted), None)
        found = log.offset_for_timestamp(wanted, len(times))
        assert (found.offset if found else None) == expected
    assert log.offset_of_max_timestamp(12) == (8, 91, 0)
    assert log.offset_of_max_timestamp(8) == (4, 90, 0)


# Epochs


def test_an_epoch_is_on_disk_before_its_first_append() -> None:
    storage = SimulatedStorage()
    log = storage.log
    log.assign_epoch(4)
    path = f"{TP}/leader-epoch-checkpoint"
    assert not storage.disk.exists(path), "no record has this epoch"
    append(log, records(2), epoch=4)
    assert storage.disk.read_file(path) == b"0\n1\n4 0\n"
    storage.disk.stop_at = storage.disk.operations + 3  # the temporary file is written, not renamed
    log.assign_epoch(5)
    with pytest.raises(BaseException, match="step"):
        append(log, records(2), epoch=5)
    storage.recover()
    assert storage.log.end_offset == 2


def test_end_offset_for_epoch_is_the_start_of_the_next_epoch() -> None:
    log = SimulatedStorage().log
    for epoch, count in ((1, 5), (3, 4), (3, 2)):
        append(log, records(count), epoch=epoch)
    assert log.end_offset_for_epoch(1) == (1, 5)
    assert log.end_offset_for_epoch(2) == (1, 5)
    assert log.end_offset_for_epoch(3) == (3, 11)
    assert log.end_offset_for_epoch(4) == (-1, -1)


def test_the_config_is_a_plain_value() -> None:
    assert replace(LogConfig(), segment_bytes=5) == LogConfig(segment_bytes=5)
