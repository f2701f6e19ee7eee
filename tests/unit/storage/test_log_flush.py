"""Flushes of a log: what they cover, failed fsyncs, and a full disk."""

from collections.abc import Callable

import pytest

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ports import DiskError, TooManyOpenFiles
from sawlog.simulation.simulated_disk import SimulatedFile
from sawlog.storage import checkpointer
from sawlog.storage.log_config import LogConfig
from support.storage.logs import TP, SimulatedStorage, append, read, records


def test_a_flush_covers_all_earlier_appends() -> None:
    storage = SimulatedStorage()
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
    storage = SimulatedStorage()
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


def test_a_flush_with_nothing_to_sync_completes() -> None:
    storage = SimulatedStorage()
    assert storage.flush() is None
    storage.append()
    assert storage.flush() is None
    assert storage.flush() is None


def test_a_flush_covers_rolled_segments_and_their_directory_entries() -> None:
    storage = SimulatedStorage(LogConfig(segment_bytes=300))
    for _ in range(5):
        storage.append(1, codec=0)
        append(storage.log, records(1, value=bytes(200)))
    assert len(storage.log.segments) > 3
    assert storage.flush() is None
    storage.lose_power()
    storage.open()
    assert storage.log.end_offset == 10


def test_batches_appended_after_a_truncation_are_not_covered_by_an_earlier_flush() -> None:
    storage = SimulatedStorage()
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
    storage = SimulatedStorage()
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


def test_all_waiters_get_the_error_of_a_failed_fsync() -> None:
    storage = SimulatedStorage()
    storage.append()
    outcomes: list[DiskError | None] = []
    storage.log.flush.when_flushed(outcomes.append)
    storage.append()
    storage.log.flush.when_flushed(outcomes.append)
    storage.disk.fails_syncs = True
    assert storage.schedule.run(lambda: len(outcomes) == 2)
    assert all(isinstance(error, DiskError) for error in outcomes)


def test_a_stop_after_a_failed_fsync_is_not_clean() -> None:
    storage = SimulatedStorage()
    storage.append(3)
    storage.disk.fails_syncs = True
    storage.directory.close_cleanly()
    storage.disk.fails_syncs = False
    storage.recover()
    assert not storage.directory.was_clean


def test_a_flush_without_descriptors_can_be_retried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = SimulatedStorage()
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


def test_a_segment_rolled_during_a_flush_without_descriptors_is_synced_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = SimulatedStorage(LogConfig(segment_bytes=1_000))
    append(storage.log, records(1, value=bytes(300)))
    outcomes: list[DiskError | None] = []

    def refuse(path: str, done: Callable[[DiskError], None]) -> None:
        storage.schedule.after(5, lambda: done(TooManyOpenFiles(path, "too many")))

    with monkeypatch.context() as patch:
        patch.setattr(storage.disk, "sync_directory_later", refuse)
        storage.log.flush.when_flushed(outcomes.append)
        for _ in range(8):
            append(storage.log, records(1, value=bytes(300)))
        assert storage.schedule.run(lambda: bool(outcomes))
    assert isinstance(outcomes[0], TooManyOpenFiles)
    assert len(storage.log.segments) > 3
    assert storage.flush() is None
    storage.lose_power()
    storage.open()
    assert storage.log.end_offset == 9


@pytest.mark.parametrize("failing", [0, 1])
def test_a_lack_of_descriptors_does_not_hide_a_failed_fsync(
    failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = SimulatedStorage(LogConfig(segment_bytes=300))
    synced: list[str] = []

    def fail(self: SimulatedFile, done: Callable[[DiskError], None]) -> None:
        kind = DiskError if len(synced) == failing else TooManyOpenFiles
        synced.append(self.path)
        storage.schedule.after(len(synced), lambda: done(kind(self.path, "failed on request")))

    monkeypatch.setattr(SimulatedFile, "sync_later", fail)
    for _ in range(2):
        append(storage.log, records(1, value=bytes(200)))
    storage.flush()
    assert len(synced) > 1
    assert storage.directory.offline is not None
    assert storage.directory.offline.path == synced[failing]


def test_a_failed_write_takes_the_directory_offline() -> None:
    storage = SimulatedStorage()
    storage.append(3)
    storage.disk.fail_at = storage.disk.operations + 1
    with pytest.raises(KafkaError) as error:
        storage.append()
    assert error.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert storage.directory.offline is not None
    assert storage.log.end_offset == 3


def test_a_failed_fsync_stops_all_logs_of_the_directory() -> None:
    storage = SimulatedStorage()
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


def test_a_full_disk_rejects_appends_and_serves_reads() -> None:
    storage = SimulatedStorage()
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


def test_a_rejected_append_does_not_advance_the_sequence() -> None:
    storage = SimulatedStorage()
    batch: dict[str, object] = {"producer_id": 1, "producer_epoch": 0}
    storage.append(base_sequence=0, **batch)
    storage.disk.free_bytes = 0
    with pytest.raises(KafkaError):
        storage.append(base_sequence=1, **batch)
    storage.disk.free_bytes = None
    assert not storage.append(base_sequence=1, **batch).duplicate


@pytest.mark.parametrize("appended", [0, 1], ids=["new", "known"])
def test_batches_after_a_rejected_one_get_the_same_error_until_it_is_repeated(
    appended: int,
) -> None:
    """With OUT_OF_ORDER_SEQUENCE_NUMBER librdkafka begins a new producer epoch, and repeats batches
    of other partitions that are in doubt."""
    storage = SimulatedStorage()
    storage.append()
    batch: dict[str, object] = {"producer_id": 1, "producer_epoch": 0}
    for sequence in range(appended):
        storage.append(base_sequence=sequence, **batch)
    storage.disk.free_bytes = 0
    with pytest.raises(KafkaError):
        storage.append(base_sequence=appended, **batch)
    storage.disk.free_bytes = None
    for sequence in (appended + 1, appended + 2):
        with pytest.raises(KafkaError, match="was refused") as error:
            storage.append(base_sequence=sequence, **batch)
        assert error.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    storage.append(base_sequence=0, producer_id=1, producer_epoch=1)
    storage.append(base_sequence=1, producer_id=1, producer_epoch=1)
    with pytest.raises(KafkaError) as error:
        storage.append(base_sequence=7, producer_id=1, producer_epoch=1)
    assert error.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_rejected_batch_that_is_repeated_ends_the_refusal_of_those_after_it() -> None:
    storage = SimulatedStorage()
    storage.append()
    batch: dict[str, object] = {"producer_id": 1, "producer_epoch": 0}
    storage.disk.free_bytes = 0
    with pytest.raises(KafkaError):
        storage.append(base_sequence=0, **batch)
    storage.disk.free_bytes = None
    assert [storage.append(base_sequence=n, **batch).base_offset for n in range(3)] == [1, 2, 3]
    assert storage.append(base_sequence=1, **batch).duplicate
    with pytest.raises(KafkaError) as error:
        storage.append(base_sequence=5, **batch)
    assert error.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_roll_that_a_full_disk_rejects_changes_nothing() -> None:
    storage = SimulatedStorage(LogConfig(segment_bytes=300))
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
    storage = SimulatedStorage()
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


def test_checkpoints_on_a_full_disk_are_retried_at_the_interval(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(checkpointer, "LOGS_PER_ROUND", 2)
    storage = SimulatedStorage()
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


def test_a_start_with_an_old_start_offset_checkpoint_needs_no_disk_space() -> None:
    storage = SimulatedStorage(LogConfig(segment_bytes=300))
    for _ in range(10):
        append(storage.log, records(1, value=bytes(150)))
    storage.log.advance_start(3)
    storage.checkpoint()
    storage.log.advance_start(8)
    while storage.log.segments.base_offsets[0] < 8 or storage.log._remover:
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
