"""Power loss and kill at every disk operation of a broker that compacts all the time."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest

from sawlog.core.ports import DiskError
from sawlog.simulation.keyed_workload import OFFSETS_TOPIC, SETTINGS, TOPIC, KeyedWorkload
from sawlog.simulation.simulated_broker import SimulatedMachine
from sawlog.simulation.simulated_disk import SimulatedDisk, Stopped
from sawlog.storage.log_files import CLEANED, CLEANER_OFFSETS, SWAP, decode_offsets
from sawlog.storage.segment_swap import SegmentSwap
from support.tiers import rounds

STEPS = 70
SEED = 3


class Crashes(NamedTuple):
    seeds: Sequence[int]
    every: int  # see `operations`


def started(seed: int) -> tuple[SimulatedMachine, KeyedWorkload]:
    machine = SimulatedMachine(seed, **SETTINGS)
    return machine, KeyedWorkload(machine, seed)


def whole_run(seed: int) -> SimulatedMachine:
    """A run without faults, which ends in the middle of things."""
    machine, workload = started(seed)
    machine.boot()
    workload.prepare()
    workload.run(STEPS)
    return machine


def run_until(machine: SimulatedMachine, workload: KeyedWorkload, stop_at: int) -> None:
    """Run the workload until the disk stops the process at that operation."""
    machine.disk.stop_at = stop_at
    try:
        machine.boot()
        workload.prepare()
        workload.run(STEPS)
    except Stopped:
        pass


def crash_at(seed: int, stop_at: int, *, loses_power: bool = True) -> None:
    machine, workload = started(seed)
    run_until(machine, workload, stop_at)
    crash(machine, workload, loses_power=loses_power)
    machine.boot()
    workload.check()
    workload.prepare()
    workload.run(10)
    crash(machine, workload, loses_power=loses_power)
    machine.boot()
    workload.check()


def crash(machine: SimulatedMachine, workload: KeyedWorkload, *, loses_power: bool) -> None:
    if loses_power:
        machine.lose_power()
    else:
        machine.kill()
    workload.crashed()


def operations(seed: int, every: int) -> Sequence[int]:
    """The numbers of every n-th disk operation around a swap; with 0, of all operations."""
    machine, workload = started(seed)
    found: set[int] = set()
    step = machine.disk.step

    def note(what: str, path: str) -> None:
        step(what, path)
        if what == "rename" and path.endswith((CLEANED, SWAP)):
            found.update(range(machine.disk.operations - 3, machine.disk.operations + 8))

    machine.disk.step = note  # type: ignore[method-assign]
    machine.boot()
    workload.prepare()
    workload.run(STEPS)
    assert len(found) > 50
    return sorted(found)[::every] if every else range(1, machine.disk.operations + 1)


def test_the_workload_compacts_both_topics() -> None:
    machine = whole_run(SEED)
    cleaned = decode_offsets(machine.disk.read_file(CLEANER_OFFSETS))
    assert {tp.topic for tp in cleaned} == {TOPIC, OFFSETS_TOPIC}
    assert all(offset > 0 for offset in cleaned.values())


@pytest.mark.parametrize(
    "crashes", rounds(fast=Crashes([SEED], 6), long=Crashes([4], 1), soak=Crashes(range(5, 25), 0))
)
def test_power_loss_keeps_the_last_value_of_every_key(crashes: Crashes) -> None:
    """At the operations around every swap; in the soak at all operations."""
    for seed in crashes.seeds:
        for stop_at in operations(seed, crashes.every):
            crash_at(seed, stop_at)


@pytest.mark.parametrize(
    "crashes", rounds(fast=Crashes([SEED], 12), long=Crashes([4], 4), soak=Crashes(range(4, 15), 0))
)
def test_a_kill_keeps_the_last_value_of_every_key(crashes: Crashes) -> None:
    for seed in crashes.seeds:
        for stop_at in operations(seed, crashes.every):
            crash_at(seed, stop_at, loses_power=False)


@pytest.mark.parametrize(
    "crashes",
    rounds(fast=Crashes([SEED], 60), long=Crashes([4], 24), soak=Crashes(range(4, 25), 1)),
)
def test_power_loss_while_a_swap_is_recovered_keeps_the_last_value_of_every_key(
    crashes: Crashes,
) -> None:
    for seed in crashes.seeds:
        for stop_at in operations(seed, crashes.every):
            second = 1
            while not recover_until(seed, stop_at, second):
                second += 1


def recover_until(seed: int, stop_at: int, second: int) -> bool:
    """Lose power at an operation, and again at an operation of the next start; returns whether the
    start had fewer operations."""
    machine, workload = started(seed)
    run_until(machine, workload, stop_at)
    crash(machine, workload, loses_power=True)
    machine.disk.stop_at = machine.disk.operations + second
    try:
        machine.boot()
        is_complete = True
        machine.disk.stop_at = None
    except Stopped:
        is_complete = False
        crash(machine, workload, loses_power=True)
        machine.boot()
    workload.check()
    return is_complete


def losses() -> int:
    """How many crashes around the swaps of a run lose something."""
    lost = 0
    for stop_at in operations(SEED, 6):
        try:
            crash_at(SEED, stop_at)
        except (AssertionError, DiskError):
            lost += 1
    return lost


def test_the_workload_detects_a_disk_that_does_not_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    init = SimulatedDisk.__init__

    def forget(self: SimulatedDisk, defer: Callable[[Callable[[], None]], None]) -> None:
        init(self, defer)
        self.forgets_syncs = True

    monkeypatch.setattr(SimulatedDisk, "__init__", forget)
    assert losses() > 0


def test_the_workload_detects_a_swap_that_does_not_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step of a swap relies on the one before; without the syncs between them, old and new
    segment are both gone after some power losses."""
    monkeypatch.setattr(SegmentSwap, "_sync", lambda self: self._synced(None))
    assert losses() > 0
