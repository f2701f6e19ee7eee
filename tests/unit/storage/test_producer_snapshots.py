"""Producer snapshots: when one is due, and which files a checkpoint keeps and removes."""

from typing import TYPE_CHECKING

import pytest

from sawlog.protocol.record_batch import read_header
from sawlog.protocol.records import build_batch
from sawlog.storage.log_files import SNAPSHOT, offset_name
from sawlog.storage.producer_state_store import REMOVED_AT_ONCE, REPLAYED_BYTES, ProducerStateStore
from sawlog.storage.segments import Segments
from support.storage.logs import records
from support.storage.segments import DIRECTORY, PartitionDirectory, append_batch

if TYPE_CHECKING:
    from sawlog.core.ports import DiskError

DAY_MS = 24 * 3600 * 1000


class Producers:
    """The producer state of a log with segments at 0 and 100; batches have one record each."""

    def __init__(self) -> None:
        self.directory = PartitionDirectory()
        self.schedule, self.disk = self.directory.schedule, self.directory.disk
        self.segments = Segments([self.directory.segment(base) for base in (0, 100)])
        self.end_offset = 100
        self.failures: list[DiskError] = []
        self.store = self.open()

    def open(self) -> ProducerStateStore:
        return ProducerStateStore(
            self.disk,
            self.schedule,
            DIRECTORY,
            self.files,
            on_failure=self.failures.append,
        )

    @property
    def files(self) -> list[int]:
        return self.directory.files(SNAPSHOT)

    @property
    def is_due(self) -> bool:
        return self.store.is_snapshot_due(self.segments, self.end_offset)

    def produce(self, sequence: int) -> None:
        """Append a batch of the idempotent producer 7."""
        batch = build_batch(
            records(1),
            base_offset=self.end_offset,
            leader_epoch=0,
            producer_id=7,
            producer_epoch=0,
            base_sequence=sequence,
        )
        header = read_header(batch)
        timestamp = header.max_timestamp
        self.segments.active.append(memoryview(batch), header.size, header.last_offset, timestamp)
        self.store.take(header, self.end_offset, timestamp)
        self.end_offset += 1

    def append_without_producer(self, value_bytes: int = 10) -> None:
        append_batch(self.segments.active, self.end_offset, value_bytes=value_bytes)
        self.end_offset += 1

    def write(self, *offsets: int) -> None:
        """Write the present state as snapshots at these offsets."""
        for offset in offsets:
            self.store.write_later(offset, self.store.encode())
        self.schedule.run_for(0)

    def checkpoint(self) -> None:
        """Write a snapshot if one is due, then remove superseded ones."""
        if self.is_due:
            self.write(self.end_offset)
        self.store.remove_superseded(self.end_offset, self.segments, self.end_offset)

    def sequences(self, store: ProducerStateStore) -> list[int]:
        state = store.states.states.get(7)
        return [] if state is None else [batch.last_sequence for batch in state.batches]


@pytest.fixture
def producers() -> Producers:
    return Producers()


# When a snapshot is due


def test_a_snapshot_is_due_when_a_producer_wrote(producers: Producers) -> None:
    producers.append_without_producer()
    assert not producers.is_due
    producers.produce(0)
    assert producers.is_due
    producers.write(producers.end_offset)
    assert not producers.is_due


def test_without_a_snapshot_one_is_due_after_many_bytes(producers: Producers) -> None:
    producers.append_without_producer(REPLAYED_BYTES + 1)
    assert producers.is_due


def test_a_snapshot_of_a_segment_is_followed_by_one_after_many_bytes(producers: Producers) -> None:
    producers.write(100)
    producers.append_without_producer(REPLAYED_BYTES // 2)
    assert not producers.is_due
    producers.append_without_producer(REPLAYED_BYTES // 2)
    assert producers.is_due, "the snapshot at 100 belongs to its segment and cannot be moved"


def test_a_snapshot_of_a_checkpoint_is_moved_and_not_written_again(producers: Producers) -> None:
    producers.produce(0)
    producers.checkpoint()
    producers.append_without_producer(REPLAYED_BYTES + 1)
    assert not producers.is_due
    producers.checkpoint()
    assert producers.files == producers.store.snapshot_offsets == [102]
    again = producers.open()
    again.restore(producers.segments, 102, DAY_MS)
    assert producers.sequences(again) == [0]


# What a checkpoint keeps


def test_a_checkpoint_replaces_the_snapshot_of_the_one_before(producers: Producers) -> None:
    for sequence in range(3):
        producers.produce(sequence)
        producers.checkpoint()
    assert producers.files == producers.store.snapshot_offsets == [103]


def test_a_checkpoint_keeps_the_snapshots_of_segments(producers: Producers) -> None:
    producers.write(0, 50, 100)
    producers.produce(0)
    producers.checkpoint()
    assert producers.files == [0, 100, 101]


def test_a_checkpoint_keeps_the_newest_snapshot_and_later_ones(producers: Producers) -> None:
    producers.write(40, 60, 120)
    producers.store.remove_superseded(80, producers.segments, producers.end_offset)
    assert producers.files == [60, 120]


def test_a_checkpoint_removes_a_bounded_number_of_snapshots(producers: Producers) -> None:
    count = REMOVED_AT_ONCE + 5
    for offset in range(1, count + 2):
        producers.write(offset)
    producers.store.remove_superseded(100, producers.segments, producers.end_offset)
    assert producers.files == list(range(REMOVED_AT_ONCE + 1, count + 2))
    producers.store.remove_superseded(100, producers.segments, producers.end_offset)
    assert producers.files == [count + 1]


def test_snapshots_below_the_start_of_the_log_are_removed_off_the_loop(
    producers: Producers,
) -> None:
    for offset in (20, 40, 60):
        producers.write(offset)
    producers.store.remove_below(60)
    assert (producers.store.snapshot_offsets, producers.files) == ([60], [20, 40, 60])
    producers.schedule.run_for(0)
    assert producers.files == [60]


def test_a_near_snapshot_is_not_moved(producers: Producers) -> None:
    producers.produce(0)
    producers.checkpoint()
    producers.append_without_producer()
    producers.checkpoint()
    assert producers.files == [101]


def test_a_snapshot_is_not_moved_past_a_batch_of_a_producer(producers: Producers) -> None:
    producers.produce(0)
    producers.checkpoint()
    producers.append_without_producer(REPLAYED_BYTES + 1)
    producers.produce(1)
    producers.store.remove_superseded(103, producers.segments, 103)
    assert producers.files == [101]


# Writes that fail or are overtaken


def test_a_snapshot_that_a_full_disk_refuses_is_still_due(producers: Producers) -> None:
    producers.produce(0)
    producers.disk.free_bytes = 0
    outcomes: list[bool] = []
    producers.store.write_later(101, producers.store.encode(), outcomes.append)
    assert not producers.store.needs_snapshot
    producers.schedule.run_for(0)
    assert (outcomes, producers.failures, producers.files) == ([False], [], [])
    assert producers.store.needs_snapshot


def test_a_snapshot_that_the_disk_fails_to_write_is_reported(producers: Producers) -> None:
    producers.produce(0)
    producers.disk.fails_syncs = True
    producers.write(101)
    assert len(producers.failures) == 1
    assert producers.store.needs_snapshot


def test_a_snapshot_that_a_truncation_overtook_is_removed_durably(producers: Producers) -> None:
    producers.produce(0)
    outcomes: list[bool] = []
    producers.store.write_later(101, producers.store.encode(), outcomes.append)
    producers.segments.active.truncate(100, 0)
    producers.store.truncate(producers.segments, 100, DAY_MS)
    producers.schedule.run_for(0)
    assert (outcomes, producers.files, producers.store.snapshot_offsets) == ([False], [], [])
    producers.directory.lose_power()
    assert producers.files == []


def test_after_close_a_written_snapshot_does_not_count(producers: Producers) -> None:
    outcomes: list[bool] = []
    producers.store.write_later(100, producers.store.encode(), outcomes.append)
    producers.store.close()
    producers.schedule.run_for(0)
    assert (outcomes, producers.store.snapshot_offsets) == ([False], [])


# Restoring


def test_a_corrupt_snapshot_is_removed_and_an_older_one_used(producers: Producers) -> None:
    producers.produce(0)
    producers.write(101)
    producers.produce(1)
    producers.write(102)
    producers.disk.overwrite(f"{DIRECTORY}/{offset_name(102, SNAPSHOT)}", 8, b"\xff")
    again = producers.open()
    again.restore(producers.segments, 102, DAY_MS)
    assert producers.sequences(again) == [0, 1]
    assert producers.files == [101]


def test_a_snapshot_before_the_first_segment_is_removed(producers: Producers) -> None:
    producers.write(50)
    producers.segments.drop(1)
    producers.store.restore(producers.segments, 100, DAY_MS)
    assert producers.files == []


def test_a_truncation_restores_the_state_from_the_snapshot_below(producers: Producers) -> None:
    for sequence in range(3):
        producers.produce(sequence)
        producers.write(producers.end_offset)
    position = producers.segments.active.position_of(102)
    producers.segments.active.truncate(102, position)
    producers.store.truncate(producers.segments, 102, DAY_MS)
    assert producers.files == [101, 102]
    assert producers.sequences(producers.store) == [0, 1]


def test_a_snapshot_is_confirmed_if_it_agrees_with_the_state(producers: Producers) -> None:
    producers.produce(0)
    producers.write(101)
    assert producers.store.confirm(101)
    assert not producers.store.confirm(100), "there is no such snapshot"
    assert not producers.open().confirm(101), "this state is empty"
    producers.produce(1)
    assert not producers.store.confirm(101)
