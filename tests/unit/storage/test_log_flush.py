"""Group commit: what a flush covers, who is told, and what a failed one does."""

from collections.abc import Callable

import pytest

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ports import DiskError, TooManyOpenFiles
from sawlog.simulation.simulated_disk import SimulatedFile
from sawlog.storage import checkpointer
from sawlog.storage.log_config import LogConfig
from support.storage.logs import TP, Storage, append, read, records


def test_a_flush_covers_what_was_appended_before_it() -> None:
    storage = Storage()
    log = storage.log
    storage.append(3)
    seen: list[tuple[str, int]] = []
    log.flush.when_flushed(lambda error: seen.append(("first", log.flushed_offset)))
    storage.append(2)
    log.flush.when_flushed(lambda error: seen.append(("second", log.flushed_offset)))
    log.flush.when_flushed(lambda error: seen.append(("third", log.flushed_offset)))
    assert not seen
    assert storage.schedule.run(lambda: len(seen) == 3)
    assert seen == [("first", 3), ("second", 5), ("third", 5)]


def test_waiters_share_one_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = Storage()
    storage.append()
    syncs: list[str] = []
    original = SimulatedFile.sync_later

    def counted(self: SimulatedFile, done: object) -> None:
        syncs.append(self.path)
        original(self, done)  # type: ignore[arg-type]

    monkeypatch.setattr(SimulatedFile, "sync_later", counted)
    done: list[object] = []
    for _ in range(10):
        storage.log.flush.when_flushed(done.append)
    storage.append()
    for _ in range(10):
        storage.log.flush.when_flushed(done.append)
    assert storage.schedule.run(lambda: len(done) == 20)
    assert len(syncs) == 2


def test_a_flush_of_nothing_is_answered_too() -> None:
    storage = Storage()
    assert storage.flush() is None
    storage.append()
    assert storage.flush() is None
    assert storage.flush() is None


def test_a_flush_covers_rolled_segments_and_their_directory_entries() -> None:
    storage = Storage(LogConfig(segment_bytes=300))
    for _ in range(5):
        storage.append(1, codec=0)
        append(storage.log, records(1, value=bytes(200)))
    assert len(storage.log.segments) > 3
    assert storage.flush() is None
    storage.lose_power()
    storage.open()
    assert storage.log.end_offset == 10


def test_what_was_truncated_is_not_called_flushed() -> None:
    storage = Storage()
    log = storage.log
    storage.append(5)
    storage.append(5)
    seen: list[int] = []
    log.flush.when_flushed(lambda error: seen.append(log.flushed_offset))
    log.truncate(5)
    storage.append(9)
    assert storage.schedule.run(lambda: bool(seen))
    assert seen == [5]
    assert log.end_offset == 14


def test_a_failed_fsync_takes_the_directory_offline_for_good() -> None:
    storage = Storage()
    storage.append(3)
    storage.flush()
    storage.append(2)
    storage.disk.fails_syncs = True
    assert isinstance(storage.flush(), DiskError)
    storage.disk.fails_syncs = False
    assert storage.directory.offline is not None
    assert storage.log.flushed_offset == 3
    with pytest.raises(KafkaError) as error:
        storage.append()
    assert error.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    operations = storage.disk.operations
    assert isinstance(storage.flush(), DiskError)
    storage.schedule.run_for(60_000)
    assert storage.disk.operations == operations, "nothing is written or synced any more"
    assert read(storage.log, 0) is not None, "reads go on"


def test_whoever_waits_behind_a_failed_fsync_is_told() -> None:
    storage = Storage()
    storage.append()
    told: list[DiskError | None] = []
    storage.log.flush.when_flushed(told.append)
    storage.append()
    storage.log.flush.when_flushed(told.append)
    storage.disk.fails_syncs = True
    assert storage.schedule.run(lambda: len(told) == 2)
    assert all(isinstance(error, DiskError) for error in told)


def test_a_clean_stop_is_not_claimed_after_a_failed_fsync() -> None:
    storage = Storage()
    storage.append(3)
    storage.disk.fails_syncs = True
    storage.directory.close_cleanly()
    storage.disk.fails_syncs = False
    storage.recover()
    assert not storage.directory.was_clean


def test_running_out_of_descriptors_fails_the_flush_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = Storage()
    storage.append(3)
    original = SimulatedFile.sync_later

    def refuse(self: SimulatedFile, done: object) -> None:
        storage.schedule.soon(lambda: done(TooManyOpenFiles(self.path, "too many")))  # type: ignore[operator]

    monkeypatch.setattr(SimulatedFile, "sync_later", refuse)
    assert isinstance(storage.flush(), TooManyOpenFiles)
    assert storage.directory.offline is None
    assert storage.log.flushed_offset == 0
    monkeypatch.setattr(SimulatedFile, "sync_later", original)
    assert storage.flush() is None
    assert storage.log.flushed_offset == 3


def test_running_out_of_descriptors_forgets_no_segment_that_rolls_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = Storage(LogConfig(segment_bytes=1_000))
    append(storage.log, records(1, value=bytes(300)))
    told: list[DiskError | None] = []

    def refuse(path: str, done: Callable[[DiskError], None]) -> None:
        storage.schedule.after(5, lambda: done(TooManyOpenFiles(path, "too many")))

    with monkeypatch.context() as patch:
        patch.setattr(storage.disk, "sync_directory_later", refuse)
        storage.log.flush.when_flushed(told.append)
        for _ in range(8):
            append(storage.log, records(1, value=bytes(300)))
        assert storage.schedule.run(lambda: bool(told))
    assert isinstance(told[0], TooManyOpenFiles)
    assert len(storage.log.segments) > 3
    assert storage.flush() is None
    storage.lose_power()
    storage.open()
    assert storage.log.end_offset == 9


@pytest.mark.parametrize("failing", [0, 1])
def test_running_out_of_descriptors_hides_no_failed_fsync(
    failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Storage(LogConfig(segment_bytes=300))
    asked: list[str] = []

    def fail(self: SimulatedFile, done: Callable[[DiskError], None]) -> None:
        kind = DiskError if len(asked) == failing else TooManyOpenFiles
        asked.append(self.path)
        storage.schedule.after(len(asked), lambda: done(kind(self.path, "failed, as told")))

    monkeypatch.setattr(SimulatedFile, "sync_later", fail)
    for _ in range(2):
        append(storage.log, records(1, value=bytes(200)))
    storage.flush()
    assert len(asked) > 1
    assert storage.directory.offline is not None
    assert storage.directory.offline.path == asked[failing]


def test_a_failed_write_takes_the_directory_offline() -> None:
    storage = Storage()
    storage.append(3)
    storage.disk.fail_at = storage.disk.operations + 1
    with pytest.raises(KafkaError) as error:
        storage.append()
    assert error.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert storage.directory.offline is not None
    assert storage.log.end_offset == 3


def test_other_logs_hear_of_the_failure_too() -> None:
    storage = Storage()
    storage.append()
    other = storage.directory.create(TP._replace(partition=1), TP_ID, storage.config)  # type: ignore[arg-type]
    append(other, records(1))
    storage.disk.fails_syncs = True
    storage.flush()
    with pytest.raises(KafkaError):
        append(other, records(1))
    assert isinstance(storage.flush(other), DiskError)


TP_ID = bytes(16)


# A full disk


def test_a_full_disk_refuses_appends_and_serves_reads() -> None:
    storage = Storage()
    storage.append(3)
    storage.flush()
    storage.disk.free_bytes = 50
    for _ in range(3):
        with pytest.raises(KafkaError) as error:
            storage.append()
        assert error.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (storage.log.end_offset, storage.directory.offline) == (3, None)
    assert read(storage.log, 0) is not None
    storage.disk.free_bytes = None
    assert storage.append().base_offset == 3
    assert storage.flush() is None
    storage.recover()
    assert storage.log.end_offset == 4


def test_a_full_disk_does_not_use_up_sequences() -> None:
    storage = Storage()
    batch: dict[str, object] = {"producer_id": 1, "producer_epoch": 0}
    storage.append(base_sequence=0, **batch)
    storage.disk.free_bytes = 0
    with pytest.raises(KafkaError):
        storage.append(base_sequence=1, **batch)
    storage.disk.free_bytes = None
    assert not storage.append(base_sequence=1, **batch).duplicate


def test_a_full_disk_stops_a_roll_without_harm() -> None:
    storage = Storage(LogConfig(segment_bytes=300))
    append(storage.log, records(1, value=bytes(200)))
    storage.disk.free_bytes = 0
    with pytest.raises(KafkaError):
        append(storage.log, records(1, value=bytes(200)))
    assert storage.log.segments.base_offsets == [0]
    storage.disk.free_bytes = None
    append(storage.log, records(1, value=bytes(200)))
    assert storage.log.segments.base_offsets == [0, 1]
    storage.restart()
    assert storage.log.end_offset == 2


def test_a_full_disk_only_delays_checkpoints() -> None:
    storage = Storage()
    storage.append(3)
    storage.flush()
    storage.disk.free_bytes = 0
    storage.checkpoint()
    assert storage.directory.offline is None
    storage.disk.free_bytes = None
    storage.checkpoint()
    storage.lose_power()
    storage.open()
    assert storage.log.flushed_offset == 3


def test_a_full_disk_delays_the_checkpoints_of_many_logs_without_hurry(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(checkpointer, "LOGS_PER_ROUND", 2)
    storage = Storage()
    for index in range(5):
        log = storage.directory.create(TP._replace(partition=index), TP_ID, storage.config)  # type: ignore[arg-type]
        append(log, records(1))
        storage.flush(log)
    storage.disk.free_bytes = 0
    assert storage.schedule.run(lambda: storage.schedule.monotonic_ms() >= 60_000, max_steps=1_000)
    assert 2 <= caplog.messages.count("checkpoint not written") <= 12
    storage.disk.free_bytes = None
    storage.schedule.run_for(5_001)
    storage.lose_power()
    storage.open()
    assert [log.flushed_offset for log in storage.directory.logs.values()] == [1] * 5


def test_a_full_disk_does_not_stop_a_start_behind_a_start_offset_that_was_not_written() -> None:
    storage = Storage(LogConfig(segment_bytes=300))
    for _ in range(10):
        append(storage.log, records(1, value=bytes(150)))
    storage.log.advance_start(3)
    storage.checkpoint()
    storage.log.advance_start(8)
    while storage.log.segments.base_offsets[0] < 8 or storage.log.is_removing:
        storage.disk.free_bytes = 0
        storage.schedule.step()
    storage.disk.free_bytes = 0
    assert b"topic 0 3\n" in storage.disk.read_file("log-start-offset-checkpoint")
    storage.recover()
    assert (storage.log.start_offset, storage.log.end_offset) == (8, 10)
    assert read(storage.log, 8) is not None
    storage.disk.free_bytes = None
    storage.append()
    storage.checkpoint()
    assert b"topic 0 8\n" in storage.disk.read_file("log-start-offset-checkpoint")
