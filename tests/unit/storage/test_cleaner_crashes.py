"""Crashes around the log cleaner, with the state that they leave for the next start."""

import dataclasses

import pytest

from sawlog.protocol.record_batch import batches_in
from sawlog.protocol.records import Record, iterate
from sawlog.storage.cleaner.log_cleaner import CleanerConfig
from sawlog.storage.log_config import LogConfig
from sawlog.storage.log_files import CLEANER_OFFSETS, RECOVERY_POINTS, SWAP
from support.storage.logs import TP, SimulatedStorage, append, headers_in, read, records

CONFIG = LogConfig(
    segment_bytes=300,
    cleanup_policy=frozenset({"compact"}),
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=20_000,
)
CLEANER = CleanerConfig(backoff_ms=100)


def write(storage: SimulatedStorage, *entries: tuple[bytes, bytes | None]) -> None:
    """Append one batch per record, which is as large as half a segment, and commit it."""
    for key, value in entries:
        padding = (("padding", bytes(100)),)
        append(storage.log, [Record(0, storage.now_ms, key, value, padding)])
    storage.flush()
    storage.log.set_high_watermark(storage.log.end_offset)
    storage.directory.checkpoint_later()


def left(storage: SimulatedStorage) -> dict[bytes | None, bytes | None]:
    """The last value of each key, read from the start of the log."""
    found: dict[bytes | None, bytes | None] = {}
    offset = storage.log.start_offset
    while (piece := read(storage.log, offset)) is not None:
        data = piece.read()
        for position, header in batches_in(data):
            for record in iterate(data[position:], max_decompressed_bytes=1 << 20):
                found[record.key] = record.value
            offset = header.next_offset
    return found


def test_the_checkpoint_of_a_deleted_log_does_not_count_for_the_next_of_its_name() -> None:
    """A new log that counted as clean would lose a tombstone whose key still has a value."""
    storage = SimulatedStorage(CONFIG, cleaner=CLEANER)
    write(storage, *[(b"old", b"%d" % number) for number in range(8)])
    storage.schedule.run_for(1_000)
    assert storage.disk.exists(CLEANER_OFFSETS)
    storage.directory.delete(TP)
    storage.recover()  # before the checkpoint without the log was written
    write(storage, (b"k", b"value"), (b"k", None), *[(b"%d" % n, b"v") for n in range(8)])
    storage.recover()
    for _ in range(4):
        write(storage, (b"x", b"1"), (b"x", b"2"))
        storage.schedule.run_for(CONFIG.delete_retention_ms)
    assert b"k" not in left(storage)


@pytest.mark.parametrize("seed", range(8))
def test_an_offline_directory_is_not_touched_by_the_end_of_a_cleaning(seed: int) -> None:
    """The failed sync is that of the log or of the swap, depending on the seed."""
    storage = SimulatedStorage(CONFIG, seed=seed, cleaner=CLEANER)
    write(storage, *[(b"k", b"%d" % number) for number in range(8)])
    cleaner = storage.directory.cleaner
    assert storage.schedule.run(lambda: any(SWAP in name for name in storage.disk.list(str(TP))))
    assert cleaner.is_cleaning(storage.log)
    append(storage.log, records(1))
    names = storage.disk.list(str(TP))
    storage.disk.fails_syncs = True
    storage.log.flush.when_flushed(lambda _: None)
    assert storage.schedule.run(lambda: storage.directory.offline is not None)
    assert not cleaner.is_cleaning(storage.log)
    storage.disk.fails_syncs = False
    storage.schedule.run_for(10_000)
    assert storage.disk.list(str(TP)) == names
    storage.recover()
    assert left(storage)[b"k"] == b"7"


def test_a_later_unflushed_segment_does_not_survive_an_earlier_one() -> None:
    """Recovery does not take a hole above the recovery point for the work of compaction."""
    for seed in range(60):
        storage = SimulatedStorage(CONFIG, seed=seed, cleaner=CLEANER)
        producer: dict[str, object] = {"producer_id": 1, "producer_epoch": 0}
        for number in range(6):
            content = [Record(0, storage.now_ms, b"%d" % number, bytes(100))]
            append(storage.log, content, base_sequence=number, **producer)
        storage.lose_power()
        storage.open()
        assert list(left(storage)) == [b"%d" % number for number in range(storage.log.end_offset)]


def test_lost_recovery_points_do_not_make_the_gaps_of_compaction_lost_data() -> None:
    storage = SimulatedStorage(CONFIG, cleaner=CLEANER)
    write(storage, *[(b"k", b"%d" % number) for number in range(8)], (b"l", b"1"), (b"k", b"end"))
    storage.schedule.run_for(1_000)
    storage.config = dataclasses.replace(CONFIG, cleanup_policy=frozenset({"delete"}))
    storage.kill()
    storage.disk.remove(RECOVERY_POINTS)
    storage.open()
    assert left(storage) == {b"k": b"end", b"l": b"1"}


def test_records_that_a_reader_missed_do_not_come_back_after_a_power_loss() -> None:
    config = dataclasses.replace(CONFIG, segment_bytes=1_200, file_delete_delay_ms=0)
    for seed in range(60):
        storage = SimulatedStorage(config, seed=seed, cleaner=CLEANER)
        cleaner, log = storage.directory.cleaner, storage.log
        write(storage, (b"a", b"1"), *[(b"k", b"%d" % number) for number in range(30)])
        storage.schedule.run_for(1_000)
        write(storage, *[(b"z", b"%d" % number) for number in range(12)], (b"k", b"end"))
        assert storage.schedule.run(lambda cleaner=cleaner, log=log: cleaner.is_cleaning(log))
        for _ in range(seed % 12):
            storage.schedule.step()
        before = offsets(storage)
        storage.lose_power()
        storage.open()
        assert offsets(storage) <= before


def offsets(storage: SimulatedStorage) -> set[int]:
    return {header.base_offset for header in headers_in(storage.log) if header.count}
