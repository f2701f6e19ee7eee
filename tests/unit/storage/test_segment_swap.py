"""The swap of a cleaned segment: a crash at any disk operation loses no live record."""

from collections.abc import Callable, Iterator
from copy import deepcopy

import pytest

from sawlog.core.ports import DiskError, TooManyOpenFiles
from sawlog.protocol.records import Record
from sawlog.simulation.schedule import SeededRandom
from sawlog.simulation.simulated_disk import Stopped
from sawlog.storage.log_files import CLEANED
from sawlog.storage.segment import Segment
from sawlog.storage.segment_swap import SegmentSwap, complete_swaps
from support.storage.compaction import CompactedStorage, compacted, contents, latest
from support.storage.logs import TP
from support.storage.segments import DIRECTORY, PartitionDirectory, append_batch

Crash = Callable[[CompactedStorage], None]
CRASHES: dict[str, Crash] = {
    "kill": lambda storage: storage.kill(),
    **{
        f"power loss {seed}": lambda storage, seed=seed: lose_power(storage, seed)  # type: ignore[misc]
        for seed in range(4)
    },
}


def lose_power(storage: CompactedStorage, seed: int) -> None:
    storage.disk.power_loss(SeededRandom(seed))
    storage.schedule.clear()


def dirty_storage() -> CompactedStorage:
    """A log that is being cleaned: two or three segments are merged into one, and some of them have
    no live record."""
    storage = CompactedStorage(compacted(segment_bytes=300))
    for number in range(5):
        for name in ("a", "b", "c"):
            is_live = name == "b" and number % 4 in (0, 1)
            storage.put((f"live-{number}" if is_live else "dead", "x" * 20), ("dead", f"{number}"))
    storage.fill(5)
    storage.settle()
    storage.log.reconfigure(compacted(segment_bytes=700))
    storage.begin_cleaning()
    return storage


def stopped_in_each_operation() -> Iterator[CompactedStorage]:
    """A storage whose process stopped at each disk operation of a cleaning."""
    number = 1
    while True:
        storage = dirty_storage()
        storage.disk.stop_at = storage.disk.operations + number
        try:
            storage.end_cleaning()
        except Stopped:
            yield storage
            number += 1
        else:
            break
    assert number > 50, "a cleaning has many operations"


def files_of(storage: CompactedStorage) -> dict[str, bytes]:
    return {
        name: storage.disk.read_file(f"{TP}/{name}")
        for name in storage.disk.list(str(TP))
        if ".log" in name
    }


def assert_whole(storage: CompactedStorage, live: dict[bytes | None, Record]) -> None:
    """Assert that the log opens, that offsets ascend, and that all live records are there."""
    storage.open()
    found = contents(storage.log)
    assert latest(found) == live
    assert storage.names(".cleaned", ".swap", ".deleted") == []
    recovery = storage.directory.recovery
    assert (recovery.truncated_bytes, recovery.damaged_logs) == (0, 0)
    for record in found:
        assert storage.log.read(
            record.offset, 1, limit_offset=storage.log.end_offset, whole_first_batch=True
        ), "found by its offset"


@pytest.mark.parametrize("crash", CRASHES)
def test_a_crash_at_any_operation_of_a_cleaning_loses_nothing(crash: str) -> None:
    live = latest(contents(dirty_storage().log))
    for storage in stopped_in_each_operation():
        CRASHES[crash](storage)
        assert_whole(storage, live)
        # The second cleaning meets whatever the first one has left.
        storage.clean()
        assert latest(contents(storage.log)) == live
        storage.recover()
        assert latest(contents(storage.log)) == live


def unfinished_swaps(crash: str) -> Iterator[CompactedStorage]:
    """A storage for each different state of its files that the recovery has to finish."""
    seen: set[frozenset[str]] = set()
    for storage in stopped_in_each_operation():
        CRASHES[crash](storage)
        state = frozenset(storage.disk.list(str(TP)))
        if storage.names(".swap") and state not in seen:
            seen.add(state)
            yield storage
    assert len(seen) >= 8


@pytest.mark.parametrize(
    ("first", "second"),
    [("kill", "kill"), ("kill", "power loss 0"), ("power loss 1", "power loss 2")],
)
def test_a_crash_at_any_operation_of_the_recovery_loses_nothing(first: str, second: str) -> None:
    live = latest(contents(dirty_storage().log))
    for storage in unfinished_swaps(first):
        original = storage.schedule, storage.disk
        number = 0
        is_stopped = True
        while is_stopped:
            number += 1
            storage.schedule, storage.disk = deepcopy(original)
            storage.disk.stop_at = storage.disk.operations + number
            try:
                storage.open()
                is_stopped = False
            except Stopped:
                CRASHES[second](storage)
                assert_whole(storage, live)
        assert number > 1


def test_the_log_does_not_change_before_the_swap_counts() -> None:
    storage = dirty_storage()
    before = files_of(storage)
    assert storage.schedule.run(lambda: bool(storage.names(".log.swap")))
    left = files_of(storage)
    assert {name: data for name, data in left.items() if name in before} == before
    assert set(left) - set(before) == set(storage.names(".log.swap"))


# One swap by itself


class Swap:
    """A swap of one cleaned segment for two old ones."""

    def __init__(self) -> None:
        self.directory = PartitionDirectory()
        self.schedule, self.disk = self.directory.schedule, self.directory.disk
        self.old = [self.directory.segment(base) for base in (0, 10)]
        for segment in self.old:
            append_batch(segment, segment.base_offset, count=10)
            segment.finish()
        self.new = Segment(
            self.disk,
            DIRECTORY,
            0,
            created_ms=0,
            index_interval_bytes=4096,
            is_new=True,
            suffix=CLEANED,
        )
        append_batch(self.new, 5)
        self.new.finish()
        self.disk.sync_directory(DIRECTORY)
        self.replaced = 0
        self.outcomes: list[DiskError | None] = []
        self.swap = SegmentSwap(
            self.disk,
            self.schedule,
            DIRECTORY,
            self.old,
            self.new,
            on_replaced=self._replace,
            on_done=self.outcomes.append,
        )

    def _replace(self) -> None:
        assert self.kinds == {".log.swap", ".log.deleted"}, "once the old files are gone"
        self.replaced += 1

    @property
    def kinds(self) -> set[str]:
        return {name[20:] for name in self.disk.list(DIRECTORY) if ".log" in name}


def test_a_swap_renames_in_three_steps() -> None:
    swap = Swap()
    seen = [swap.kinds]
    swap.swap.begin()
    seen.append(swap.kinds)
    while swap.schedule.step():
        seen.append(swap.kinds)
    assert seen == [
        {".log", ".log.cleaned"},
        {".log", ".log.swap"},
        {".log.swap", ".log.deleted"},
        {".log", ".log.deleted"},
        {".log", ".log.deleted"},
    ]
    assert (swap.replaced, swap.outcomes) == (1, [None])
    assert (swap.new.suffix, [segment.suffix for segment in swap.old]) == ("", [".deleted"] * 2)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("steps", "is_done"), [(0, False), (1, True), (2, True), (3, True)])
def test_settle_undoes_or_finishes_the_swap(steps: int, is_done: bool, seed: int) -> None:
    swap = Swap()
    swap.swap.begin()
    for _ in range(steps):
        swap.schedule.step()
    swap.swap.settle()
    assert swap.replaced == is_done
    kinds = {".log", ".log.deleted"} if is_done else {".log"}
    assert swap.kinds == kinds
    swap.directory.lose_power(seed)
    assert swap.kinds == kinds, "durably"
    assert swap.directory.files(".log") == ([0] if is_done else [0, 10])


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_nothing_follows_after_settle(steps: int) -> None:
    swap = Swap()
    swap.swap.begin()
    for _ in range(steps):
        swap.schedule.step()
    swap.swap.settle()
    kinds = swap.kinds
    swap.schedule.run_for(10_000)
    assert (swap.kinds, swap.outcomes) == (kinds, [])


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_sync_without_a_descriptor_is_tried_again(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    swap = Swap()
    original, calls = swap.disk.sync_directory_later, [0]

    def fail_once(path: str, done: Callable[[DiskError | None], None]) -> None:
        calls[0] += 1
        if calls[0] == number:
            swap.schedule.soon(lambda: done(TooManyOpenFiles(path, "too many open files")))
        else:
            original(path, done)

    monkeypatch.setattr(swap.disk, "sync_directory_later", fail_once)
    swap.swap.begin()
    swap.schedule.run_for(10_000)
    assert (calls[0], swap.outcomes, swap.replaced) == (4, [None], 1)


def test_settle_also_ends_a_swap_that_waits_for_a_descriptor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    swap = Swap()
    monkeypatch.setattr(
        swap.disk,
        "sync_directory_later",
        lambda path, done: done(TooManyOpenFiles(path, "too many open files")),
    )
    swap.swap.begin()
    swap.swap.settle()
    swap.schedule.run_for(10_000)
    assert (swap.kinds, swap.replaced, swap.outcomes) == ({".log"}, 0, [])


def test_a_failed_sync_is_reported_and_nothing_follows() -> None:
    swap = Swap()
    swap.swap.begin()
    swap.disk.fails_syncs = True
    swap.schedule.run_for(10_000)
    assert len(swap.outcomes) == 1
    assert isinstance(swap.outcomes[0], DiskError)
    assert (swap.replaced, swap.kinds) == (0, {".log", ".log.swap"})


def test_a_rename_that_fails_at_the_beginning_is_an_error() -> None:
    swap = Swap()
    swap.disk.fail_at = swap.disk.operations + 1
    with pytest.raises(DiskError):
        swap.swap.begin()
    assert swap.kinds == {".log", ".log.cleaned"}
    assert swap.schedule.step() is False


# Recovery of a directory, by its names


def left_after(names: list[str], ends: dict[int, int]) -> list[str]:
    """The names that `complete_swaps` leaves of these; short base offsets."""
    directory = PartitionDirectory()
    full = [f"{name.partition('.')[0]:0>20}.{name.partition('.')[2]}" for name in names]
    for name in full:
        directory.disk.open(f"{DIRECTORY}/{name}", create=True)
    listed = complete_swaps(directory.disk, DIRECTORY, sorted(full), ends.__getitem__)
    assert listed == directory.disk.list(DIRECTORY)
    return [f"{int(name[:20])}{name[20:]}" for name in listed]


def test_a_directory_without_swaps_is_not_touched() -> None:
    names = ["0.log", "0.index", "7.log.cleaned", "7.log.deleted", "9.snapshot"]
    directory = PartitionDirectory()
    operations = directory.disk.operations
    assert complete_swaps(directory.disk, DIRECTORY, names, {}.__getitem__) == names
    assert directory.disk.operations == operations


def test_the_old_segments_within_the_range_are_removed() -> None:
    names = ["0.log", "0.index", "0.timeindex", "10.log", "20.log", "0.log.swap", "0.index.swap"]
    assert left_after(names, {0: 15}) == ["0.index", "0.log", "20.log"]


def test_segments_after_the_last_live_record_stay() -> None:
    assert left_after(["0.log.swap", "10.log", "20.log"], {0: 10}) == ["0.log", "10.log", "20.log"]


def test_an_empty_cleaned_segment_replaces_the_one_of_its_offset() -> None:
    assert left_after(["0.log", "10.log", "0.log.swap"], {0: 0}) == ["0.log", "10.log"]


def test_an_index_without_its_log_file_is_removed() -> None:
    names = ["0.log", "0.index", "0.index.swap", "0.timeindex.swap"]
    assert left_after(names, {}) == ["0.index", "0.log"]


def test_segments_before_the_swap_and_snapshots_stay() -> None:
    names = ["0.log", "10.log", "10.log.swap", "12.snapshot"]
    assert left_after(names, {10: 20}) == ["0.log", "10.log", "12.snapshot"]
