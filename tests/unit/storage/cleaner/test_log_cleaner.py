"""The log cleaner on the simulated disk: rounds, restarts, damage and failures."""

import logging
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sawlog.protocol.record_batch import read_header
from sawlog.storage.cleaner.offset_map import ENTRY_BYTES
from support.storage.compaction import (
    BACKOFF_MS,
    CompactedStorage,
    assert_compacted,
    compacted,
    contents,
    dirty_storage,
    latest,
)
from support.storage.logs import TP, headers_in, read

FIRST_LOG = "topic-0/00000000000000000000.log"


def cleaned_up_to(storage: CompactedStorage) -> int:
    return int(storage.checkpointed.split()[-1])


# A round


def test_a_round_leaves_the_last_record_of_every_key() -> None:
    storage = dirty_storage()
    before, end_offset = contents(storage.log), storage.log.segments.active.base_offset
    storage.clean()
    after = contents(storage.log)
    assert latest(after) == latest(before)
    assert_compacted(after, end_offset)
    assert set(after) <= set(before), "no record has changed"
    assert storage.checkpointed == b"0\n1\ntopic 0 %d\n" % end_offset
    assert storage.names(".cleaned", ".swap") == []
    totals = storage.directory.cleaner.totals
    assert (totals.cleanings, totals.failures) == (1, 0)
    assert totals.records_removed == len(before) - len(after)


def test_a_clean_log_is_left_alone() -> None:
    storage = dirty_storage()
    storage.clean()
    operations = storage.disk.operations
    storage.schedule.run_for(3 * BACKOFF_MS)
    assert storage.directory.cleaner.totals.cleanings == 1
    assert storage.disk.operations <= operations + 4 * len(storage.log.segments), "only unlinks"


def test_small_segments_are_merged() -> None:
    storage = dirty_storage()
    storage.clean()
    storage.fill(10, first=40)
    storage.settle()
    before, segments = contents(storage.log), len(storage.log.segments)
    storage.clean()
    assert len(storage.log.segments) < segments
    assert latest(contents(storage.log)) == latest(before)
    for segment in storage.log.segments:
        assert segment.file.size <= storage.config.segment_bytes


def test_old_files_are_unlinked_after_the_delay() -> None:
    storage = dirty_storage()
    storage.begin_cleaning()
    storage.end_cleaning()
    assert len(storage.names(".log.deleted")) == 4
    storage.schedule.run_for(storage.config.file_delete_delay_ms)
    assert storage.names(".deleted") == []


def test_records_above_the_high_watermark_are_not_cleaned() -> None:
    storage = CompactedStorage()
    storage.fill(40)
    storage.settle()
    storage.log.set_high_watermark(20)
    bases = list(storage.log.segments.base_offsets)
    before = contents(storage.log)
    storage.clean()
    limit = max(base for base in bases if base <= 20)
    assert cleaned_up_to(storage) == limit
    after = contents(storage.log)
    assert [r for r in after if r.offset >= limit] == [r for r in before if r.offset >= limit]


def test_records_that_are_not_durable_are_flushed_first() -> None:
    storage = CompactedStorage()
    storage.fill(40)
    storage.log.set_high_watermark(storage.log.end_offset)
    storage.schedule.run_for(3 * BACKOFF_MS)
    assert storage.log.flushed_offset >= storage.log.segments.active.base_offset
    assert storage.directory.cleaner.totals.cleanings >= 1


def test_logs_with_another_policy_are_not_cleaned() -> None:
    storage = CompactedStorage(compacted(cleanup_policy=frozenset({"delete"})))
    storage.fill(40)
    storage.settle()
    storage.clean()
    assert storage.directory.cleaner.totals.cleanings == 0


def test_a_disabled_cleaner_cleans_nothing() -> None:
    storage = dirty_storage(enable=False)
    storage.clean()
    assert storage.directory.cleaner.totals.cleanings == 0


def test_a_cleaner_that_is_disabled_aborts_the_cleaning() -> None:
    storage = CompactedStorage()
    storage.fill(40)
    storage.settle()
    before = contents(storage.log)
    storage.begin_cleaning()
    assert storage.cleaner_config is not None
    storage.directory.cleaner.reconfigure(replace(storage.cleaner_config, enable=False))
    storage.clean()
    assert storage.directory.cleaner.totals.cleanings == 0
    assert contents(storage.log) == before
    assert storage.names(".cleaned", ".swap") == []


def test_a_map_that_is_too_small_needs_several_passes() -> None:
    storage = CompactedStorage(dedupe_buffer_size=10 * ENTRY_BYTES, io_buffer_load_factor=1.0)
    storage.fill(60, keys=40)
    storage.settle()
    before, end_offset = contents(storage.log), storage.log.segments.active.base_offset
    storage.clean()
    totals = storage.directory.cleaner.totals
    assert totals.cleanings >= 5
    after = contents(storage.log)
    assert latest(after) == latest(before)
    assert_compacted(after, end_offset)
    assert cleaned_up_to(storage) == end_offset


def test_a_map_of_one_key_makes_progress() -> None:
    storage = dirty_storage(30, dedupe_buffer_size=1)
    before, end_offset = contents(storage.log), storage.log.segments.active.base_offset
    storage.clean()
    assert cleaned_up_to(storage) == end_offset
    assert latest(contents(storage.log)) == latest(before)
    assert_compacted(contents(storage.log), end_offset)


def test_appends_during_a_cleaning_are_kept() -> None:
    storage = dirty_storage()
    storage.begin_cleaning()
    number = 40
    while storage.directory.cleaner.is_cleaning(storage.log):
        storage.fill(1, first=number)
        number += 1
        storage.schedule.step()
    model = CompactedStorage(compacted(cleanup_policy=frozenset({"delete"})))
    model.fill(number)
    assert {k: r.value for k, r in latest(contents(storage.log)).items()} == {
        k: r.value for k, r in latest(contents(model.log)).items()
    }


def test_tombstones_go_after_their_retention() -> None:
    retention_ms = 10 * BACKOFF_MS
    storage = CompactedStorage(compacted(delete_retention_ms=retention_ms))
    storage.put(("gone", "value"), ("kept", "value"))
    storage.put(("gone", None))
    storage.fill(20)
    storage.settle()
    storage.clean()
    found = [record.value for record in contents(storage.log) if record.key == b"gone"]
    assert found == [None], "the value is gone, the tombstone is not"
    storage.schedule.run_for(retention_ms)
    storage.fill(20, first=20)
    storage.settle()
    storage.clean()
    keys = {record.key for record in contents(storage.log)}
    assert b"gone" not in keys
    assert b"kept" in keys


def test_records_without_a_key_are_dropped_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    storage = CompactedStorage(compacted(cleanup_policy=frozenset({"delete"})))
    storage.put((None, "1"), (None, "2"), ("a", "1"))
    storage.fill(20)
    storage.settle()
    storage.log.reconfigure(compacted())
    with caplog.at_level(logging.WARNING):
        storage.clean()
    assert storage.directory.cleaner.totals.keyless_records == 2
    assert "records without a key removed" in caplog.text
    assert None not in {record.key for record in contents(storage.log)}
    assert b"a" in {record.key for record in contents(storage.log)}


WRITES = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.none() | st.text("xy", max_size=80)),
    min_size=1,
    max_size=60,
)
ROUNDS = st.lists(
    st.tuples(WRITES, st.sampled_from(["clean", "restart", "kill", "interrupt"])),
    min_size=1,
    max_size=4,
)


@settings(max_examples=60, deadline=None)
@given(ROUNDS, st.integers(0, 1_000), st.sampled_from([1, 3 * ENTRY_BYTES, 1 << 20]))
def test_writes_cleanings_and_restarts_equal_a_dictionary(
    rounds: list[tuple[list[tuple[str, str | None]], str]], seed: int, memory_bytes: int
) -> None:
    config = compacted(delete_retention_ms=BACKOFF_MS)
    storage = CompactedStorage(config, seed=seed, dedupe_buffer_size=memory_bytes)
    model: dict[bytes, bytes] = {}
    for writes, ending in rounds:
        for key, value in writes:
            storage.put((key, value))
            model.pop(key.encode(), None)
            if value is not None:
                model[key.encode()] = value.encode()
        storage.settle()
        if ending == "clean":
            storage.clean()
        elif ending == "restart":
            storage.clean()
            storage.restart()
        else:
            storage.schedule.run_for(BACKOFF_MS - 7_000)
            for _ in range(seed % 40):
                storage.schedule.step()
            storage.kill() if ending == "kill" else storage.lose_power()
            storage.open()
        found = latest(contents(storage.log))
        assert {key: record.value for key, record in found.items()} == model


# Reading what is left


def test_a_fetch_from_any_offset_returns_the_next_batch() -> None:
    storage = CompactedStorage()
    for number in range(20):
        storage.fill(3, first=3 * number)
        storage.put((f"unique-{number}", "value"), ("key-0", "value"))
    storage.settle()
    storage.clean()
    log = storage.log
    headers = headers_in(log)
    assert any(b.base_offset > a.next_offset for a, b in pairwise(headers)), "there are gaps"
    for offset in range(log.end_offset):
        expected = next(header for header in headers if header.last_offset >= offset)
        piece = read(log, offset, 1)
        assert piece is not None
        assert read_header(piece.read()) == expected, offset
    assert read(log, log.end_offset) is None


def test_the_log_is_the_same_after_a_restart() -> None:
    storage = dirty_storage()
    storage.clean()
    before = contents(storage.log)
    storage.restart()
    assert contents(storage.log) == before
    storage.recover()
    assert contents(storage.log) == before
    assert storage.directory.recovery.truncated_bytes == 0
    assert storage.directory.recovery.damaged_logs == 0


@pytest.mark.parametrize("is_restarted", [False, True])
def test_timestamps_are_found_after_a_cleaning(is_restarted: bool) -> None:
    storage = CompactedStorage()
    for number in range(40):
        storage.put((f"key-{number % 9}", f"value-{number}"))
        storage.schedule.run_for(10)
    start_ms = contents(storage.log)[0].timestamp
    storage.settle()
    storage.clean()
    if is_restarted:
        storage.restart()
    log = storage.log
    left = contents(log)
    for timestamp in range(start_ms - 1, left[-1].timestamp + 2, 3):
        expected = next((r for r in left if r.timestamp >= timestamp), None)
        found = log.offset_for_timestamp(timestamp, log.end_offset)
        assert (found and found.offset) == (expected and expected.offset), timestamp
        assert (found and found.timestamp) == (expected and expected.timestamp)


def test_a_timestamp_is_not_found_in_a_batch_without_records() -> None:
    storage = CompactedStorage()
    producer = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    storage.put(("a", "old"), **producer)
    at_ms = storage.now_ms
    storage.schedule.run_for(10)
    for number in range(20):
        storage.put(("a", f"new-{number}"))
    storage.settle()
    storage.clean()
    log = storage.log
    assert headers_in(log)[0].count == 0, "kept for its producer"
    found = log.offset_for_timestamp(at_ms, log.end_offset)
    assert found is not None
    assert found.offset == contents(log)[0].offset


def test_a_slice_of_a_replaced_segment_has_the_old_bytes() -> None:
    storage = dirty_storage()
    piece = read(storage.log, 0)
    assert piece is not None
    before = piece.read()
    storage.begin_cleaning()
    storage.end_cleaning()
    fresh = read(storage.log, 0)
    assert fresh is not None
    assert fresh.read() != before
    assert piece.read() == before
    storage.schedule.run_for(2 * storage.config.file_delete_delay_ms)
    assert piece.read() == before, "also after the file was unlinked"


@pytest.mark.parametrize("has_snapshots", [True, False])
def test_the_last_sequence_of_a_producer_is_recognised(has_snapshots: bool) -> None:
    storage = CompactedStorage()
    for number in range(4):
        producer = {"producer_id": 5, "producer_epoch": 1, "base_sequence": 2 * number}
        base_offset = storage.put(("a", f"{number}"), ("b", f"{number}"), **producer)
    for number in range(20):
        storage.put(("a", f"new-{number}"), ("b", f"new-{number}"))
    storage.settle()
    storage.clean()
    if not has_snapshots:
        for name in storage.names(".snapshot"):
            storage.disk.remove(f"{TP}/{name}")
    storage.recover()
    again = {"producer_id": 5, "producer_epoch": 1, "base_sequence": 6}
    end_offset = storage.log.end_offset
    assert storage.put(("a", "3"), ("b", "3"), **again) == base_offset, "a duplicate"
    assert storage.log.end_offset == end_offset
    following = {**again, "base_sequence": 8}
    assert storage.put(("a", "4"), ("b", "4"), **following) == end_offset


def test_the_last_sequence_before_a_truncated_batch_is_recognised() -> None:
    storage = CompactedStorage()
    producer = {"producer_id": 5, "producer_epoch": 1}
    base_offset = storage.put(("a", "0"), **producer, base_sequence=0)
    for number in range(20):
        storage.put(("a", f"new-{number}"))
    storage.settle()
    committed = storage.log.end_offset
    storage.put(("a", "1"), **producer, base_sequence=1)
    storage.clean()
    assert headers_in(storage.log)[0].count == 0, "kept for its producer"
    storage.log.truncate(committed)
    assert storage.put(("a", "0"), **producer, base_sequence=0) == base_offset, "a duplicate"
    assert storage.put(("a", "1"), **producer, base_sequence=1) == committed


def test_leader_epochs_do_not_change() -> None:
    storage = CompactedStorage()
    for number in range(40):
        storage.put((f"key-{number % 3}", "x" * 30), epoch=number // 8)
    storage.settle()
    log = storage.log
    before = [log.end_offset_for_epoch(epoch) for epoch in range(7)]
    storage.clean()
    assert [storage.log.end_offset_for_epoch(epoch) for epoch in range(7)] == before
    assert {header.leader_epoch for header in headers_in(log)} < set(range(5))
    storage.restart()
    assert [storage.log.end_offset_for_epoch(epoch) for epoch in range(7)] == before


# The checkpoint


def test_a_restart_continues_where_the_last_cleaning_ended() -> None:
    storage = dirty_storage()
    storage.clean()
    storage.restart()
    storage.clean()
    assert storage.directory.cleaner.totals.cleanings == 0
    storage.fill(20, first=40)
    storage.settle()
    first_dirty = cleaned_up_to(storage)
    dirty_bytes = sum(s.file.size for s in storage.log.segments.since(first_dirty))
    storage.disk.reads.clear()
    storage.begin_cleaning()
    storage.end_cleaning()
    totals = storage.directory.cleaner.totals
    assert totals.cleanings == 1
    assert totals.bytes_read < storage.log.size_bytes + 2 * dirty_bytes


def test_a_truncation_lowers_the_checkpoint() -> None:
    storage = dirty_storage()
    storage.clean()
    assert cleaned_up_to(storage) > 30
    storage.log.truncate(30)
    assert cleaned_up_to(storage) == storage.log.end_offset <= 30
    storage.lose_power()
    storage.open()
    storage.fill(40)
    model = latest(contents(storage.log))
    storage.settle()
    storage.clean()
    assert latest(contents(storage.log)) == model
    assert_compacted(contents(storage.log), storage.log.segments.active.base_offset)


def test_a_truncation_above_the_checkpoint_leaves_it() -> None:
    storage = dirty_storage()
    storage.clean()
    before = storage.checkpointed
    storage.log.truncate(storage.log.end_offset - 1)
    assert storage.checkpointed == before


def test_a_checkpoint_beyond_the_end_of_the_log_is_dropped() -> None:
    storage = dirty_storage()
    storage.settle()
    storage.restart()
    storage.directory.close_cleanly()
    storage.kill()
    storage.disk.replace("cleaner-offset-checkpoint", b"0\n1\ntopic 0 100\n")
    storage.open()
    storage.schedule.run_for(0)
    assert storage.checkpointed == b"0\n0\n"
    storage.fill(40, first=40)
    assert storage.log.end_offset > 100
    storage.settle()
    storage.clean()
    assert_compacted(contents(storage.log), storage.log.segments.active.base_offset)


@pytest.mark.parametrize("content", [b"", b"garbage", b"0\n1\ntopic 0 -5\n"])
def test_a_corrupt_checkpoint_means_that_all_is_dirty(content: bytes) -> None:
    storage = dirty_storage()
    storage.clean()
    storage.directory.close_cleanly()
    storage.kill()
    storage.disk.replace("cleaner-offset-checkpoint", content)
    storage.open()
    before = latest(contents(storage.log))
    storage.clean()
    assert latest(contents(storage.log)) == before
    assert cleaned_up_to(storage) == storage.log.segments.active.base_offset


def test_the_checkpoint_of_a_deleted_log_is_removed() -> None:
    storage = dirty_storage()
    storage.clean()
    storage.directory.delete(TP)
    storage.schedule.run_for(0)
    assert storage.checkpointed == b"0\n0\n"


def test_retention_waits_for_the_cleaning() -> None:
    storage = CompactedStorage(
        compacted(cleanup_policy=frozenset({"compact", "delete"}), retention_ms=1)
    )
    storage.fill(40)
    storage.settle()
    storage.begin_cleaning()
    log = storage.log
    assert log.apply_retention(storage.now_ms, log.high_watermark) == []
    storage.end_cleaning()
    assert log.apply_retention(storage.now_ms, log.high_watermark) != []
