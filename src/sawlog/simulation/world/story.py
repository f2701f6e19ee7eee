"""Makes the story of a failed run short: fewer faults, and only the last lines that matter."""

from collections.abc import Callable

from sawlog.simulation.world.faults import Fault
from sawlog.simulation.world.simulation import RunResult, Simulation, SimulationOptions

MAX_RUNS = 40
STORY_LINES = 60


def shrink(
    seed: int,
    options: SimulationOptions,
    failed: RunResult,
    progress: Callable[[str], None],
    *,
    max_runs: int = MAX_RUNS,
) -> tuple[RunResult, list[Fault]]:
    """Leave out faults, half of them and then one at a time, while the same guarantee breaks.

    Returns the last failing run and its faults. Every run counts against `max_runs`.
    """
    faults = Simulation(seed, options).faults
    best = failed
    runs = 0
    size = max(1, len(faults) // 2)
    while runs < max_runs and faults:
        position, has_shrunk = 0, False
        while position < len(faults) and runs < max_runs:
            fewer = faults[:position] + faults[position + size :]
            runs += 1
            result = Simulation(seed, options, fewer).run()
            if _is_same(result, failed):
                best, faults, has_shrunk = result, fewer, True
                progress(f"still fails with {len(faults)} faults")
            else:
                position += size
        if size == 1 and not has_shrunk:
            break
        size = max(1, size // 2)
    return best, faults


def _is_same(result: RunResult, failed: RunResult) -> bool:
    return (
        result.violation is not None
        and failed.violation is not None
        and result.violation.guarantee == failed.violation.guarantee
    )


def last_lines(result: RunResult, partition: str | None = None) -> list[str]:
    """The last lines of the trace, without those about other partitions than `partition`."""
    lines = result.story
    if partition is not None:
        lines = [line for line in lines if partition in line or not _names_partition(line)]
    return lines[-STORY_LINES:]


def _names_partition(line: str) -> bool:
    subject = line[11:].split(":")[0].split(" ")[0]
    return subject[-1:].isdigit() and "-" in subject


def partition_of(result: RunResult) -> str | None:
    """The partition that the violation names first, if any."""
    for word in str(result.violation).replace(":", " ").split():
        name, dash, index = word.rpartition("-")
        if dash and name and index.isdigit() and "broker" not in name:
            return word
    return None
