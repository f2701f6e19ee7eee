"""The removal of segment files: oldest first, each rename durable before the next."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest

from sawlog.core.ports import DiskError
from sawlog.storage.segment_remover import SegmentRemover
from support.storage.segments import DIRECTORY, PartitionDirectory

if TYPE_CHECKING:
    from sawlog.storage.segment import Segment


DELAY_MS = 60_000


class Removal:
    """A remover with three segments to remove and one that stays."""

    def __init__(self) -> None:
        self.directory = PartitionDirectory()
        self.schedule, self.disk = self.directory.schedule, self.directory.disk
        self.segments: list[Segment] = [self.directory.segment(base) for base in (0, 10, 20, 30)]
        self.disk.sync_directory(DIRECTORY)
        self.times_done = 0
        self.errors: list[DiskError] = []
        self.remover = SegmentRemover(
            self.disk, self.schedule, DIRECTORY, on_done=self._done, on_error=self.errors.append
        )
        self.remover.set_delay(DELAY_MS)

    def _done(self) -> None:
        assert self.left == [30], "called before the last segment was unlinked"
        self.times_done += 1

    @property
    def left(self) -> list[int]:
        return self.directory.files(".log")

    @property
    def deleted(self) -> list[int]:
        """The base offsets of the log files that wait to be unlinked."""
        names = self.disk.list(DIRECTORY)
        return [int(name[:20]) for name in names if name.endswith(".log.deleted")]


@pytest.fixture
def removal() -> Removal:
    return Removal()


def test_segments_are_removed_one_by_one_from_the_oldest(removal: Removal) -> None:
    removal.remover.remove(removal.segments[:3])
    assert removal.left == [0, 10, 20, 30], "nothing is removed inside the call"
    seen = []
    for _ in range(3):
        removal.schedule.step()
        seen.append(removal.left)
    assert seen == [[10, 20, 30], [20, 30], [30]]
    assert (removal.times_done, len(removal.remover), removal.errors) == (1, 0, [])


def test_removed_files_are_unlinked_after_the_delay(removal: Removal) -> None:
    removal.remover.remove(removal.segments[:3])
    removal.schedule.run_for(DELAY_MS - 1)
    assert (removal.left, removal.deleted) == ([30], [0, 10, 20])
    removal.schedule.run_for(1)
    assert (removal.left, removal.deleted) == ([30], [])
    assert removal.disk.list(DIRECTORY) == ["00000000000000000030.log"]


def test_a_removed_segment_can_be_read_until_it_is_unlinked(removal: Removal) -> None:
    segment = removal.segments[2]
    segment.file.append([b"batch"])
    removal.remover.remove(removal.segments[:3])
    removal.schedule.run_for(DELAY_MS - 1)
    assert segment.file.read(0, 5) == b"batch"


@pytest.mark.parametrize("seed", range(20))
def test_segments_that_come_back_after_a_power_loss_leave_no_gap(
    removal: Removal, seed: int
) -> None:
    removal.remover.remove(removal.segments[:3])
    for _ in range(seed % 4):
        removal.schedule.step()
    removal.directory.lose_power(seed)
    assert removal.left in ([0, 10, 20, 30], [10, 20, 30], [20, 30], [30])


def test_segments_that_are_queued_later_are_removed_after_the_others(removal: Removal) -> None:
    removal.remover.remove(removal.segments[:1])
    removal.remover.remove(removal.segments[1:3])
    removal.schedule.run_for(0)
    assert (removal.left, removal.times_done) == ([30], 1)


def test_after_a_failed_sync_nothing_is_removed_until_the_next_removal(removal: Removal) -> None:
    removal.disk.fails_syncs = True
    removal.remover.remove(removal.segments[:2])
    removal.schedule.run_for(0)
    assert (removal.left, len(removal.errors), removal.times_done) == ([0, 10, 20, 30], 1, 0)
    removal.disk.fails_syncs = False
    removal.remover.remove(removal.segments[2:3])
    removal.schedule.run_for(0)
    assert (removal.left, removal.times_done) == ([30], 1)


def test_remove_now_removes_all_before_it_returns(removal: Removal) -> None:
    removal.remover.remove(removal.segments[:3])
    removal.remover.remove_now()
    assert (removal.left, len(removal.remover)) == ([30], 0)
    removal.schedule.run_for(0)
    assert (removal.left, removal.errors) == ([30], [])


def test_a_closed_remover_removes_nothing(removal: Removal) -> None:
    removal.remover.remove(removal.segments[:3])
    removal.schedule.step()
    removal.remover.close()
    removal.schedule.run_for(0)
    assert (removal.left, removal.times_done) == ([10, 20, 30], 0)


def test_segments_whose_delays_end_together_are_unlinked_one_by_one(
    removal: Removal, monkeypatch: pytest.MonkeyPatch
) -> None:
    removal.remover.remove(removal.segments[:3])
    removal.schedule.run_for(DELAY_MS - 1)
    calls: list[int] = []
    remove_later = removal.disk.remove_later

    def record(paths: Sequence[str], done: Callable[[DiskError | None], None]) -> None:
        calls.append(len(removal.deleted))
        remove_later(paths, done)

    monkeypatch.setattr(removal.disk, "remove_later", record)
    removal.schedule.run_for(1)
    assert calls == [3, 2, 1], "each begins when the one before is done"
    assert removal.deleted == []


def test_an_unlink_that_fails_does_not_keep_the_others(removal: Removal) -> None:
    removal.remover.remove(removal.segments[:3])
    removal.schedule.run_for(DELAY_MS - 1)
    removal.disk.fail_at = removal.disk.operations + 1
    removal.schedule.run_for(1_000)
    assert (len(removal.deleted), len(removal.errors)) == (1, 1)
