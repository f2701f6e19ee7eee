"""A chain of batches: what is accepted, and where the reading stops."""

from pathlib import Path

import pytest

from sawlog.backup.batch_chain import BatchChain, BrokenChain, Gap
from sawlog.storage.leader_epochs import EpochEntry
from support.backup.partition_files import PartitionFiles, Progress, batch


@pytest.fixture
def files(tmp_path: Path) -> PartitionFiles:
    return PartitionFiles(tmp_path)


def read(files: PartitionFiles, limit: int, *bases: int) -> tuple[BatchChain, list[int]]:
    chain = BatchChain(limit, Progress())
    return chain, [chain.read(files.path(base)) for base in bases]


def test_segments_follow_each_other(files: PartitionFiles) -> None:
    files.write(0, batch(0, 3), batch(3, 2, epoch=1))
    files.write(5, batch(5, 1, epoch=4))
    chain, positions = read(files, 6, 0, 5)
    assert (chain.next_offset, chain.gaps) == (6, [])
    assert positions == [files.path(0).stat().st_size, files.path(5).stat().st_size]
    assert chain.epochs.entries == (EpochEntry(0, 0), EpochEntry(1, 3), EpochEntry(4, 5))


def test_bytes_above_the_limit_are_not_looked_at(files: PartitionFiles) -> None:
    files.write(0, batch(0, 3), b"half a batch")
    chain, positions = read(files, 3, 0)
    assert chain.next_offset == 3
    assert positions == [len(batch(0, 3))]


def test_a_batch_that_crosses_the_limit_is_left_out(files: PartitionFiles) -> None:
    files.write(0, batch(0, 3), batch(3, 4))
    chain, positions = read(files, 5, 0)
    assert chain.next_offset == 3
    assert positions == [len(batch(0, 3))]


def test_missing_offsets_are_gaps(files: PartitionFiles) -> None:
    files.write(0, batch(2, 1), batch(7, 1))
    files.write(10, batch(10, 1))
    chain, _ = read(files, 11, 0, 10)
    assert chain.gaps == [Gap(0, 1), Gap(3, 6), Gap(8, 9)]


@pytest.mark.parametrize(
    ("batches", "reason"),
    [
        ([batch(0, 3), batch(2, 3)], "offset 2 follows, but the batches before it end at 3"),
        ([batch(0, 3), batch(3, 3)[:-1] + b"x"], "does not match its CRC"),
        ([batch(0, 3), batch(3, 3)[:-1]], "truncated batch"),
        ([batch(0, 3), bytes(range(100))], "magic"),
    ],
)
def test_a_bad_batch_below_the_limit_breaks_the_chain(
    files: PartitionFiles, batches: list[bytes], reason: str
) -> None:
    files.write(0, *batches)
    with pytest.raises(BrokenChain, match=reason):
        read(files, 100, 0)


def test_overlapping_segments_break_the_chain(files: PartitionFiles) -> None:
    files.write(0, batch(0, 9))
    files.write(5, batch(5, 5))
    with pytest.raises(BrokenChain, match="offset 5 follows"):
        read(files, 10, 0, 5)
