"""Truncation, the log start offset, and retention."""

import pytest

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ports import TooManyOpenFiles
from sawlog.protocol.records import Record
from sawlog.simulation.simulated_disk import SimulatedFile
from sawlog.storage.cleaner.log_cleaner import CleanerConfig
from sawlog.storage.log import Log
from sawlog.storage.log_config import LOG_APPEND_TIME, LogConfig
from support.storage.logs import TP, SimulatedStorage, append, headers_in, read, records

DAY_MS = 24 * 3600 * 1000


def storage_of_segments(count: int, **config: object) -> SimulatedStorage:
    """A log of segments with five batches of two records, one second between batches."""
    storage = SimulatedStorage(LogConfig(segment_bytes=700, index_interval_bytes=150, **config))  # type: ignore[arg-type]
    for number in range(count * 5):
        append(
            storage.log,
            records(2, timestamp=storage.now_ms + number * 1_000, value=b"%030d" % number),
        )
    assert storage.log.segments.base_offsets == [number * 10 for number in range(count)]
    return storage


def files_of(storage: SimulatedStorage) -> set[int]:
    return {int(name[:20]) for name in storage.disk.list(str(TP)) if name.endswith(".log")}


def bases_in(log: Log) -> list[int]:
    return [header.base_offset for header in headers_in(log)]


# Truncation


@pytest.mark.parametrize("offset", range(31))
def test_truncation_keeps_the_batches_below_the_offset(offset: int) -> None:
    storage = storage_of_segments(3)
    log = storage.log
    log.truncate(offset)
    end_offset = offset // 2 * 2
    assert log.end_offset == end_offset
    assert bases_in(log) == list(range(0, end_offset, 2))
    assert append(log, records(1)).base_offset == end_offset
    assert bases_in(log) == [*range(0, end_offset, 2), end_offset]
    storage.recover()
    assert bases_in(storage.log) == [*range(0, end_offset, 2), end_offset]


def test_truncation_at_or_beyond_the_end_does_nothing() -> None:
    storage = storage_of_segments(1)
    operations = storage.disk.operations
    storage.log.truncate(10)
    storage.log.truncate(99)
    assert (storage.log.end_offset, storage.disk.operations) == (10, operations)


def test_truncation_restores_epochs_and_producers() -> None:
    storage = SimulatedStorage()
    log = storage.log
    producer: dict[str, object] = {"producer_id": 1, "producer_epoch": 0}
    append(log, records(2), epoch=1, base_sequence=0, **producer)
    append(log, records(2), epoch=2, base_sequence=2, **producer)
    append(log, records(2), epoch=3, producer_id=2, producer_epoch=0, base_sequence=0)
    log.truncate(2)
    assert log.epochs.entries == ((1, 0),)
    assert list(log.producer_states.states) == [1]
    appended = append(log, records(2), epoch=4, base_sequence=2, **producer)
    assert not appended.duplicate
    assert log.epochs.entries == ((1, 0), (4, 2))
    storage.recover()
    assert storage.log.epochs.entries == ((1, 0), (4, 2))


def test_truncation_is_durable_and_lowers_the_recovery_point() -> None:
    for seed in range(20):
        storage = SimulatedStorage(seed=seed)
        storage.append(5)
        storage.append(5)
        storage.checkpoint()
        storage.log.truncate(5)
        storage.append(1)
        storage.lose_power()
        storage.open()
        assert storage.log.end_offset in (5, 6), "neither the old batch nor half of the new one"
        assert storage.log.flushed_offset <= 5


def test_truncation_removes_time_index_entries() -> None:
    storage = storage_of_segments(2)
    storage.log.truncate(6)
    found = storage.log.offset_of_max_timestamp(6)
    assert found is not None
    assert found.offset == 4


def test_a_truncation_that_fails_half_way_takes_the_directory_offline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = storage_of_segments(3)

    def refuse(self: SimulatedFile, size: int) -> None:
        raise TooManyOpenFiles(self.path, "too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(SimulatedFile, "truncate", refuse)
        with pytest.raises(KafkaError):
            storage.log.truncate(14)
    assert storage.directory.offline is not None
    with pytest.raises(KafkaError):
        storage.append()
    storage.recover()
    assert bases_in(storage.log) == list(range(0, 20, 2)), "whole segments were removed"
    assert storage.append().base_offset == 20


def test_a_truncation_that_a_full_disk_refuses_changes_nothing() -> None:
    storage = storage_of_segments(3)
    storage.checkpoint()
    storage.disk.free_bytes = 0
    with pytest.raises(KafkaError) as error:
        storage.log.truncate(14)
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (storage.directory.offline, storage.log.end_offset) == (None, 30)
    storage.disk.free_bytes = None
    assert storage.append().base_offset == 30


def test_a_truncation_succeeds_with_damage_below_the_cut() -> None:
    storage = SimulatedStorage(LogConfig(index_interval_bytes=1 << 20))
    for _ in range(5):
        storage.append(2)
    storage.checkpoint()
    segment = storage.log.segments.active
    storage.disk.overwrite(segment.file.path, segment.position_of(2) + 16, b"\7")  # its magic
    storage.log.truncate(8)
    assert storage.log.end_offset == 8
    assert storage.append().base_offset == 8


# The log start offset


def test_advancing_the_start_removes_whole_segments() -> None:
    storage = storage_of_segments(3)
    log = storage.log
    log.advance_start(13)
    storage.schedule.run_for(100)
    assert (log.start_offset, log.segments.base_offsets) == (13, [10, 20])
    assert files_of(storage) == {10, 20}
    with pytest.raises(KafkaError):
        read(log, 12)
    assert bases_in(log)[0] == 12
    log.advance_start(5)
    assert log.start_offset == 13
    with pytest.raises(KafkaError) as error:
        log.advance_start(31)
    assert error.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_start_offset_survives_a_clean_stop_and_a_crash_after_a_checkpoint() -> None:
    storage = storage_of_segments(3)
    storage.flush()
    storage.log.advance_start(13)
    storage.restart()
    assert storage.log.start_offset == 13
    storage.log.advance_start(15)
    storage.checkpoint()
    storage.lose_power()
    storage.open()
    assert storage.log.start_offset == 15


def test_all_records_can_be_deleted() -> None:
    storage = storage_of_segments(2)
    storage.flush()
    storage.log.advance_start(20)
    assert read(storage.log, 20) is None
    assert storage.append().base_offset == 20
    storage.restart()
    assert (storage.log.start_offset, storage.log.end_offset) == (20, 21)


def test_a_slice_of_a_removed_segment_is_still_readable() -> None:
    storage = storage_of_segments(3)
    piece = read(storage.log, 0)
    assert piece is not None
    storage.log.advance_start(20)
    storage.schedule.run_for(100)
    assert len(piece.read()) == piece.length


def test_segments_that_come_back_after_a_crash_leave_no_gap() -> None:
    for seed in range(30):
        storage = SimulatedStorage(LogConfig(segment_bytes=700), seed=seed)
        for _ in range(30):
            append(storage.log, records(1, value=bytes(100)))
        storage.flush()
        storage.log.advance_start(28)
        for _ in range(seed % 7):
            storage.schedule.step()
        storage.lose_power()
        storage.open()
        first = storage.log.segments.base_offsets[0]
        assert bases_in(storage.log) == list(range(max(first, storage.log.start_offset), 30))


def test_deleted_records_do_not_come_back_if_what_follows_was_never_flushed() -> None:
    """With flush.policy=os the log may end before its start offset after a power loss."""
    ends = set()
    for seed in range(30):
        storage = SimulatedStorage(
            LogConfig(segment_bytes=700), seed=seed, flushes_at_checkpoint=False
        )
        log = storage.log
        for _ in range(30):
            append(log, records(1, value=bytes(100)))
        log.set_high_watermark(30)
        log.advance_start(27)
        storage.directory.checkpoint_later()
        storage.schedule.run_for(6_000)
        storage.lose_power()
        storage.open()
        log = storage.log
        assert log.start_offset == 27
        assert bases_in(log) == list(range(27, log.end_offset))
        assert append(log, records(1)).base_offset >= 27
        ends.add(log.end_offset)
    assert len(ends) > 1


# Retention


def test_retention_by_time_removes_segments_whose_newest_record_is_too_old() -> None:
    storage = storage_of_segments(4, retention_ms=DAY_MS)
    log = storage.log
    newest_of_second_ms = storage.now_ms + 9_000
    assert log.apply_retention(newest_of_second_ms + DAY_MS, 40) != []
    assert log.segments.base_offsets == [10, 20, 30]
    assert log.apply_retention(newest_of_second_ms + DAY_MS + 1, 40) != []
    assert (log.segments.base_offsets, log.start_offset) == ([20, 30], 20)
    storage.schedule.run_for(100)
    assert files_of(storage) == {20, 30}


def test_retention_by_time_removes_the_active_segment_too() -> None:
    storage = storage_of_segments(2, retention_ms=DAY_MS)
    removed = storage.log.apply_retention(storage.now_ms + 2 * DAY_MS, 20)
    assert "00000000000000000010.log" in removed
    assert (
        storage.log.segments.base_offsets,
        storage.log.start_offset,
        storage.log.end_offset,
    ) == ([20], 20, 20)
    assert storage.append().base_offset == 20
    assert storage.log.apply_retention(storage.now_ms, 20) == []


def test_retention_by_size_keeps_at_least_retention_bytes() -> None:
    storage = storage_of_segments(4, retention_bytes=1_300)
    sizes = [segment.file.size for segment in storage.log.segments]
    storage.log.apply_retention(storage.now_ms, 40)
    assert storage.log.size_bytes >= 1_300
    assert storage.log.size_bytes - sizes[0] < 1_300


def test_retention_stops_at_the_high_watermark() -> None:
    storage = storage_of_segments(4, retention_ms=0, retention_bytes=0)
    storage.log.apply_retention(storage.now_ms + DAY_MS, 29)
    assert storage.log.segments.base_offsets == [20, 30]
    storage.log.apply_retention(storage.now_ms + DAY_MS, 30)
    assert storage.log.segments.base_offsets == [30]


@pytest.mark.parametrize("policy", [{"compact"}, set()])
def test_retention_needs_cleanup_policy_delete(policy: set[str]) -> None:
    storage = storage_of_segments(
        3, retention_ms=0, retention_bytes=0, cleanup_policy=frozenset(policy)
    )
    assert storage.log.apply_retention(storage.now_ms + DAY_MS, 30) == []


def test_negative_retention_keeps_everything() -> None:
    storage = storage_of_segments(3, retention_ms=-1, retention_bytes=-1)
    assert storage.log.apply_retention(storage.now_ms + 10_000 * DAY_MS, 30) == []


def test_retention_uses_the_time_index_after_a_restart() -> None:
    storage = storage_of_segments(4, retention_ms=DAY_MS)
    start_ms = storage.now_ms
    storage.restart()
    storage.log.apply_retention(start_ms + 9_001 + DAY_MS, 40)
    assert storage.log.segments.base_offsets == [20, 30]


def test_epochs_and_snapshots_are_removed_with_their_segments() -> None:
    storage = SimulatedStorage(LogConfig(segment_bytes=300))
    for epoch in range(6):
        append(storage.log, records(1, value=bytes(150)), epoch=epoch)
    storage.checkpoint()
    storage.log.advance_start(4)
    storage.schedule.run_for(1_000)
    assert storage.log.epochs.entries == ((4, 4), (5, 5))
    assert all(offset >= 4 for offset in storage.log.producers.snapshot_offsets)


def test_retention_by_time_keeps_unexpired_records_of_the_active_segment() -> None:
    storage = SimulatedStorage(LogConfig(retention_ms=DAY_MS))
    append(storage.log, records(1, timestamp=storage.now_ms - 3 * DAY_MS))
    append(storage.log, records(1, timestamp=storage.now_ms))
    assert storage.log.apply_retention(storage.now_ms + DAY_MS, 2) == []
    assert storage.log.apply_retention(storage.now_ms + DAY_MS + 1, 2) != []


def test_a_timestamp_in_the_far_future_does_not_defeat_retention_by_size() -> None:
    storage = SimulatedStorage(
        LogConfig(segment_bytes=700, retention_ms=DAY_MS, retention_bytes=1_300)
    )
    for number in range(30):
        timestamp = storage.now_ms + (1_000 * 365 * DAY_MS if number == 0 else 0)
        append(storage.log, records(1, timestamp=timestamp, value=bytes(100)))
    storage.log.apply_retention(storage.now_ms, 30)
    assert storage.log.start_offset > 0
    assert storage.log.size_bytes < 1_300 + 700


def test_with_log_append_time_a_producers_timestamp_does_not_defeat_retention_by_time() -> None:
    config = LogConfig(segment_bytes=700, retention_ms=DAY_MS, timestamp_type=LOG_APPEND_TIME)
    storage = SimulatedStorage(config)
    for days in (-10_000, 10_000, 0):
        append(storage.log, records(4, timestamp=storage.now_ms + days * DAY_MS, value=bytes(100)))
    assert storage.log.apply_retention(storage.now_ms + DAY_MS, 12) == []
    storage.log.apply_retention(storage.now_ms + DAY_MS + 1, 12)
    assert (storage.log.start_offset, storage.log.end_offset) == (12, 12)


def test_removed_segments_are_unlinked_after_file_delete_delay_ms() -> None:
    storage = storage_of_segments(3, retention_ms=DAY_MS, file_delete_delay_ms=5_000)
    storage.log.apply_retention(storage.now_ms + 2 * DAY_MS, 20)
    storage.schedule.run_for(4_000)
    names = storage.disk.list(str(TP))
    assert {name[:20] for name in names if name.endswith(".log.deleted")} == {
        f"{base:020d}" for base in (0, 10)
    }
    storage.schedule.run_for(2_000)
    assert not any(name.endswith(".deleted") for name in storage.disk.list(str(TP)))


def compacted_and_deleted() -> SimulatedStorage:
    """A storage with cleanup.policy=compact,delete, whose cleaner looks every 100 ms."""
    config = LogConfig(
        segment_bytes=700,
        retention_ms=DAY_MS,
        cleanup_policy=frozenset({"compact", "delete"}),
        min_cleanable_dirty_ratio=0.0,
    )
    return SimulatedStorage(config, cleaner=CleanerConfig(backoff_ms=100))


def test_a_log_that_is_compacted_and_deleted_loses_its_expired_segments() -> None:
    storage = compacted_and_deleted()
    log = storage.log
    for number in range(30):
        timestamp = storage.now_ms + number
        append(log, [Record(0, timestamp, b"%d" % (number % 20), bytes(100))])
    log.set_high_watermark(30)
    storage.checkpoint()
    assert storage.directory.cleaner.totals.records_removed > 0
    kept = [header.base_offset for header in headers_in(log)]
    assert kept[-1] == 29
    assert len(kept) < 30
    active = log.segments.active.base_offset
    log.apply_retention(log.segments[0].newest_ms + DAY_MS + 1, 30)
    assert 0 < log.start_offset <= active
    assert bases_in(log) == [base for base in kept if base >= log.start_offset]


def test_retention_waits_for_the_end_of_a_cleaning() -> None:
    storage = compacted_and_deleted()
    log = storage.log
    for number in range(30):
        append(log, [Record(0, storage.now_ms, b"%d" % (number % 20), bytes(100))])
    storage.flush()
    log.set_high_watermark(30)
    storage.directory.checkpoint_later()
    assert storage.schedule.run(lambda: storage.directory.is_cleaning(log))
    assert log.apply_retention(storage.now_ms + 2 * DAY_MS, 30) == []
    storage.schedule.run_for(1_000)
    assert not storage.directory.is_cleaning(log)
    assert log.apply_retention(storage.now_ms + 2 * DAY_MS, 30) != []
