"""The broker loses power at every step of random workloads; what it promised survives."""

import pytest

from sawlog.core.ports import DiskError
from sawlog.simulation.simulated_broker import SimulatedMachine
from sawlog.simulation.simulated_disk import Stopped
from sawlog.simulation.workload import Workload

STEPS = 40
FAST_SEEDS = range(2)
LONG_SEEDS = range(2, 8)
SOAK_SEEDS = range(8, 200)


def operations_of(seed: int) -> int:
    """How many steps the disk takes in an undisturbed run."""
    machine = SimulatedMachine(seed)
    machine.boot()
    workload = Workload(machine, seed)
    workload.prepare()
    workload.run(STEPS)
    machine.stop()
    return machine.disk.operations


def run_until(machine: SimulatedMachine, workload: Workload, stop_at: int) -> None:
    """Runs the workload until the disk stops the process at that step, or to its clean end."""
    machine.disk.stop_at = stop_at
    try:
        machine.boot()
        workload.prepare()
        workload.run(STEPS)
        machine.stop()
    except Stopped:
        pass


def lose_power_at(seed: int, stop_at: int, *, forgets_syncs: bool = False) -> None:
    machine = SimulatedMachine(seed)
    machine.disk.forgets_syncs = forgets_syncs
    workload = Workload(machine, seed)
    run_until(machine, workload, stop_at)
    machine.lose_power()
    workload.crashed()
    machine.disk.stop_at = None
    machine.boot()
    workload.check()
    workload.prepare()
    workload.run(10)
    machine.stop()
    machine.boot()
    workload.check()


@pytest.mark.parametrize("seed", FAST_SEEDS)
def test_power_loss_at_any_step_loses_nothing_promised(seed: int) -> None:
    for stop_at in range(1, operations_of(seed) + 1, 3):
        lose_power_at(seed, stop_at + seed % 3)


@pytest.mark.parametrize(
    "seed",
    [
        *(pytest.param(seed, marks=pytest.mark.long) for seed in LONG_SEEDS),
        *(pytest.param(seed, marks=pytest.mark.soak) for seed in SOAK_SEEDS),
    ],
)
def test_power_loss_at_every_step_of_many_workloads(seed: int) -> None:
    for stop_at in range(1, operations_of(seed) + 1):
        lose_power_at(seed, stop_at)


@pytest.mark.parametrize("seed", FAST_SEEDS)
def test_power_loss_after_power_loss_loses_nothing_promised(seed: int) -> None:
    """The second loss comes while the broker recovers from the first."""
    for second in range(1, 40, 2):
        machine = SimulatedMachine(seed)
        workload = Workload(machine, seed)
        run_until(machine, workload, 150)
        machine.lose_power()
        workload.crashed()
        machine.disk.stop_at = machine.disk.operations + second
        try:
            machine.boot()
            workload.check()
        except Stopped:
            machine.lose_power()
            workload.crashed()
            machine.boot()
            workload.check()


def test_a_disk_that_only_pretends_to_sync_is_caught() -> None:
    """The proof that the tests above would notice a missing fdatasync."""
    caught = 0
    for stop_at in range(60, operations_of(0), 5):
        try:
            lose_power_at(0, stop_at, forgets_syncs=True)
        except (AssertionError, DiskError):
            caught += 1
    assert caught > 0


@pytest.mark.parametrize("seed", FAST_SEEDS)
def test_kill_at_any_step_loses_nothing_promised(seed: int) -> None:
    for stop_at in range(1, operations_of(seed) + 1, 7):
        machine = SimulatedMachine(seed)
        workload = Workload(machine, seed)
        run_until(machine, workload, stop_at)
        machine.kill()
        workload.crashed()
        machine.boot()
        workload.check()
