"""The contract of the Disk port, for the real and the simulated disk."""

import queue
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sawlog.core.ports import Disk, DiskError
from sawlog.server.disk import RealDisk
from sawlog.simulation.schedule import Schedule
from sawlog.simulation.simulated_disk import SimulatedDisk


class DiskHarness:
    """A disk, and a way to run its deferred callbacks."""

    def __init__(self, disk: Disk, deliver_one: Callable[[], None]) -> None:
        self.disk = disk
        self._deliver_one = deliver_one

    def wait_for(
        self, begin: Callable[[Callable[[DiskError | None], None]], None]
    ) -> DiskError | None:
        results: list[DiskError | None] = []
        begin(results.append)
        assert not results, "`done` was called from inside the call"
        while not results:
            self._deliver_one()
        assert len(results) == 1
        return results[0]


@pytest.fixture(params=["real", "simulated"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DiskHarness]:
    if request.param == "simulated":
        schedule = Schedule(1)

        def step() -> None:
            assert schedule.step()

        yield DiskHarness(SimulatedDisk(schedule.soon), step)
        return
    arrived: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    (tmp_path / "data").mkdir()
    disk = RealDisk(str(tmp_path / "data"), arrived.put, max_descriptors=8)

    def deliver_one() -> None:
        arrived.get(timeout=30)()

    yield DiskHarness(disk, deliver_one)
    disk.close()


@pytest.fixture
def disk(harness: DiskHarness) -> Disk:
    return harness.disk


def test_appended_bytes_are_read_at_their_position(disk: Disk) -> None:
    file = disk.open("a", create=True)
    assert file.append([b"one", bytearray(b"two"), memoryview(b"three")]) == 0
    assert file.append([b"four"]) == 11
    assert file.size == 15
    assert file.read(0, 15) == b"onetwothreefour"
    assert file.read(3, 3) == b"two"
    assert file.read(11, 100) == b"four"
    assert file.read(15, 10) == b""
    assert file.read(100, 10) == b""


def test_an_empty_append_changes_nothing(disk: Disk) -> None:
    file = disk.open("a", create=True)
    assert file.append([]) == 0
    assert file.append([b""]) == 0
    assert file.size == 0


def test_a_missing_file_is_opened_only_with_create(disk: Disk) -> None:
    with pytest.raises(FileNotFoundError):
        disk.open("a")
    assert not disk.exists("a")
    disk.open("a", create=True)
    assert disk.exists("a")
    assert disk.open("a").size == 0


def test_a_file_is_not_created_without_its_directory(disk: Disk) -> None:
    with pytest.raises(DiskError):
        disk.open("missing/a", create=True)
    with pytest.raises(FileNotFoundError):
        disk.open("missing/a")
    with pytest.raises(DiskError):
        disk.replace("missing/a", b"")


def test_a_path_opened_twice_is_one_handle(disk: Disk) -> None:
    file = disk.open("a", create=True)
    file.append([b"123"])
    assert disk.open("a", create=True) is file
    file.close()
    again = disk.open("a")
    assert again.size == 3
    assert again.path == "a"


def test_appends_continue_after_a_truncation(disk: Disk) -> None:
    file = disk.open("a", create=True)
    file.append([b"0123456789"])
    file.truncate(4)
    assert file.size == 4
    assert file.append([b"xy"]) == 4
    assert file.read(0, 100) == b"0123xy"


@pytest.mark.parametrize(
    ("position", "length"), [(0, 3 << 20), (1_000_000, 2 << 20), (5, 0), (3_000_000, 1 << 30)]
)
def test_a_rewrite_changes_no_byte(disk: Disk, position: int, length: int) -> None:
    data = bytes(range(251)) * 12_000
    file = disk.open("a", create=True)
    file.append([data])
    file.rewrite(position, length)
    assert file.size == len(data)
    assert file.read(0, len(data) + 1) == data
    file.sync()
    assert file.append([b"next"]) == len(data)


def test_a_removed_file_rejects_a_rewrite(disk: Disk) -> None:
    file = disk.open("a", create=True)
    file.append([b"1"])
    disk.remove("a")
    with pytest.raises(DiskError):
        file.rewrite(0, 1)


def test_sync_and_sync_later_succeed(harness: DiskHarness) -> None:
    file = harness.disk.open("a", create=True)
    file.append([b"1"])
    file.sync()
    file.append([b"2"])
    assert harness.wait_for(file.sync_later) is None


def test_a_closed_file_finishes_its_sync(harness: DiskHarness) -> None:
    file = harness.disk.open("a", create=True)
    file.append([b"1"])

    def sync_and_close(done: Callable[[DiskError | None], None]) -> None:
        file.sync_later(done)
        file.close()
        harness.disk.remove("a")

    assert harness.wait_for(sync_and_close) is None


def test_a_removed_file_rejects_writes_and_syncs(harness: DiskHarness) -> None:
    file = harness.disk.open("a", create=True)
    file.append([b"1"])
    harness.disk.remove("a")
    with pytest.raises(DiskError):
        file.append([b"2"])
    assert isinstance(harness.wait_for(file.sync_later), DiskError)


def test_replace_writes_and_overwrites_small_files(disk: Disk) -> None:
    with pytest.raises(FileNotFoundError):
        disk.read_file("checkpoint")
    disk.replace("checkpoint", b"first")
    assert disk.read_file("checkpoint") == b"first"
    disk.replace("checkpoint", memoryview(b"second, longer"))
    assert disk.read_file("checkpoint") == b"second, longer"
    assert disk.list("") == ["checkpoint"]


def test_read_file_reads_large_files_completely(disk: Disk) -> None:
    data = bytes(range(256)) * 1000
    disk.replace("large", data)
    assert disk.read_file("large") == data


def test_replace_later_writes_all_files(harness: DiskHarness) -> None:
    disk = harness.disk
    disk.make_directory("p-0")
    files = [("p-0/snapshot", b"s"), ("checkpoint", b"c")]
    assert harness.wait_for(lambda done: disk.replace_later(files, done)) is None
    assert disk.read_file("p-0/snapshot") == b"s"
    assert disk.read_file("checkpoint") == b"c"


def test_a_replace_wins_over_one_that_is_under_way(harness: DiskHarness) -> None:
    disk = harness.disk

    def race(done: Callable[[DiskError | None], None]) -> None:
        disk.replace_later([("checkpoint", b"old")], done)
        disk.replace("checkpoint", b"new")

    assert harness.wait_for(race) is None
    assert disk.read_file("checkpoint") == b"new"
    assert disk.list("") == ["checkpoint"]


def test_replace_later_reports_a_removed_directory(harness: DiskHarness) -> None:
    disk = harness.disk
    disk.make_directory("p-0")

    def race(done: Callable[[DiskError | None], None]) -> None:
        disk.rename("p-0", "doomed")
        disk.replace_later([("p-0/snapshot", b"s")], done)

    assert isinstance(harness.wait_for(race), DiskError)


def test_directories_are_created_listed_and_removed(disk: Disk) -> None:
    disk.make_directory("a/b")
    disk.make_directory("a/b")
    disk.open("a/b/2", create=True)
    disk.open("a/b/1", create=True)
    assert disk.list("") == ["a"]
    assert disk.list("a/b") == ["1", "2"]
    disk.remove_directory("a")
    disk.remove_directory("a")
    assert disk.list("") == []
    with pytest.raises(FileNotFoundError):
        disk.list("a")


def test_removing_a_missing_file_is_no_error(disk: Disk) -> None:
    disk.open("a", create=True)
    disk.remove("a")
    disk.remove("a")
    assert disk.list("") == []


def test_a_removed_file_can_be_created_again(disk: Disk) -> None:
    disk.open("a", create=True).append([b"old"])
    disk.remove("a")
    assert disk.open("a", create=True).size == 0


def test_open_handles_follow_a_rename(disk: Disk) -> None:
    disk.make_directory("p-0")
    file = disk.open("p-0/log", create=True)
    file.append([b"12"])
    disk.rename("p-0", "p-0-delete")
    file.append([b"34"])
    assert file.path == "p-0-delete/log"
    assert disk.open("p-0-delete/log") is file
    assert file.read(0, 10) == b"1234"
    disk.rename("p-0-delete/log", "p-0-delete/moved")
    assert file.path == "p-0-delete/moved"
    assert disk.list("p-0-delete") == ["moved"]


def test_handles_in_nested_directories_follow_a_rename(disk: Disk) -> None:
    disk.make_directory("a/b")
    disk.make_directory("ab/b")
    file = disk.open("a/b/file", create=True)
    other = disk.open("ab/b/file", create=True)
    for old, new in (("a", "c"), ("c/b", "c/d"), ("c", "e")):
        disk.rename(old, new)
    file.append([b"12"])
    assert file.path == "e/d/file"
    assert disk.open("e/d/file") is file
    disk.remove_directory("e")
    disk.make_directory("e/d")
    assert disk.open("e/d/file", create=True) is not file, "the old file was removed"
    assert disk.open("ab/b/file") is other, "not in it"


def test_renaming_a_missing_file_is_an_error(disk: Disk) -> None:
    with pytest.raises(FileNotFoundError):
        disk.rename("a", "b")


def test_directories_are_synced(harness: DiskHarness) -> None:
    disk = harness.disk
    disk.make_directory("p-0")
    disk.sync_directory("")
    disk.open("p-0/log", create=True)
    disk.sync_directory("p-0")
    assert harness.wait_for(lambda done: disk.sync_directory_later("p-0", done)) is None


@pytest.mark.parametrize("path", ["../a", "a/../b", "", ".", "a/..", "a\0b"])
def test_no_path_leaves_the_directory(disk: Disk, path: str) -> None:
    disk.make_directory("a")
    with pytest.raises(DiskError):
        disk.open(path, create=True)
    with pytest.raises(DiskError):
        disk.replace(path, b"")


def test_more_files_than_descriptors_can_be_used(disk: Disk) -> None:
    files = [disk.open(str(number), create=True) for number in range(50)]
    for round_ in range(3):
        for number, file in enumerate(files):
            file.append([b"%d.%d " % (number, round_)])
    for number, file in enumerate(files):
        assert file.read(0, 100) == b"%d.0 %d.1 %d.2 " % (number, number, number)


def test_the_space_of_the_file_system_is_known(disk: Disk) -> None:
    assert disk.root.startswith("/")
    assert 0 <= disk.space().usable_bytes <= disk.space().total_bytes
    assert disk.space().total_bytes > 0
