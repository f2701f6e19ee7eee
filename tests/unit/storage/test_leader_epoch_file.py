"""The leader epoch checkpoint: when it is written, how it is checked against the batches."""

import pytest

from sawlog.core.ports import DiskFull
from sawlog.storage.leader_epoch_file import LeaderEpochFile
from sawlog.storage.leader_epochs import EpochEntry
from sawlog.storage.log_files import EPOCH_CHECKPOINT, decode_epochs, encode_epochs
from sawlog.storage.segments import Segments
from support.storage.segments import DIRECTORY, PartitionDirectory, append_batch

PATH = f"{DIRECTORY}/{EPOCH_CHECKPOINT}"


class Epochs:
    """A log with the batches 0-1 and 2-3 of epoch 1, 4-5 of epoch 3, and its epoch file."""

    def __init__(self) -> None:
        directory = PartitionDirectory()
        self.disk = directory.disk
        first, second = directory.segment(0), directory.segment(4)
        append_batch(first, 0, count=2, epoch=1)
        append_batch(first, 2, count=2, epoch=1)
        append_batch(second, 4, count=2, epoch=3)
        self.segments = Segments([first, second])
        self.file = LeaderEpochFile(self.disk, DIRECTORY)

    @property
    def on_disk(self) -> list[tuple[int, int]]:
        return [tuple(entry) for entry in decode_epochs(self.disk.read_file(PATH))]  # type: ignore[misc]

    def load(self, *entries: tuple[int, int]) -> None:
        """Load a file with these entries of (epoch, start offset)."""
        self.disk.replace(PATH, encode_epochs(EpochEntry(*entry) for entry in entries))
        self.file.load()

    def end_for(self, epoch: int) -> tuple[int, int]:
        return self.file.end_for(epoch, self.segments, 0, 6)


@pytest.fixture
def epochs() -> Epochs:
    return Epochs()


def test_an_epoch_is_in_the_file_before_its_first_append(epochs: Epochs) -> None:
    epochs.file.assign(1, 0)
    assert not epochs.disk.exists(PATH)
    epochs.file.make_durable(1, 0)
    assert epochs.on_disk == [(1, 0)]
    operations = epochs.disk.operations
    epochs.file.make_durable(1, 2)
    assert epochs.disk.operations == operations, "a known epoch is not written again"


def test_an_epoch_that_could_not_be_written_is_written_before_the_next_append(
    epochs: Epochs,
) -> None:
    epochs.file.make_durable(1, 0)
    epochs.disk.free_bytes = 0
    with pytest.raises(DiskFull):
        epochs.file.make_durable(3, 4)
    assert epochs.on_disk == [(1, 0)]
    epochs.disk.free_bytes = None
    epochs.file.make_durable(3, 4)
    assert epochs.on_disk == [(1, 0), (3, 4)]


def test_removed_epochs_leave_the_file_before_the_next_append(epochs: Epochs) -> None:
    epochs.file.make_durable(1, 0)
    epochs.file.make_durable(3, 4)
    epochs.file.truncate_end(4)
    assert epochs.file.entries == ((1, 0),)
    epochs.file.make_durable(1, 4)
    assert epochs.on_disk == [(1, 0)]
    epochs.file.truncate_start(2)
    epochs.file.make_durable(1, 4)
    assert epochs.on_disk == [(1, 2)]


def test_a_truncation_that_removes_no_epoch_needs_no_write(epochs: Epochs) -> None:
    epochs.file.make_durable(1, 0)
    epochs.file.truncate_end(4)
    epochs.file.truncate_start(0)
    assert epochs.file.durable == 1


@pytest.mark.parametrize("content", [b"", b"garbage", b"0\n1\n3 4"])
def test_a_corrupt_file_is_completed_from_the_batches(epochs: Epochs, content: bytes) -> None:
    epochs.disk.replace(PATH, content)
    epochs.file.load()
    assert epochs.file.entries == ()
    epochs.file.complete(epochs.segments, 0, 6)
    assert epochs.file.entries == ((1, 0), (3, 4))


def test_only_epochs_before_the_first_entry_are_completed(epochs: Epochs) -> None:
    epochs.load((3, 4), (5, 6))
    epochs.file.complete(epochs.segments, 2, 6)
    assert epochs.file.entries == ((1, 2), (3, 4), (5, 6))


@pytest.mark.parametrize("entries", [[(1, 0), (3, 2)], [(1, 0), (2, 4)], [(0, 0)]])
def test_entries_that_disagree_with_the_batches_are_rebuilt_before_they_are_used(
    epochs: Epochs, entries: list[tuple[int, int]]
) -> None:
    epochs.load(*entries)
    assert epochs.end_for(1) == (1, 4)
    assert epochs.file.entries == ((1, 0), (3, 4))
    epochs.file.make_durable(3, 6)
    assert epochs.on_disk == [(1, 0), (3, 4)]


def test_the_present_epoch_without_a_batch_survives_a_rebuild(epochs: Epochs) -> None:
    epochs.load((1, 0), (3, 2), (7, 6))
    assert epochs.end_for(3) == (3, 6)
    assert epochs.file.entries == ((1, 0), (3, 4), (7, 6))


def test_entries_are_checked_once(epochs: Epochs) -> None:
    epochs.load((1, 0), (3, 4))
    assert epochs.end_for(3) == (3, 6)
    epochs.disk.reads.clear()
    assert epochs.end_for(1) == (1, 4)
    assert epochs.disk.reads == []
