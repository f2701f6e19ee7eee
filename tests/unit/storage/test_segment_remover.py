"""The removal of segment files: oldest first, each unlink durable before the next."""

from typing import TYPE_CHECKING

import pytest

from sawlog.storage.segment_remover import SegmentRemover
from support.storage.segments import DIRECTORY, PartitionDirectory

if TYPE_CHECKING:
    from sawlog.core.ports import DiskError
    from sawlog.storage.segment import Segment


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
            self.disk, DIRECTORY, on_done=self._done, on_error=self.errors.append
        )

    def _done(self) -> None:
        assert self.left == [30], "called before the last segment was unlinked"
        self.times_done += 1

    @property
    def left(self) -> list[int]:
        return self.directory.files(".log")


@pytest.fixture
def removal() -> Removal:
    return Removal()


def test_segments_are_unlinked_one_by_one_from_the_oldest(removal: Removal) -> None:
    removal.remover.remove(removal.segments[:3])
    assert removal.left == [0, 10, 20, 30], "nothing is unlinked inside the call"
    seen = []
    while removal.schedule.step():
        seen.append(removal.left)
    assert seen == [[10, 20, 30], [20, 30], [30]]
    assert (removal.times_done, len(removal.remover), removal.errors) == (1, 0, [])


@pytest.mark.parametrize("seed", range(20))
def test_segments_that_come_back_after_a_power_loss_leave_no_gap(
    removal: Removal, seed: int
) -> None:
    removal.remover.remove(removal.segments[:3])
    for _ in range(seed % 4):
        removal.schedule.step()
    removal.directory.lose_power(seed)
    assert removal.left in ([0, 10, 20, 30], [10, 20, 30], [20, 30], [30])


def test_segments_that_are_queued_later_are_unlinked_after_the_others(removal: Removal) -> None:
    removal.remover.remove(removal.segments[:1])
    removal.remover.remove(removal.segments[1:3])
    removal.schedule.run_for(0)
    assert (removal.left, removal.times_done) == ([30], 1)


def test_after_a_failed_sync_nothing_is_unlinked_until_the_next_removal(removal: Removal) -> None:
    removal.disk.fails_syncs = True
    removal.remover.remove(removal.segments[:2])
    removal.schedule.run_for(0)
    assert (removal.left, len(removal.errors), removal.times_done) == ([0, 10, 20, 30], 1, 0)
    removal.disk.fails_syncs = False
    removal.remover.remove(removal.segments[2:3])
    removal.schedule.run_for(0)
    assert (removal.left, removal.times_done) == ([30], 1)


def test_remove_now_unlinks_all_before_it_returns(removal: Removal) -> None:
    removal.remover.remove(removal.segments[:3])
    removal.remover.remove_now()
    assert (removal.left, len(removal.remover)) == ([30], 0)
    removal.schedule.run_for(0)
    assert (removal.left, removal.errors) == ([30], [])


def test_a_closed_remover_unlinks_nothing(removal: Removal) -> None:
    removal.remover.remove(removal.segments[:3])
    removal.schedule.step()
    removal.remover.close()
    removal.schedule.run_for(0)
    assert (removal.left, removal.times_done) == ([10, 20, 30], 0)
