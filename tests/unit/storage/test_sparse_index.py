"""Sparse indexes: their file, look-ups and removal of entries."""

import pytest

from sawlog.simulation.schedule import Schedule
from sawlog.simulation.simulated_disk import SimulatedDisk
from sawlog.storage.sparse_index import OFFSET_ENTRY, TIME_ENTRY, SparseIndex


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Schedule(1).soon)


def index_of(disk: SimulatedDisk, count: int, *, written: int) -> SparseIndex:
    """Entries (10, 100), (20, 200) and so on, the first `written` of them in the file."""
    index = SparseIndex(disk, "i", OFFSET_ENTRY, is_new=True)
    for number in range(1, count + 1):
        index.add((number * 10, number * 100))
        if number == written:
            index.write()
    return index


def test_the_file_has_kafka_format(disk: SimulatedDisk) -> None:
    index_of(disk, 2, written=2)
    assert disk.read_file("i") == bytes.fromhex("0000000a 00000064 00000014 000000c8")
    times = SparseIndex(disk, "t", TIME_ENTRY, is_new=True)
    times.add((1_700_000_000_000, 5))
    times.write()
    assert disk.read_file("t") == (1_700_000_000_000).to_bytes(8, "big") + b"\0\0\0\5"


@pytest.mark.parametrize("written", [0, 1, 3, 511, 512, 513, 2_000, 2_999, 3_000])
def test_floor_finds_the_last_entry_at_or_below(disk: SimulatedDisk, written: int) -> None:
    index = index_of(disk, 3_000, written=written)
    assert len(index) == 3_000
    assert index.last() == (30_000, 300_000)
    assert index.floor(9) is None
    assert index.floor(99, field=1) is None
    for number in (1, 2, 3, 510, 511, 512, 513, 514, 1_999, 2_000, 2_001, 2_999, 3_000):
        assert index.floor(number * 10) == (number * 10, number * 100)
        assert index.floor(number * 10 + 9) == (number * 10, number * 100)
        assert index.floor(number * 100 + 99, field=1) == (number * 10, number * 100)
    assert index.floor(10**9) == (30_000, 300_000)


def test_a_missing_index_is_empty(disk: SimulatedDisk) -> None:
    index = SparseIndex(disk, "i", OFFSET_ENTRY, is_new=False)
    assert (len(index), index.last(), index.floor(5)) == (0, None, None)
    index.drop_from(0, 5)
    index.write(also_empty=True)
    assert disk.read_file("i") == b""


@pytest.mark.parametrize("written", [0, 1, 40, 60, 100])
@pytest.mark.parametrize("field", [0, 1])
@pytest.mark.parametrize("kept", [0, 1, 39, 40, 41, 99, 100])
def test_drop_from_removes_entries_at_or_above_a_value(
    disk: SimulatedDisk, written: int, field: int, kept: int
) -> None:
    index = index_of(disk, 100, written=written)
    value = (kept + 1) * (10 if field == 0 else 100)
    index.drop_from(field, value)
    assert len(index) == kept
    assert index.last() == ((kept * 10, kept * 100) if kept else None)
    index.add((5_000, 5_000))
    index.write()
    again = SparseIndex(disk, "i", OFFSET_ENTRY, is_new=False)
    assert len(again) == kept + 1
    assert again.last() == (5_000, 5_000)


def test_a_truncated_last_entry_is_ignored_and_overwritten(disk: SimulatedDisk) -> None:
    index_of(disk, 3, written=3).close()
    disk.cut("i", 8 * 3 - 5)
    index = SparseIndex(disk, "i", OFFSET_ENTRY, is_new=False)
    assert index.last() == (20, 200)
    index.add((30, 300))
    index.write()
    assert len(disk.read_file("i")) == 24
    assert index.last() == (30, 300)


def test_a_full_disk_leaves_the_tail_in_memory(disk: SimulatedDisk) -> None:
    index = index_of(disk, 3, written=1)
    disk.free_bytes = 0
    index.write()
    assert (len(index), index.last()) == (3, (30, 300))
    disk.free_bytes = None
    index.write()
    assert index._tail == []
    assert (len(index), index.last()) == (3, (30, 300))
