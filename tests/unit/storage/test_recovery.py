"""Logs after kill -9: what survives, and how much is read."""

import logging

import pytest

from sawlog.core.ports import DiskError
from sawlog.protocol.record_batch import read_header
from sawlog.protocol.records import build_batch
from sawlog.storage.log_config import LogConfig
from sawlog.storage.recovery import RecoveryReport
from support.storage.logs import TP, SimulatedStorage, append, headers_in, records

LOG = f"{TP}/00000000000000000000.log"


def test_kill_9_loses_nothing_that_was_written() -> None:
    storage = SimulatedStorage(LogConfig(segment_bytes=500))
    for _ in range(10):
        append(storage.log, records(2, value=bytes(60)))
    expected = headers_in(storage.log)
    storage.recover()
    assert headers_in(storage.log) == expected
    assert not storage.directory.was_clean


@pytest.mark.parametrize("policy", ["compact", "delete"])
@pytest.mark.parametrize("gap_at", range(1, 8))
def test_a_follower_keeps_the_records_after_a_gap_of_a_compacted_leader(
    policy: str, gap_at: int
) -> None:
    """The policy may have changed since the leader's log was compacted."""
    storage = SimulatedStorage(LogConfig(segment_bytes=300, cleanup_policy=frozenset({policy})))
    for number in range(9):
        base_offset = number if number < gap_at else number + 1_000
        contents = records(1, value=bytes(30))
        batch = build_batch(contents, base_offset=base_offset, leader_epoch=0)
        storage.log.append_as_follower(memoryview(batch), read_header(batch))
    expected = headers_in(storage.log)
    assert len(storage.log.segments) >= 3
    assert storage.flush() is None
    storage.lose_power()
    storage.open()
    assert headers_in(storage.log) == expected
    assert storage.log.end_offset == 1_009


def test_recovery_after_an_unclean_stop_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    storage = SimulatedStorage()
    storage.append(3)
    storage.flush()
    storage.append(2)
    storage.kill()
    storage.disk.cut(LOG, storage.disk.open(LOG).size - 1)
    with caplog.at_level(logging.WARNING):
        storage.open()
    (line,) = [
        r for r in caplog.records if r.getMessage() == "logs recovered after an unclean stop"
    ]
    fields = line.fields  # type: ignore[attr-defined]
    assert (fields["logs"], fields["recovered"], fields["damaged"]) == (1, 1, 0)
    assert fields["checked_bytes"] > 0
    assert fields["truncated_bytes"] > 0


def test_a_clean_start_recovers_nothing_and_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    storage = SimulatedStorage()
    storage.append(3)
    storage.directory.close_cleanly()
    with caplog.at_level(logging.WARNING):
        storage.open()
    assert storage.directory.was_clean
    assert storage.directory.recovery == RecoveryReport()
    assert not caplog.records


def test_recovery_does_not_move_the_recovery_point() -> None:
    storage = SimulatedStorage()
    storage.append(3)
    storage.checkpoint()
    storage.append(4)
    storage.recover()
    assert (storage.log.flushed_offset, storage.log.end_offset) == (3, 7)
    storage.recover()
    assert (storage.log.flushed_offset, storage.log.end_offset) == (3, 7)
    storage.flush()
    assert storage.log.flushed_offset == 7


def test_recovered_batches_are_synced_by_the_next_flush() -> None:
    """After kill -9 the bytes are in the page cache only, and then the power is lost."""
    storage = SimulatedStorage(LogConfig(segment_bytes=300))
    for _ in range(8):
        append(storage.log, records(1, value=bytes(100)))
    storage.recover()
    assert len(storage.log.segments) > 2
    storage.flush()
    storage.lose_power()
    storage.open()
    assert storage.log.end_offset == 8


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("segment_bytes", [300, 1 << 20])
def test_batches_whose_fsync_failed_are_written_by_the_flush_after_a_restart(
    segment_bytes: int, seed: int
) -> None:
    """The kernel takes their pages for clean, so recovery finds them and has to write them."""
    storage = SimulatedStorage(LogConfig(segment_bytes=segment_bytes), seed=seed)
    for number in range(8):
        append(storage.log, records(1, value=bytes(100)))
        if number == 3:
            storage.checkpoint()
    storage.disk.fails_syncs = True
    assert storage.flush() is not None
    storage.disk.fails_syncs = False
    storage.recover()
    expected = headers_in(storage.log)
    assert (storage.log.flushed_offset, storage.log.end_offset) == (4, 8)
    storage.checkpoint()
    storage.lose_power()
    storage.open()
    assert headers_in(storage.log) == expected
    assert storage.directory.recovery.damaged_logs == 0


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("is_active", [False, True])
def test_indexes_whose_fsync_failed_are_on_the_disk_once_their_segment_is_complete(
    is_active: bool, seed: int
) -> None:
    storage = SimulatedStorage(LogConfig(segment_bytes=1_600, index_interval_bytes=1), seed=seed)
    for number in range(6 if is_active else 10):
        append(storage.log, records(1, timestamp=number, value=bytes(110)))
        if number == 5:
            storage.checkpoint()
    storage.disk.fails_syncs = True
    for file in storage.log.segments[0].files():  # as the kernel's own write-back, or a flush
        with pytest.raises(DiskError):
            file.sync()
    storage.disk.fails_syncs = False
    storage.recover()
    while len(storage.log.segments) < 2:
        append(storage.log, records(1, timestamp=10, value=bytes(110)))
    storage.checkpoint()
    names = [f"{TP}/{0:020d}{suffix}" for suffix in (".index", ".timeindex")]
    expected = [storage.disk.read_file(name) for name in names]
    storage.lose_power()
    assert all(expected)
    assert [storage.disk.read_file(name) for name in names] == expected


def test_recovery_rewrites_nothing_below_the_recovery_point() -> None:
    storage = SimulatedStorage()
    storage.append(5)
    storage.checkpoint()
    size = storage.log.size_bytes
    storage.append(3)
    added = storage.log.size_bytes - size
    storage.recover()
    assert storage.disk.rewrites == [(LOG, size, added)]


def test_a_start_after_a_clean_stop_rewrites_nothing() -> None:
    storage = SimulatedStorage()
    storage.append(5)
    storage.restart()
    assert storage.log.end_offset == 5
    assert storage.disk.rewrites == []


@pytest.mark.parametrize("left", [0, 1, 11, 12, 60, 61, 62, 100])
def test_a_torn_tail_is_cut_at_the_first_bad_batch(
    left: int, caplog: pytest.LogCaptureFixture
) -> None:
    storage = SimulatedStorage()
    storage.append(3)
    storage.append(2)
    size = storage.log.size_bytes
    storage.append(4, codec=0)
    storage.kill()
    storage.disk.cut(LOG, size + left)
    with caplog.at_level(logging.WARNING):
        storage.open()
    assert storage.log.end_offset == 5
    assert storage.disk.open(LOG).size == size
    if left:
        cut = next(line for line in caplog.records if line.message == "torn tail truncated")
        fields = cut.__dict__["fields"]
        assert (fields["from_offset"], fields["bytes"]) == (5, left)
    assert storage.append().base_offset == 5


def storage_with_three_segments() -> SimulatedStorage:
    """Nine batches of one record in three segments."""
    storage = SimulatedStorage(LogConfig(segment_bytes=600))
    for _ in range(9):
        append(storage.log, records(1, value=bytes(110)))
    assert storage.log.segments.base_offsets == [0, 3, 6]
    return storage


def test_a_bad_batch_above_the_recovery_point_ends_the_log() -> None:
    """Unsynced pages reach the disk in any order, so later batches may be lost too."""
    storage = storage_with_three_segments()
    storage.kill()
    storage.disk.overwrite(f"{TP}/{3:020d}.log", 250, b"?")
    storage.open()
    assert storage.log.end_offset == 4
    assert storage.log.segments.base_offsets == [0, 3]
    assert not [name for name in storage.disk.list(str(TP)) if name.startswith(f"{6:020d}")]


def test_a_missing_segment_ends_the_log_before_it() -> None:
    storage = storage_with_three_segments()
    storage.kill()
    storage.disk.remove(f"{TP}/{3:020d}.log")
    storage.open()
    assert (storage.log.end_offset, storage.log.segments.base_offsets) == (3, [0])


def test_zeros_at_the_end_are_cut() -> None:
    storage = SimulatedStorage()
    storage.append(3)
    file = storage.disk.open(LOG)
    file.append([bytes(5_000)])
    storage.recover()
    assert storage.log.end_offset == 3


def test_an_old_batch_after_a_new_one_is_truncated() -> None:
    storage = SimulatedStorage()
    storage.append(3)
    file = storage.disk.open(LOG)
    first = file.read(0, file.size)
    storage.append(2)
    file.append([first])
    storage.recover()
    assert storage.log.end_offset == 5


def test_recovery_does_not_read_below_the_recovery_point() -> None:
    storage = SimulatedStorage(LogConfig(segment_bytes=200_000))
    for number in range(310):
        if number == 300:
            storage.checkpoint()
        append(
            storage.log,
            records(1, timestamp=storage.now_ms + number, value=bytes(3_000)),
            producer_id=1,
            producer_epoch=0,
            base_sequence=number,
        )
    storage.kill()
    storage.disk.reads.clear()
    storage.open()
    assert storage.log.end_offset == 310
    bytes_read = sum(length for path, _, length in storage.disk.reads if path.endswith(".log"))
    assert bytes_read < 10 * 3_100 + 3 * 8_192 + 3 * 3_100


def test_recovery_restores_the_producer_state() -> None:
    storage = SimulatedStorage(LogConfig(segment_bytes=600))
    sequences = {1: 0, 2: 0, 3: 0}
    for number in range(30):
        producer = number % 3 + 1
        append(
            storage.log,
            records(2, timestamp=storage.now_ms, value=bytes(20)),
            producer_id=producer,
            producer_epoch=0,
            base_sequence=sequences[producer],
        )
        sequences[producer] += 2
        if number == 13:
            storage.checkpoint()
    live = dict(storage.log.producer_states.states)
    storage.recover()
    assert storage.log.producer_states.states == live
    storage.restart()
    assert storage.log.producer_states.states == live


def test_a_duplicate_is_recognised_across_a_clean_stop() -> None:
    storage = SimulatedStorage()
    for sequence in range(5):
        storage.append(producer_id=1, producer_epoch=0, base_sequence=sequence)
    storage.restart()
    for sequence in range(5):
        again = storage.append(producer_id=1, producer_epoch=0, base_sequence=sequence)
        assert (again.base_offset, again.duplicate) == (sequence, True)


def test_expired_producers_are_not_loaded() -> None:
    storage = SimulatedStorage(LogConfig(producer_id_expiration_ms=1_000))
    storage.append(producer_id=1, producer_epoch=0, base_sequence=0)
    storage.restart()
    assert len(storage.log.producer_states) == 1
    storage.restart()
    storage.schedule.run_for(1_000)
    assert len(storage.log.producer_states) == 0


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_producer_of_old_records_does_not_expire_at_a_start(is_clean: bool) -> None:
    storage = SimulatedStorage(LogConfig(producer_id_expiration_ms=1_000))
    last_year_ms = storage.now_ms - 365 * 86_400_000
    batch = records(1, timestamp=last_year_ms)
    append(storage.log, batch, producer_id=1, producer_epoch=0, base_sequence=0)
    storage.schedule.run_for(900)
    if is_clean:
        storage.restart()
    else:
        storage.recover()
    again = append(storage.log, batch, producer_id=1, producer_epoch=0, base_sequence=0)
    assert again.duplicate


def test_inactive_producers_expire_while_the_broker_runs() -> None:
    storage = SimulatedStorage(LogConfig(producer_id_expiration_ms=1_000_000))
    storage.append(producer_id=1, producer_epoch=0, base_sequence=0)
    storage.schedule.run_for(600_001)
    assert len(storage.log.producer_states) == 1
    storage.schedule.run_for(600_001)
    assert len(storage.log.producer_states) == 0


def test_recovery_rebuilds_identical_indexes() -> None:
    storage = SimulatedStorage(LogConfig(segment_bytes=2_000, index_interval_bytes=200))
    for number in range(60):
        append(storage.log, records(1, timestamp=storage.now_ms + number % 7, value=bytes(70)))
    storage.restart()
    before = {
        name: storage.disk.read_file(f"{TP}/{name}")
        for name in storage.disk.list(str(TP))
        if name.endswith("index")
    }
    storage.kill()
    for name in before:
        storage.disk.remove(f"{TP}/{name}")
    storage.disk.remove("recovery-point-offset-checkpoint")
    storage.open()
    storage.restart()
    after = {
        name: storage.disk.read_file(f"{TP}/{name}")
        for name in storage.disk.list(str(TP))
        if name.endswith("index")
    }
    assert after == before


def test_recovery_restores_the_leader_epochs() -> None:
    storage = SimulatedStorage(LogConfig(segment_bytes=500))
    for epoch in (0, 0, 2, 5, 5, 9):
        append(storage.log, records(2, value=bytes(50)), epoch=epoch)
    live = storage.log.epochs.entries
    storage.recover()
    assert storage.log.epochs.entries == live


def test_an_epoch_whose_batches_were_lost_is_removed() -> None:
    storage = SimulatedStorage()
    append(storage.log, records(2), epoch=1)
    storage.flush()
    append(storage.log, records(2), epoch=2)
    storage.kill()
    storage.disk.cut(LOG, storage.log.size_bytes // 2)
    storage.open()
    assert (storage.log.end_offset, storage.log.epochs.entries) == (2, ((1, 0),))


def test_files_of_interrupted_writes_are_removed() -> None:
    storage = SimulatedStorage()
    storage.append()
    for name in ("00000000000000000000.snapshot.3.tmp", "00000000000000000009.log.deleted"):
        storage.disk.open(f"{TP}/{name}", create=True)
    storage.disk.open(f"{TP}/00000000000000000077.index", create=True)
    storage.recover()
    names = storage.disk.list(str(TP))
    assert not [name for name in names if name.endswith((".tmp", ".deleted"))]
    assert "00000000000000000077.index" not in names
