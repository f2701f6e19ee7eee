"""Scans over the batches of a file, with and without damage."""

import pytest

from sawlog.core.ports import File
from sawlog.protocol.record_batch import BatchHeader
from sawlog.protocol.records import build_batch
from sawlog.simulation.schedule import Schedule
from sawlog.simulation.simulated_disk import SimulatedDisk
from sawlog.storage.batch_scan import Damage, check, walk, walk_past_damage
from support.storage.logs import records

SIZES = (10, 3_000, 1, 20_000, 500, 500)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Schedule(1).soon)


def file_of_batches(disk: SimulatedDisk) -> tuple[File, list[int]]:
    """A file of batches with one record each from offset 0 on; their positions, and the size."""
    file = disk.open("log", create=True)
    positions = [0]
    for offset, size in enumerate(SIZES):
        file.append([build_batch(records(1, value=bytes([offset]) * size), base_offset=offset)])
        positions.append(file.size)
    return file, positions


def offsets(found: list[tuple[int, BatchHeader]]) -> list[int]:
    return [header.base_offset for _, header in found]


@pytest.mark.parametrize("chunk_bytes", [64, 100, 4_096, 1 << 20])
def test_walk_yields_every_batch(disk: SimulatedDisk, chunk_bytes: int) -> None:
    file, positions = file_of_batches(disk)
    found = list(walk(file, 0, file.size, chunk_bytes=chunk_bytes))
    assert [position for position, _ in found] == positions[:-1]
    assert offsets(list(walk(file, positions[2], positions[5], chunk_bytes=chunk_bytes))) == [
        2,
        3,
        4,
    ]
    assert list(walk(file, file.size, file.size)) == []


def test_walk_with_small_chunks_does_not_read_large_batches(disk: SimulatedDisk) -> None:
    file, _ = file_of_batches(disk)
    disk.reads.clear()
    list(walk(file, 0, file.size, chunk_bytes=256))
    assert sum(length for _, _, length in disk.reads) < 3_000


def test_check_yields_every_batch(disk: SimulatedDisk) -> None:
    file, positions = file_of_batches(disk)
    found = list(check(file, 0, file.size))
    assert [position for position, _ in found] == positions[:-1]


def test_check_reads_batches_that_are_larger_than_a_chunk(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, _ = file_of_batches(disk)
    monkeypatch.setattr("sawlog.storage.batch_scan.CHUNK_BYTES", 128)
    assert offsets(list(check(file, 0, file.size))) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("within", [8, 16, 17, 21, 40, 61, 300])
def test_check_stops_at_the_first_changed_batch(disk: SimulatedDisk, within: int) -> None:
    """The CRC covers neither the base offset nor the leader epoch."""
    file, positions = file_of_batches(disk)
    byte = file.read(positions[4] + within, 1)[0]
    disk.overwrite("log", positions[4] + within, bytes([byte ^ 0x40]))
    found: list[tuple[int, BatchHeader]] = []
    with pytest.raises(Damage) as damage:
        found.extend(check(file, 0, file.size))
    assert offsets(found) == [0, 1, 2, 3]
    assert damage.value.position == positions[4]


@pytest.mark.parametrize("left", [1, 11, 60, 61, 200])
def test_a_truncated_batch_is_damage(disk: SimulatedDisk, left: int) -> None:
    file, positions = file_of_batches(disk)
    disk.cut("log", positions[5] + left)
    for scan in (walk, check):
        found: list[tuple[int, BatchHeader]] = []
        with pytest.raises(Damage) as damage:
            found.extend(scan(file, 0, file.size))
        assert offsets(found) == [0, 1, 2, 3, 4]
        assert damage.value.position == positions[5]


def test_zeros_are_damage(disk: SimulatedDisk) -> None:
    file, positions = file_of_batches(disk)
    disk.overwrite("log", positions[3], bytes(positions[4] - positions[3]))
    with pytest.raises(Damage):
        list(walk(file, 0, file.size))


@pytest.mark.parametrize("damaged", [0, 1, 3, 4])
def test_the_walk_continues_with_the_batch_after_damage(disk: SimulatedDisk, damaged: int) -> None:
    file, positions = file_of_batches(disk)
    disk.overwrite("log", positions[damaged], b"\xff" * 20)
    seen: list[tuple[int, int | None]] = []

    def note(damage: Damage, next_batch: BatchHeader | None) -> None:
        seen.append((damage.position, next_batch.base_offset if next_batch else None))

    found = offsets(list(walk_past_damage(file, 0, file.size, note)))
    assert found == [offset for offset in range(6) if offset != damaged]
    assert seen == [(positions[damaged], damaged + 1)]


def test_damage_at_the_end_is_reported_without_a_next_batch(disk: SimulatedDisk) -> None:
    file, positions = file_of_batches(disk)
    disk.overwrite("log", positions[5] + 16, b"\x07")
    seen: list[BatchHeader | None] = []
    found = offsets(
        list(walk_past_damage(file, 0, file.size, lambda _, next_batch: seen.append(next_batch)))
    )
    assert (found, seen) == ([0, 1, 2, 3, 4], [None])
