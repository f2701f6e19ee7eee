"""The log cleaner meets damage, which stays, and failures that pass."""

import logging
from collections.abc import Callable

import pytest

from sawlog.core.ports import DiskError, TooManyOpenFiles
from sawlog.protocol.record_batch import HEADER_SIZE, batches_in, encode_batch
from sawlog.storage.log import Log
from sawlog.storage.segment_swap import RETRY_MS
from support.storage.compaction import (
    BACKOFF_MS,
    OTHER,
    CompactedStorage,
    assert_compacted,
    compacted,
    contents,
    dirty_storage,
    latest,
)
from support.storage.logs import TP

FIRST_LOG = "topic-0/00000000000000000000.log"


def reasons(caplog: pytest.LogCaptureFixture) -> str:
    """The reasons in all lines of the log."""
    return "\n".join(str(line.__dict__["fields"].get("reason")) for line in caplog.records)


# Damage


def batch_positions(log: Log, number: int = 0) -> list[int]:
    segment = log.segments[number]
    return [position for position, _ in segment.batches_from(0)]


def assert_uncleanable(storage: CompactedStorage, caplog: pytest.LogCaptureFixture) -> None:
    """Assert that the damage is reported once, that no byte changes, and that the other log is
    cleaned."""
    other = storage.directory.logs[OTHER]
    files = {name: storage.disk.read_file(f"{TP}/{name}") for name in storage.names(".log")}
    with caplog.at_level(logging.WARNING):
        storage.schedule.run_for(4 * BACKOFF_MS)
    cleaner = storage.directory.cleaner
    assert list(cleaner.uncleanable) == [storage.log]
    assert cleaner.uncleanable_bytes == storage.log.size_bytes
    assert cleaner.totals.failures == 1
    reports = [message for message in caplog.messages if "not cleaned" in message]
    assert len(reports) == 1, reports
    assert {n: storage.disk.read_file(f"{TP}/{n}") for n in storage.names(".log")} == files
    assert storage.names(".cleaned", ".swap", ".deleted") == []
    assert_compacted(contents(other), other.segments.active.base_offset)
    assert storage.directory.offline is None


@pytest.fixture
def damaged() -> CompactedStorage:
    """A storage with two dirty logs, one of which a test damages."""
    storage = CompactedStorage()
    storage.fill(40)
    storage.fill(30, log=storage.other_log())
    storage.settle()
    return storage


@pytest.mark.parametrize("segment", [0, 2])
@pytest.mark.parametrize("within", [8, 16, 17, 21, 23, 57, 61, 70])
def test_a_flipped_byte_stops_the_cleaning_of_its_log(
    damaged: CompactedStorage, segment: int, within: int, caplog: pytest.LogCaptureFixture
) -> None:
    path = damaged.log.segments[segment].file.path
    position = batch_positions(damaged.log, segment)[1] + within
    byte = damaged.disk.read_file(path)[position]
    damaged.disk.overwrite(path, position, bytes([byte ^ 0xFF]))
    base_offset = damaged.log.segments[segment].base_offset
    assert_uncleanable(damaged, caplog)
    assert damaged.directory.cleaner.damaged_from == {damaged.log: base_offset}
    damaged.log.truncate(base_offset)
    assert not damaged.directory.cleaner.uncleanable, "the damage is gone"


@pytest.mark.parametrize("batch", [0, 1, -1])
@pytest.mark.parametrize("segment", [0, 2, -2])
@pytest.mark.parametrize("within", [3, 4, 7])
def test_a_flipped_base_offset_stops_the_cleaning_of_its_log(
    damaged: CompactedStorage,
    segment: int,
    batch: int,
    within: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The CRC does not cover the base offset."""
    path = damaged.log.segments[segment].file.path
    position = batch_positions(damaged.log, segment)[batch] + within
    byte = damaged.disk.read_file(path)[position]
    damaged.disk.overwrite(path, position, bytes([byte ^ 0x40]))
    assert_uncleanable(damaged, caplog)


def test_damage_in_the_clean_part_is_found(caplog: pytest.LogCaptureFixture) -> None:
    storage = CompactedStorage()
    storage.fill(40, keys=100)
    storage.settle()
    storage.clean()
    storage.fill(20, keys=100, first=40)
    storage.settle()
    segment = storage.log.segments[1]
    last = batch_positions(storage.log, 1)[-1]
    storage.disk.overwrite(segment.file.path, last + 6, b"\x7f")  # of the base offset
    before = {name: storage.disk.read_file(f"{TP}/{name}") for name in storage.names(".log")}
    with caplog.at_level(logging.ERROR):
        storage.clean()
    assert list(storage.directory.cleaner.uncleanable) == [storage.log]
    assert reasons(caplog).startswith(segment.file.path)
    assert reasons(caplog).endswith(f"at position {last}")
    damaged_file = segment.file.path.split("/")[1]
    assert storage.disk.read_file(f"{TP}/{damaged_file}") == before[damaged_file]


def test_unreadable_records_in_a_sound_batch_stop_the_cleaning(
    damaged: CompactedStorage, caplog: pytest.LogCaptureFixture
) -> None:
    data = damaged.disk.read_file(FIRST_LOG)
    position, header = list(batches_in(data))[2]
    body = bytearray(data[position + HEADER_SIZE : position + header.size])
    body[0] ^= 0x10  # the length of the first record
    damaged.disk.overwrite(FIRST_LOG, position, bytes(encode_batch(header, body)))
    assert_uncleanable(damaged, caplog)
    (reason,) = damaged.directory.cleaner.uncleanable.values()
    assert f"at position {position}" in reason
    assert f"the batch at offset {header.base_offset}" in reason
    assert not damaged.directory.cleaner.damaged_from, "all replicas have the same bytes"


def test_the_reported_position_is_that_in_the_file() -> None:
    storage = CompactedStorage(compacted(segment_bytes=8_000), io_buffer_size=2_048)
    storage.fill(200)
    storage.settle()
    data = storage.disk.read_file(FIRST_LOG)
    position, header = list(batches_in(data))[40]
    assert position > 3_000, "beyond the first chunks"
    broken = encode_batch(header, b"\xff" * (header.size - HEADER_SIZE))
    storage.disk.overwrite(FIRST_LOG, position, bytes(broken))
    storage.clean()
    (reason,) = storage.directory.cleaner.uncleanable.values()
    assert f"{FIRST_LOG}: the batch at offset {header.base_offset}: " in reason
    assert reason.endswith(f"at position {position}")


def test_a_damaged_log_is_tried_again_after_a_restart(
    damaged: CompactedStorage, caplog: pytest.LogCaptureFixture
) -> None:
    position = batch_positions(damaged.log)[1] + 30
    byte = damaged.disk.read_file(FIRST_LOG)[position : position + 1]
    damaged.disk.overwrite(FIRST_LOG, position, bytes([byte[0] ^ 1]))
    assert_uncleanable(damaged, caplog)
    damaged.disk.overwrite(FIRST_LOG, position, byte)
    damaged.restart()
    damaged.clean()
    assert damaged.directory.cleaner.uncleanable == {}
    assert_compacted(contents(damaged.log), damaged.log.segments.active.base_offset)


def test_a_deleted_log_is_not_uncleanable_any_more(
    damaged: CompactedStorage, caplog: pytest.LogCaptureFixture
) -> None:
    damaged.disk.overwrite(FIRST_LOG, 30, b"\xff\xff\xff")
    assert_uncleanable(damaged, caplog)
    damaged.directory.delete(TP)
    assert damaged.directory.cleaner.uncleanable == {}


# Failures that pass


@pytest.mark.parametrize("free_bytes", [0, 50, 150])
def test_a_full_disk_leaves_the_log_as_it_was_and_a_later_attempt_succeeds(
    free_bytes: int,
) -> None:
    storage = dirty_storage()
    before = contents(storage.log)
    storage.begin_cleaning()
    storage.disk.free_bytes = free_bytes
    storage.end_cleaning()
    cleaner = storage.directory.cleaner
    assert (cleaner.totals.cleanings, cleaner.totals.failures) == (0, 1)
    assert latest(contents(storage.log)) == latest(before), "some segments may be cleaned"
    assert "cleaner-offset-checkpoint" not in storage.disk.list("")
    assert storage.names(".cleaned", ".swap") == []
    assert (storage.directory.offline, cleaner.uncleanable) == (None, {})
    storage.disk.free_bytes = None
    storage.clean()
    assert cleaner.totals.cleanings == 1
    assert latest(contents(storage.log)) == latest(before)


def test_a_log_that_fails_does_not_keep_the_others_from_being_cleaned(
    damaged: CompactedStorage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log, other = damaged.log, damaged.directory.logs[OTHER]
    original = damaged.disk.open

    def fail_for_one(path: str, *, create: bool = False) -> object:
        if path.startswith(str(OTHER)) and path.endswith(".cleaned"):
            raise DiskError(path, "failed on demand")
        return original(path, create=create)

    monkeypatch.setattr(damaged.disk, "open", fail_for_one)
    damaged.begin_cleaning(other)  # it is the first of two logs that are equally dirty
    with caplog.at_level(logging.WARNING):
        damaged.schedule.run_for(0)
    assert "failed on demand" in reasons(caplog)
    assert_compacted(contents(log), log.segments.active.base_offset)
    assert damaged.directory.cleaner.totals.failures == 1, "one attempt at each look"
    monkeypatch.undo()
    damaged.clean()
    assert_compacted(contents(other), other.segments.active.base_offset)


def test_a_file_that_is_missing_fails_the_attempt(caplog: pytest.LogCaptureFixture) -> None:
    storage = dirty_storage()
    storage.begin_cleaning()
    storage.disk.rename(FIRST_LOG, "topic-0/elsewhere")
    with caplog.at_level(logging.WARNING):
        storage.end_cleaning()
    assert "the file is missing" in reasons(caplog)
    assert storage.directory.cleaner.totals.failures == 1


def test_lack_of_descriptors_while_looking_is_not_damage(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    storage = CompactedStorage(compacted(max_compaction_lag_ms=1_000))
    storage.fill(40)
    storage.settle()
    storage.restart()
    file_type = type(storage.log.segments[0].file)

    def fail(*_: object) -> bytes:
        raise TooManyOpenFiles("topic-0", "too many open files")

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(file_type, "read", fail)
        storage.schedule.run_for(BACKOFF_MS)
    assert "too many open files" in reasons(caplog)
    assert storage.directory.cleaner.uncleanable == {}
    storage.clean()
    assert storage.directory.cleaner.totals.cleanings == 1


def test_producers_that_cannot_be_loaded_fail_the_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = dirty_storage()
    storage.begin_cleaning()

    def fail(_: Log) -> None:
        raise TooManyOpenFiles("topic-0", "too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(Log, "_load_producers", fail)
        storage.end_cleaning()
    cleaner = storage.directory.cleaner
    assert (cleaner.totals.failures, cleaner.is_cleaning(storage.log)) == (1, False)
    storage.clean()
    assert cleaner.totals.cleanings == 1


def test_a_directory_sync_without_a_descriptor_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = dirty_storage()
    before = latest(contents(storage.log))
    original, attempts = storage.disk.sync_directory_later, [0]

    def fail_every_other(path: str, done: Callable[[DiskError | None], None]) -> None:
        attempts[0] += 1
        if attempts[0] % 2:
            error = TooManyOpenFiles(path, "too many open files")
            storage.schedule.soon(lambda: done(error))
        else:
            original(path, done)

    storage.begin_cleaning()
    monkeypatch.setattr(storage.disk, "sync_directory_later", fail_every_other)
    began_ms = storage.schedule.monotonic_ms()
    storage.end_cleaning()
    assert attempts[0] >= 6
    assert storage.schedule.monotonic_ms() - began_ms >= 3 * RETRY_MS
    assert storage.directory.offline is None
    assert storage.directory.cleaner.totals.cleanings == 1
    assert latest(contents(storage.log)) == before


def test_a_failed_sync_during_the_swap_takes_the_directory_offline() -> None:
    storage = dirty_storage()
    before = latest(contents(storage.log))
    storage.begin_cleaning()
    assert storage.schedule.run(lambda: bool(storage.names(".swap")))
    storage.disk.fails_syncs = True
    storage.schedule.run_for(0)
    assert storage.directory.offline is not None
    assert not storage.directory.cleaner.is_cleaning(storage.log)
    storage.disk.fails_syncs = False
    storage.recover()
    assert latest(contents(storage.log)) == before
    storage.clean()
    assert latest(contents(storage.log)) == before


def test_a_failure_of_any_disk_operation_loses_nothing() -> None:
    """The directory goes offline only if the log's own files may not be what it thinks."""
    offline = number = 0
    while True:
        number += 1
        storage = dirty_storage()
        live = latest(contents(storage.log))
        storage.begin_cleaning()
        storage.disk.fail_at = storage.disk.operations + number
        storage.end_cleaning()
        if storage.disk.operations < storage.disk.fail_at:
            break
        assert latest(contents(storage.log)) == live, number
        if storage.directory.offline is None:
            storage.clean()
            assert storage.directory.cleaner.totals.cleanings == 1, number
            assert_compacted(contents(storage.log), storage.log.segments.active.base_offset)
        else:
            offline += 1
        storage.recover()
        assert latest(contents(storage.log)) == live, number
        assert storage.names(".cleaned", ".swap", ".deleted") == []
    assert number > 50
    assert 0 < offline < number / 2
