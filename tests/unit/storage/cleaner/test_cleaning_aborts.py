"""What ends a cleaning early, after every one of its steps: the log is right afterwards.

A step is one event of the cleaning: a chunk that is mapped or cleaned, or a directory sync of the
swap, with the renames that follow it.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from sawlog.protocol.records import Record
from sawlog.storage.log import Log
from support.storage.compaction import (
    CompactedStorage,
    assert_compacted,
    compacted,
    contents,
    latest,
)
from support.storage.logs import TP

BATCHES = 40


def dirty_storage(seed: int = 1) -> CompactedStorage:
    """A log of several segments, which a cleaning merges in pairs."""
    storage = CompactedStorage(compacted(segment_bytes=450), seed=seed)
    storage.fill(BATCHES)
    storage.settle()
    storage.config = compacted(segment_bytes=900)
    storage.log.reconfigure(storage.config)
    return storage


def cleanings_in_each_step(seed: int = 1) -> Iterator[CompactedStorage]:
    """A storage for every step of a cleaning, stopped there."""
    steps = 0
    while True:
        storage = dirty_storage(seed)
        storage.begin_cleaning()
        for _ in range(steps):
            storage.schedule.step()
        if not storage.directory.cleaner.is_cleaning(storage.log):
            break
        yield storage
        steps += 1
    assert steps > 15, "a cleaning has many steps"


def assert_ended(storage: CompactedStorage) -> None:
    """Assert that no trace of the cleaning is left, and that nothing of it happens later."""
    assert not storage.directory.cleaner.is_cleaning(storage.log)
    assert storage.names(".cleaned", ".swap") == []
    before = contents(storage.log)
    storage.schedule.run_for(1_000)
    assert contents(storage.log) == before
    assert storage.names(".cleaned", ".swap") == []
    assert storage.directory.offline is None


def assert_cleaned_later(storage: CompactedStorage) -> None:
    """Assert that the next cleaning does what this one did not."""
    model = latest(contents(storage.log))
    storage.settle()
    storage.clean()
    assert latest(contents(storage.log)) == model
    assert_compacted(contents(storage.log), storage.log.segments.active.base_offset)


def original() -> list[Record]:
    return contents(dirty_storage().log)


def test_the_cleaning_has_all_phases() -> None:
    seen = set()
    for storage in cleanings_in_each_step():
        log_files = [name for name in storage.disk.list(str(TP)) if ".log" in name]
        seen.add(frozenset(name[20:] for name in log_files))
    assert seen == {
        frozenset({".log"}),
        frozenset({".log", ".log.cleaned"}),
        frozenset({".log", ".log.swap"}),
        frozenset({".log", ".log.swap", ".log.deleted"}),
        frozenset({".log", ".log.deleted"}),
        frozenset({".log", ".log.cleaned", ".log.deleted"}),
    }


@pytest.mark.parametrize("offset", [0, 3, 14, 17, 40, 79])
def test_a_truncation_ends_the_cleaning(offset: int) -> None:
    for storage, twin in zip(cleanings_in_each_step(), cleanings_in_each_step(), strict=True):
        log = storage.log
        twin.directory.abort_cleaning(twin.log)  # this undoes a swap, or finishes it
        left = [record for record in contents(twin.log) if record.offset < offset // 2 * 2]
        log.truncate(offset)
        assert contents(log) == left
        assert log.end_offset <= offset
        assert_ended(storage)
        storage.put(("key-0", "new"))  # new records take the offsets of the old ones
        storage.fill(20, first=100)
        assert contents(log)[: len(left)] == left
        assert_cleaned_later(storage)


@pytest.mark.parametrize("offset", [1, 12, 13, 50, 80])
def test_delete_records_ends_the_cleaning_or_lets_it_finish(offset: int) -> None:
    for storage in cleanings_in_each_step():
        log = storage.log
        left = latest([record for record in contents(log) if record.offset >= offset])
        log.advance_start(offset)
        if log.segments.base_offset > 0:
            assert_ended(storage)
        else:
            storage.end_cleaning()
        assert log.start_offset == offset
        assert latest(contents(log)) == left
        assert_cleaned_later(storage)
        storage.restart()
        assert storage.log.start_offset == offset
        assert latest(contents(storage.log)) == left


def test_the_deletion_of_the_topic_ends_the_cleaning() -> None:
    for storage in cleanings_in_each_step():
        log = storage.log
        storage.directory.delete(TP)
        assert not storage.directory.cleaner.is_cleaning(log)
        storage.schedule.run_for(10_000)
        assert [name for name in storage.disk.list("") if name.startswith("topic")] == []
        assert storage.directory.offline is None
        storage.put(("a", "1"))
        assert [record.offset for record in contents(storage.log)] == [0]


def test_a_log_that_is_set_aside_is_not_cleaned_any_more() -> None:
    for storage in cleanings_in_each_step():
        log = storage.log
        stray = storage.directory.set_aside(TP)
        assert not storage.directory.cleaner.is_cleaning(log)
        names = storage.disk.list(stray)
        assert [name for name in names if name.endswith((".cleaned", ".swap"))] == []
        storage.schedule.run_for(10_000)
        assert storage.disk.list(stray) == names


def test_a_change_of_the_policy_ends_the_cleaning() -> None:
    for storage in cleanings_in_each_step():
        before = latest(contents(storage.log))
        storage.log.reconfigure(replace(storage.config, cleanup_policy=frozenset({"delete"})))
        assert_ended(storage)
        assert latest(contents(storage.log)) == before
        storage.clean()
        assert storage.directory.cleaner.totals.cleanings == 0
        storage.log.reconfigure(storage.config)
        assert_cleaned_later(storage)


def test_other_settings_do_not_end_the_cleaning() -> None:
    for storage in cleanings_in_each_step():
        storage.log.reconfigure(replace(storage.config, segment_bytes=10_000))
        assert storage.directory.cleaner.is_cleaning(storage.log)
        storage.end_cleaning()
        assert storage.directory.cleaner.totals.cleanings == 1


def test_a_stop_ends_the_cleaning() -> None:
    before = latest(original())
    for storage in cleanings_in_each_step():
        storage.restart()
        assert storage.directory.was_clean
        assert storage.directory.recovery.recovered_logs == 0
        assert latest(contents(storage.log)) == before
        assert storage.names(".cleaned", ".swap", ".deleted") == []
        assert_cleaned_later(storage)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("is_power_lost", [False, True])
def test_a_crash_ends_the_cleaning(is_power_lost: bool, seed: int) -> None:
    before = latest(original())
    for storage in cleanings_in_each_step(seed):
        if is_power_lost:
            storage.lose_power()
        else:
            storage.kill()
        storage.open()
        assert latest(contents(storage.log)) == before
        assert storage.names(".cleaned", ".swap", ".deleted") == []
        assert storage.directory.recovery.truncated_bytes == 0
        assert_cleaned_later(storage)


def test_an_aborted_cleaning_leaves_the_checkpoint() -> None:
    for storage in cleanings_in_each_step():
        storage.directory.abort_cleaning(storage.log)
        assert_ended(storage)
        assert "cleaner-offset-checkpoint" not in storage.disk.list("")
        assert latest(contents(storage.log)) == latest(original())


def test_a_reader_in_any_step_sees_all_live_records() -> None:
    before = latest(original())
    for storage in cleanings_in_each_step():
        assert latest(contents(storage.log)) == before


def segments_are_in_order(log: Log) -> bool:
    return list(log.segments.base_offsets) == sorted(set(log.segments.base_offsets))


def test_appends_and_rolls_in_any_step_are_kept() -> None:
    for storage in cleanings_in_each_step():
        storage.fill(20, first=BATCHES)
        storage.end_cleaning()
        assert segments_are_in_order(storage.log)
        model = CompactedStorage(compacted(cleanup_policy=frozenset({"delete"})))
        model.fill(BATCHES + 20)
        expected = {key: record.value for key, record in latest(contents(model.log)).items()}
        found = latest(contents(storage.log))
        assert {key: record.value for key, record in found.items()} == expected
