"""`sawlog simulate`: run seeds of a whole simulated cluster under faults."""

import itertools
import time
from collections.abc import Iterable

import click

from sawlog.cli.exit_codes import FAILED
from sawlog.simulation.world.simulation import RunResult, Simulation, SimulationOptions
from sawlog.simulation.world.story import last_lines, partition_of, shrink

_HEADER = (
    f"{'seed':>8} {'events':>9} {'events/s':>9} {'simulated':>10} {'faults':>7} "
    f"{'acked':>7} {'read':>8}  trace"
)


class SeedRange(click.ParamType[range]):
    """`A..B`: the seeds from A up to but without B."""

    name = "A..B"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> range:
        first, dots, last = value.partition("..")
        if not dots or not first.isdigit() or not last.isdigit() or int(first) >= int(last):
            self.fail(f"{value!r} is not a range of seeds; expected A..B, as in 0..100", param, ctx)
        return range(int(first), int(last))


@click.command()
@click.option("--seed", type=click.IntRange(min=0), help="Run this seed only.")
@click.option("--seeds", type=SeedRange(), help="Run the seeds from A up to but without B.")
@click.option(
    "--minutes", type=click.FloatRange(min=0, min_open=True), help="Stop after this real time."
)
@click.option(
    "--brokers",
    type=click.IntRange(1, 9),
    default=3,
    show_default=True,
    help="Size of the cluster.",
)
@click.option(
    "--seconds",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Simulated time with faults in each run.",
)
@click.option("--keep-going", is_flag=True, help="Go on after a seed that fails.")
def simulate(
    seed: int | None,
    seeds: range | None,
    minutes: float | None,
    brokers: int,
    seconds: int,
    keep_going: bool,
) -> int:
    """Run simulated clusters under faults and check their guarantees.

    Without seeds it runs from seed 0 until Ctrl-C, or for --minutes. The same seed gives the same
    run on every machine. Exit code 1: a seed broke a guarantee.
    """
    if seed is not None and seeds is not None:
        raise click.UsageError("--seed and --seeds exclude each other")
    options = SimulationOptions(brokers, seconds * 1000, min(3, brokers))
    end = None if minutes is None else time.monotonic() + minutes * 60
    failures = 0
    click.echo(_HEADER)
    for number in _chosen(seed, seeds):
        if end is not None and time.monotonic() > end:
            break
        began = time.monotonic()
        result = Simulation(number, options).run()
        click.echo(_row(result, time.monotonic() - began))
        if result.violation is not None:
            failures += 1
            _tell(result, options)
            if not keep_going:
                break
    if failures:
        seeds_word = "seed" if failures == 1 else "seeds"
        click.echo(f"{failures} {seeds_word} broke a guarantee", err=True)
    return FAILED if failures else 0


def _chosen(seed: int | None, seeds: range | None) -> Iterable[int]:
    if seed is not None:
        return [seed]
    return itertools.count() if seeds is None else seeds


def _row(result: RunResult, seconds: float) -> str:
    return (
        f"{result.seed:>8} {result.events:>9} {result.events / max(seconds, 1e-6):>9.0f} "
        f"{result.simulated_ms / 1000:>9.1f}s {result.faults:>7} {result.acknowledged:>7} "
        f"{result.read:>8}  {result.trace_hash:08x}"
        + ("" if result.violation is None else f"  FAILED: {result.violation}")
    )


def _tell(result: RunResult, options: SimulationOptions) -> None:
    """Print the shortest story of a failed run that can be found, and how to run it again."""
    best, faults = shrink(
        result.seed, options, result, lambda text: click.echo(f"  {text}", err=True)
    )
    click.echo(f"\nSeed {result.seed} breaks {best.violation}")
    click.echo(f"With these {len(faults)} faults of its plan alone:")
    for fault in faults:
        click.echo(f"  after {fault.at_ms} ms: {fault}")
    click.echo("The last events:")
    for line in last_lines(best, partition_of(best)):
        click.echo(f"  {line}")
    click.echo(
        f"\nTo run it again: sawlog simulate --seed {result.seed} --brokers {options.brokers} "
        f"--seconds {options.duration_ms // 1000}\n"
    )
