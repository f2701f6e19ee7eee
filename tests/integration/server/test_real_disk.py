"""The real disk: descriptors, symbolic links, the lock, system errors."""

import errno
import os
import queue
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sawlog.core.ports import DiskError, DiskFull, TooManyOpenFiles
from sawlog.server.disk import DirectoryInUse, RealDisk
from sawlog.server.disk_files import disk_error


class Loop:
    """Replaces the event loop."""

    def __init__(self) -> None:
        self._arrived: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def notify(self, action: Callable[[], None]) -> None:
        self._arrived.put(action)

    def deliver_until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._arrived.get(timeout=30)()


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def disk(tmp_path: Path, loop: Loop) -> Iterator[RealDisk]:
    (tmp_path / "data").mkdir()
    disk = RealDisk(str(tmp_path / "data"), loop.notify, max_descriptors=4)
    yield disk
    disk.close()


def descriptors_in(root: str) -> int:
    held = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            held += os.readlink(f"/proc/self/fd/{name}").startswith(root + "/")
        except OSError:
            pass
    return held


@contextmanager
def limited(kind: int, soft: int) -> Iterator[None]:
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(kind, before)


def fill_gaps(below: int) -> list[int]:
    """Open every free descriptor number below `below`."""
    fillers = [os.open("/dev/null", os.O_RDONLY)]
    while fillers[-1] < below:
        fillers.append(os.open("/dev/null", os.O_RDONLY))
    return fillers


# Descriptors


def test_open_descriptors_are_bounded(disk: RealDisk) -> None:
    files = [disk.open(str(number), create=True) for number in range(20)]
    for file in files:
        file.append([b"x"])
        file.sync()
    assert descriptors_in(disk.root) == 4
    for file in files:
        assert file.read(0, 1) == b"x"
    assert descriptors_in(disk.root) == 4


def test_a_pinned_descriptor_stays(disk: RealDisk) -> None:
    pinned = disk.open("pinned", create=True)
    pinned.append([b"slice"])
    with pinned.descriptor() as descriptor:
        for number in range(20):
            disk.open(str(number), create=True).append([b"x"])
        assert os.pread(descriptor, 5, 0) == b"slice"
    with pinned.descriptor() as again:
        assert again == descriptor


def test_a_pinned_slice_survives_the_removal_of_its_file(disk: RealDisk) -> None:
    file = disk.open("a", create=True)
    file.append([b"slice"])
    descriptor = file.pin()
    disk.remove("a")
    assert os.pread(descriptor, 5, 0) == b"slice"
    file.unpin()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.pread(descriptor, 5, 0)
    assert descriptors_in(disk.root) == 0


def test_files_with_unsynced_bytes_are_closed_last(disk: RealDisk) -> None:
    dirty = disk.open("dirty", create=True)
    dirty.append([b"x"])
    with dirty.descriptor() as descriptor:
        pass
    for number in range(10):
        file = disk.open(str(number), create=True)
        file.read(0, 1)
    with dirty.descriptor() as again:
        assert again == descriptor


def test_a_rewrite_makes_the_pages_dirty(disk: RealDisk) -> None:
    file = disk.open("a", create=True)
    file.append([bytes(3 << 20)])
    file.sync()
    path = Path(disk.root) / "a"
    assert path.stat().st_size == 3 << 20
    os.utime(path, ns=(0, 0))
    file.rewrite(1 << 20, 2 << 20)
    assert file.is_dirty
    assert path.stat().st_mtime_ns > 0, "the file was written"
    assert path.stat().st_size == 3 << 20


def test_running_out_of_descriptors_raises_too_many_open_files(tmp_path: Path, loop: Loop) -> None:
    (tmp_path / "data").mkdir()
    disk = RealDisk(str(tmp_path / "data"), loop.notify, max_descriptors=10_000)
    files = [disk.open(str(number), create=True) for number in range(20)]
    used = len(os.listdir("/proc/self/fd"))
    with limited(resource.RLIMIT_NOFILE, used):
        files.append(disk.open("one more", create=True))  # closes the descriptor of another
        for file in files:
            assert file.read(0, 1) == b"", "they take turns"
    held = [file for file in files if file.pin() >= 0]
    used = max(int(name) for name in os.listdir("/proc/self/fd"))
    fillers = fill_gaps(used)
    with limited(resource.RLIMIT_NOFILE, used), pytest.raises(TooManyOpenFiles):
        disk.open("another", create=True)
    for descriptor in fillers:
        os.close(descriptor)
    for file in held:
        file.unpin()
    disk.open("another", create=True)
    disk.close()


# Errors


def test_a_partial_write_is_truncated(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.open("a", create=True)
    file.append([b"before"])
    with limited(resource.RLIMIT_FSIZE, 1_000), pytest.raises(DiskError):
        file.append([bytes(600), bytes(600)])
    assert file.size == 6
    assert (tmp_path / "data" / "a").stat().st_size == 6
    assert file.append([b"after"]) == 6
    assert file.read(0, 100) == b"beforeafter"


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, DiskFull),
        (errno.EDQUOT, DiskFull),
        (errno.EMFILE, TooManyOpenFiles),
        (errno.ENFILE, TooManyOpenFiles),
        (errno.EIO, DiskError),
    ],
)
def test_system_errors_become_disk_errors(number: int, kind: type[DiskError]) -> None:
    error = disk_error("a/b", OSError(number, os.strerror(number)))
    assert type(error) is kind
    assert error.path == "a/b"


def test_a_failed_replacement_leaves_nothing_behind(disk: RealDisk) -> None:
    disk.replace("checkpoint", b"old")
    with limited(resource.RLIMIT_FSIZE, 1_000), pytest.raises(DiskError):
        disk.replace("checkpoint", bytes(5_000))
    assert disk.read_file("checkpoint") == b"old"
    assert disk.list("") == ["checkpoint"]


# One process, one directory


def test_the_directory_is_locked(tmp_path: Path, loop: Loop) -> None:
    first = RealDisk(str(tmp_path / "data"), loop.notify)
    first.lock()
    second = RealDisk(str(tmp_path / "data"), loop.notify)
    with pytest.raises(DirectoryInUse):
        second.lock()
    first.close()
    second.lock()
    second.close()


def test_symbolic_links_out_of_the_directory_are_rejected(disk: RealDisk, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    os.symlink(outside, tmp_path / "data" / "topic-0")
    os.symlink(outside / "secret", tmp_path / "data" / "link")
    with pytest.raises(DiskError):
        disk.list("topic-0")
    with pytest.raises(DiskError):
        disk.open("topic-0/secret")
    with pytest.raises(DiskError):
        disk.open("topic-0/new", create=True)
    with pytest.raises(DiskError):
        disk.replace("topic-0/new", b"")
    with pytest.raises(DiskError):
        disk.make_directory("topic-0/sub")
    with pytest.raises(DiskError):
        disk.open("link")
    with pytest.raises(DiskError):
        disk.read_file("link")
    assert sorted(path.name for path in outside.iterdir()) == ["secret"]
    disk.remove("link")
    assert (outside / "secret").exists()


def test_a_directory_replaced_by_a_link_is_rejected(disk: RealDisk, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    disk.make_directory("p-0")
    os.rmdir(tmp_path / "data" / "p-0")
    (tmp_path / "data" / "link").symlink_to(tmp_path / "outside")
    disk.rename("link", "p-0")
    with pytest.raises(DiskError):
        disk.open("p-0/file", create=True)


def calls_during(work: Callable[[], None]) -> int:
    """Count the function calls, including built-in functions."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def test_the_cost_of_a_rename_does_not_depend_on_the_number_of_directories(disk: RealDisk) -> None:
    costs = []
    for count in (10, 200):
        for number in range(count):
            disk.make_directory(f"of-{count}-{number}")
            disk.open(f"of-{count}-{number}/file", create=True)

        def move(name: str = f"of-{count}-1") -> None:
            disk.rename(name, f"{name}-delete")
            disk.remove_directory(f"{name}-delete")

        costs.append(calls_during(move))
    assert costs[1] < costs[0] + 10


def test_the_data_directory_itself_may_be_a_link(tmp_path: Path, loop: Loop) -> None:
    (tmp_path / "volume").mkdir()
    os.symlink(tmp_path / "volume", tmp_path / "data")
    disk = RealDisk(str(tmp_path / "data"), loop.notify)
    disk.replace("a", b"1")
    assert (tmp_path / "volume" / "a").read_bytes() == b"1"
    disk.close()


# Threads


def test_many_syncs_finish_exactly_once(disk: RealDisk, loop: Loop) -> None:
    files = [disk.open(str(number), create=True) for number in range(40)]
    answers: list[tuple[int, DiskError | None]] = []
    for round_ in range(3):
        for number, file in enumerate(files):
            file.append([b"x"])
            file.sync_later(lambda error, key=round_ * 100 + number: answers.append((key, error)))
    loop.deliver_until(lambda: len(answers) == 120)
    assert len({key for key, _ in answers}) == 120
    assert all(error is None for _, error in answers)
    assert disk.threads.under_way == 0


def test_a_callback_that_raises_does_not_affect_the_others(disk: RealDisk, loop: Loop) -> None:
    file = disk.open("a", create=True)
    answers: list[object] = []

    def broken(error: DiskError | None) -> None:
        raise RuntimeError("a bug")

    file.sync_later(broken)
    file.sync_later(answers.append)
    loop.deliver_until(lambda: bool(answers))
    assert answers == [None]


def test_the_space_of_a_missing_directory_is_a_disk_error(tmp_path: Path, loop: Loop) -> None:
    disk = RealDisk(str(tmp_path / "gone"), loop.notify)
    with pytest.raises(DiskError, match="gone"):
        disk.space()
    disk.close()
