"""Power loss and kill at every disk operation of random workloads: no promised record is lost."""

import pytest

from sawlog.core.ports import DiskError
from sawlog.simulation.simulated_broker import SimulatedMachine
from sawlog.simulation.simulated_disk import Stopped
from sawlog.simulation.workload import Workload

STEPS = 40
FAST_SEEDS = range(2)
LONG_SEEDS = range(2, 3)
SOAK_SEEDS = range(3, 200)


def operations_of(seed: int) -> int:
    """Count the disk operations of a run without faults."""
    machine = SimulatedMachine(seed)
    machine.boot()
    workload = Workload(machine, seed)
    workload.prepare()
    workload.run(STEPS)
    machine.stop()
    return machine.disk.operations


def run_until(machine: SimulatedMachine, workload: Workload, stop_at: int) -> None:
    """Run the workload until the disk stops the process at that operation, or to a clean stop."""
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
def test_power_loss_keeps_acknowledged_records(seed: int) -> None:
    for stop_at in range(1, operations_of(seed) + 1, 3):
        lose_power_at(seed, stop_at + seed % 3)


@pytest.mark.parametrize(
    "seed",
    [
        *(pytest.param(seed, marks=pytest.mark.long) for seed in LONG_SEEDS),
        *(pytest.param(seed, marks=pytest.mark.soak) for seed in SOAK_SEEDS),
    ],
)
def test_power_loss_keeps_acknowledged_records_for_many_seeds(seed: int) -> None:
    for stop_at in range(1, operations_of(seed) + 1):
        lose_power_at(seed, stop_at)


@pytest.mark.parametrize("seed", FAST_SEEDS)
def test_power_loss_during_recovery_keeps_acknowledged_records(seed: int) -> None:
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


def test_workload_detects_a_disk_that_does_not_sync() -> None:
    """Proves that the tests above would notice a missing fdatasync."""
    caught = 0
    for stop_at in range(60, operations_of(0), 5):
        try:
            lose_power_at(0, stop_at, forgets_syncs=True)
        except (AssertionError, DiskError):
            caught += 1
    assert caught > 0


@pytest.mark.parametrize("seed", FAST_SEEDS)
def test_kill_keeps_acknowledged_records(seed: int) -> None:
    for stop_at in range(1, operations_of(seed) + 1, 7):
        machine = SimulatedMachine(seed)
        workload = Workload(machine, seed)
        run_until(machine, workload, stop_at)
        machine.kill()
        workload.crashed()
        machine.boot()
        workload.check()
