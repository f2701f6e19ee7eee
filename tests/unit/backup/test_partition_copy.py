"""The copy of a partition while its segments are appended to, rolled, deleted and replaced."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sawlog.backup.backup_error import BackupError
from sawlog.backup.partition_copy import MAX_ATTEMPTS, Bounds, WrongDirectory
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.storage import log_files
from support.backup.partition_files import OTHER_ID, PartitionFiles, batch, values_in


@pytest.fixture
def files(tmp_path: Path) -> PartitionFiles:
    return PartitionFiles(tmp_path / "data")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "backup"


def names(target: Path) -> list[str]:
    return sorted(path.name for path in (target / "orders-0").iterdir())


class Broker:
    """The broker's answers, with changes made before the first ones."""

    def __init__(self, *answers: Bounds, before: Callable[[], None] = lambda: None) -> None:
        self._answers = answers
        self._before = before
        self.asked = 0

    def __call__(self) -> Bounds:
        if not self.asked:
            self._before()
        self.asked += 1
        return self._answers[min(self.asked, len(self._answers)) - 1]


def once(action: Callable[[], None]) -> Callable[[], None]:
    done: list[bool] = []

    def call() -> None:
        if not done:
            done.append(True)
            action()

    return call


def test_a_copy_ends_at_the_high_watermark(files: PartitionFiles, target: Path) -> None:
    files.write(0, batch(0, 3))
    files.write(3, batch(3, 2), batch(5, 2))
    copied = files.copy(target, lambda: Bounds(0, 5))
    assert (copied.start_offset, copied.end_offset, copied.gaps) == (0, 5, [])
    assert list(values_in(target / "orders-0")) == [0, 1, 2, 3, 4]
    assert {file.name: file.size for file in copied.files} == {
        name: (target / "orders-0" / name).stat().st_size for name in names(target)
    }


def test_a_copy_is_not_a_hard_link(files: PartitionFiles, target: Path) -> None:
    files.write(0, batch(0, 3))
    files.copy(target, lambda: Bounds(0, 3))
    assert files.path(0).stat().st_nlink == 1


def test_segments_wholly_below_the_log_start_are_left_out(
    files: PartitionFiles, target: Path
) -> None:
    for base in (0, 3, 6):
        files.write(base, batch(base, 3))
    copied = files.copy(target, lambda: Bounds(4, 9))
    assert (copied.start_offset, copied.end_offset) == (4, 9)
    assert list(values_in(target / "orders-0")) == [3, 4, 5, 6, 7, 8]


def test_an_empty_log_keeps_its_offset(files: PartitionFiles, target: Path) -> None:
    files.write(50)
    copied = files.copy(target, lambda: Bounds(50, 50))
    assert (copied.start_offset, copied.end_offset) == (50, 50)
    assert log_files.offset_name(50, log_files.LOG) in names(target)


def test_leader_epochs_end_with_the_copied_batches(files: PartitionFiles, target: Path) -> None:
    files.write(0, batch(0, 3, epoch=1), batch(3, 2, epoch=4), batch(5, 1, epoch=6))
    files.copy(target, lambda: Bounds(1, 5))
    epochs = (target / "orders-0" / log_files.EPOCH_CHECKPOINT).read_bytes()
    assert log_files.decode_epochs(epochs) == [(1, 1), (4, 3)]


def test_records_appended_after_the_listing_are_in_the_copy(
    files: PartitionFiles, target: Path
) -> None:
    files.write(0, batch(0, 3))
    broker = Broker(Bounds(0, 8), before=lambda: files.write(0, batch(3, 5)))
    assert files.copy(target, broker).end_offset == 8
    assert broker.asked == 1


def test_a_segment_rolled_after_the_listing_is_copied(files: PartitionFiles, target: Path) -> None:
    files.write(0, batch(0, 3))
    broker = Broker(Bounds(0, 8), before=lambda: files.write(3, batch(3, 5)))
    assert files.copy(target, broker).end_offset == 8
    assert list(values_in(target / "orders-0")) == list(range(8))


def test_a_roll_above_the_high_watermark_needs_no_second_attempt(
    files: PartitionFiles, target: Path
) -> None:
    files.write(0, batch(0, 3))
    broker = Broker(Bounds(0, 3))
    files.copy(target, broker, at_batch=once(lambda: files.write(3, batch(3))))
    assert broker.asked == 1


def test_segments_deleted_by_retention_are_not_in_the_copy(
    files: PartitionFiles, target: Path
) -> None:
    for base in (0, 3, 6):
        files.write(base, batch(base, 3))
    broker = Broker(Bounds(0, 9), Bounds(6, 9), before=lambda: files.delete(0, 3))
    copied = files.copy(target, broker)
    assert (copied.start_offset, copied.end_offset) == (6, 9)
    assert list(values_in(target / "orders-0")) == [6, 7, 8]


def test_segments_deleted_after_they_were_copied_are_not_in_the_copy(
    files: PartitionFiles, target: Path
) -> None:
    for base in (0, 3, 6):
        files.write(base, batch(base, 3))
    broker = Broker(Bounds(0, 9), Bounds(3, 9))
    copied = files.copy(target, broker, at_batch=once(lambda: files.delete(0)))
    assert copied.start_offset == 3
    assert list(values_in(target / "orders-0")) == [3, 4, 5, 6, 7, 8]


def test_a_segment_that_the_cleaner_replaces_is_copied_again(
    files: PartitionFiles, target: Path
) -> None:
    files.write(0, batch(0, 1), batch(1, 1), batch(2, 1))
    files.write(3, batch(3, 3))
    broker = Broker(Bounds(0, 6))
    copied = files.copy(
        target, broker, at_batch=once(lambda: files.replace([0], batch(2, 1, value=b"cleaned")))
    )
    found = values_in(target / "orders-0")
    assert list(found) == [2, 3, 4, 5]
    assert found[2] == b"cleaned-2"
    assert [tuple(gap) for gap in copied.gaps] == [(0, 1)]


def test_segments_that_the_cleaner_merges_are_copied_as_one(
    files: PartitionFiles, target: Path
) -> None:
    for base in (0, 3, 6):
        files.write(base, batch(base, 3))
    broker = Broker(Bounds(0, 9), before=lambda: files.replace([0, 3], batch(1), batch(5)))
    files.copy(target, broker)
    assert list(values_in(target / "orders-0")) == [1, 5, 6, 7, 8]
    assert log_files.offset_name(3, log_files.LOG) not in names(target)


def test_all_segments_of_a_copy_are_of_one_moment(files: PartitionFiles, target: Path) -> None:
    """The cleaner removes a record and the marker that deletes it, from two segments."""
    files.write(0, batch(0, value=b"key=1"), batch(1))
    files.write(2, batch(2, value=b"key=deleted"), batch(3))
    files.write(4, batch(4))

    def clean() -> None:
        files.replace([0], batch(1))
        files.replace([2], batch(3))

    files.copy(target, Broker(Bounds(0, 5)), at_batch=once(clean))
    assert list(values_in(target / "orders-0")) == [1, 3, 4]


def test_a_copy_waits_until_the_cleaner_has_finished(files: PartitionFiles, target: Path) -> None:
    for base in (0, 3, 6):
        files.write(base, batch(base, 3))
    files.begin_replacing([3], batch(5))
    paused: list[float] = []

    def pause(seconds: float) -> None:
        paused.append(seconds)
        files.finish_replacing(3)

    files.copy(target, Broker(Bounds(0, 9)), pause=pause)
    assert list(values_in(target / "orders-0")) == [0, 1, 2, 5, 6, 7, 8]
    assert len(paused) == 1


def test_a_segment_that_stays_is_copied_only_once(files: PartitionFiles, target: Path) -> None:
    files.write(0, batch(0, 3))
    files.write(3, batch(3, 3))
    inodes: list[int] = []
    first = target / "orders-0" / files.path(0).name

    def change() -> None:
        inodes.append(first.stat().st_mtime_ns)
        files.replace([3], batch(3, 3, value=b"cleaned"))

    files.copy(target, Broker(Bounds(0, 6)), at_batch=once(change))
    assert [first.stat().st_mtime_ns] == inodes


def test_a_partition_that_changes_all_the_time_is_an_error(
    files: PartitionFiles, target: Path
) -> None:
    files.write(0, batch(0, 3))
    with pytest.raises(BackupError, match=f"changed during each of {MAX_ATTEMPTS} attempts"):
        files.copy(target, lambda: Bounds(0, 3), at_batch=lambda: files.replace([0], batch(0, 3)))


def test_segments_that_overlap_for_a_moment_are_copied_again(
    files: PartitionFiles, target: Path
) -> None:
    """A merged segment is in its place, and one of those that it replaces still exists."""
    files.write(0, batch(1), batch(5))
    files.write(3, batch(3, 3))
    files.write(6, batch(6, 3))
    files.copy(target, lambda: Bounds(0, 9), pause=lambda _: files.delete(3))
    assert list(values_in(target / "orders-0")) == [1, 5, 6, 7, 8]


def test_damage_is_an_error_with_its_place(files: PartitionFiles, target: Path) -> None:
    files.write(0, batch(0, 3), batch(3, 3)[:-1] + b"x")
    place = f"{files.path(0)}: position {len(batch(0, 3))}: "
    with pytest.raises(BackupError, match=re.escape(place) + ".* CRC; .* --exclude"):
        files.copy(target, lambda: Bounds(0, 6))


def test_a_log_that_ends_below_the_high_watermark_is_an_error(
    files: PartitionFiles, target: Path
) -> None:
    files.write(0, batch(0, 3))
    with pytest.raises(WrongDirectory, match="up to 3, but the broker serves offsets up to 6"):
        files.copy(target, lambda: Bounds(0, 6))


def test_a_topic_deleted_during_the_copy_is_the_brokers_error(
    files: PartitionFiles, target: Path
) -> None:
    files.write(0, batch(0, 3))

    def bounds() -> Bounds:
        if not files.directory.exists():
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        shutil.rmtree(files.directory)
        return Bounds(0, 3)

    with pytest.raises(KafkaError):
        files.copy(target, bounds)


def test_a_new_topic_of_the_same_name_is_not_copied(files: PartitionFiles, target: Path) -> None:
    files.write(0, batch(0, 3))

    def create_again() -> None:
        shutil.rmtree(files.directory)
        again = PartitionFiles(files.data, topic_id=OTHER_ID)
        again.write(0, batch(0, 3))

    with pytest.raises(WrongDirectory, match="another topic of the same name"):
        files.copy(target, Broker(Bounds(0, 3)), at_batch=once(create_again))
