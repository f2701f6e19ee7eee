"""`sawlog simulate`: which seeds it runs, what it prints, and its exit codes."""

import itertools
import re
from collections.abc import Callable, Iterator

import pytest

from sawlog.cli import simulate
from sawlog.cli.commands import run
from sawlog.cli.exit_codes import FAILED, USAGE
from sawlog.simulation.invariants.violation import Violation
from sawlog.simulation.world.faults import Fault
from sawlog.simulation.world.simulation import RunResult, Simulation, SimulationOptions
from support.simulation.planted_bugs import watermark_over_the_leader_alone

Capture = pytest.CaptureFixture[str]


class RecordedRuns:
    """Stands for Simulation: remembers its seeds and options, and fails with `broken` seeds."""

    def __init__(self, broken: tuple[int, ...] = ()) -> None:
        self.broken = broken
        self.seeds: list[int] = []
        self.options: list[SimulationOptions] = []

    def __call__(self, seed: int, options: SimulationOptions) -> "RecordedRuns":
        self.seeds.append(seed)
        self.options.append(options)
        return self

    def run(self) -> RunResult:
        seed = self.seeds[-1]
        violation = Violation("2", f"seed {seed}") if seed in self.broken else None
        return RunResult(seed, violation, 1, 1_000, 0, 0, 0, seed, ["    1.000  the end"])


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> RecordedRuns:
    """The command with runs that take no time."""
    recorded = RecordedRuns()

    def keep(_: int, __: object, failed: RunResult, ___: object) -> tuple[RunResult, list[Fault]]:
        return failed, []

    monkeypatch.setattr(simulate, "Simulation", recorded)
    monkeypatch.setattr(simulate, "shrink", keep)
    return recorded


def seconds() -> Callable[[], float]:
    """A clock on which a second passes between two looks."""
    ticks: Iterator[int] = itertools.count()
    return lambda: float(next(ticks))


def test_one_seed_is_run(runs: RecordedRuns, capsys: Capture) -> None:
    assert run(["simulate", "--seed", "17"]) == 0
    assert runs.seeds == [17]
    header, row = capsys.readouterr().out.splitlines()
    assert header.split()[:3] == ["seed", "events", "events/s"]
    assert row.split()[0] == "17"
    assert row.split()[-1] == f"{17:08x}"


def test_a_range_of_seeds_is_run_without_its_end(runs: RecordedRuns) -> None:
    assert run(["simulate", "--seeds", "3..6"]) == 0
    assert runs.seeds == [3, 4, 5]


def test_without_seeds_it_runs_from_seed_0_for_the_given_minutes(
    runs: RecordedRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulate.time, "monotonic", seconds())
    assert run(["simulate", "--minutes", "0.2"]) == 0
    assert runs.seeds == [0, 1, 2, 3], "a run takes three looks at the clock"


def test_size_and_duration_are_passed_on(runs: RecordedRuns) -> None:
    assert run(["simulate", "--seed", "0", "--brokers", "2", "--seconds", "7"]) == 0
    assert runs.options == [SimulationOptions(2, 7_000, replication_factor=2)]


def test_the_first_broken_seed_ends_the_command(runs: RecordedRuns, capsys: Capture) -> None:
    runs.broken = (1, 2)
    assert run(["simulate", "--seeds", "0..4"]) == FAILED
    assert runs.seeds == [0, 1]
    shown = capsys.readouterr()
    assert "FAILED: guarantee 2: seed 1" in shown.out
    assert shown.err == "1 seed broke a guarantee\n"


def test_keep_going_runs_all_seeds_and_still_fails(runs: RecordedRuns, capsys: Capture) -> None:
    runs.broken = (1, 2)
    assert run(["simulate", "--seeds", "0..4", "--keep-going"]) == FAILED
    assert runs.seeds == [0, 1, 2, 3]
    assert capsys.readouterr().err == "2 seeds broke a guarantee\n"


@pytest.mark.parametrize("text", ["5", "5..", "..5", "5..5", "6..5", "a..b", "-1..3", "1...3"])
def test_a_range_that_is_none_is_a_usage_error(
    text: str, runs: RecordedRuns, capsys: Capture
) -> None:
    assert run(["simulate", f"--seeds={text}"]) == USAGE
    assert f"'{text}' is not a range of seeds; expected A..B, as in 0..100" in (
        capsys.readouterr().err
    )
    assert not runs.seeds


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--seed", "1", "--seeds", "0..4"], "--seed and --seeds exclude each other"),
        (["--seed", "-1"], "Invalid value for '--seed'"),
        (["--brokers", "0"], "Invalid value for '--brokers'"),
        (["--brokers", "10"], "Invalid value for '--brokers'"),
        (["--minutes", "0"], "Invalid value for '--minutes'"),
        (["--seconds", "0"], "Invalid value for '--seconds'"),
    ],
)
def test_invalid_options_are_usage_errors(
    arguments: list[str], words: str, runs: RecordedRuns, capsys: Capture
) -> None:
    assert run(["simulate", *arguments]) == USAGE
    shown = capsys.readouterr()
    assert words in shown.err
    assert not shown.out
    assert not runs.seeds


def test_a_broken_guarantee_is_told_with_its_story_and_its_command(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    watermark_over_the_leader_alone(monkeypatch)
    command = ["simulate", "--seed", "1", "--brokers", "3", "--seconds", "2"]
    assert run(command) == FAILED
    shown = capsys.readouterr()
    found = re.search(r"FAILED: (guarantee (6|14b)): simulated-", shown.out)
    assert found is not None
    assert f"Seed 1 breaks {found[1]}: simulated-" in shown.out
    counts = [int(count) for count in re.findall(r"still fails with (\d+) faults", shown.err)]
    planned = len(Simulation(1, SimulationOptions(3, 2_000)).faults)
    assert planned > counts[0] > counts[-1]
    faults, story = shown.out.split("faults of its plan alone:\n")[1].split("The last events:\n")
    assert len(faults.splitlines()) == counts[-1]
    assert "broker 1 serves" in story
    assert f"VIOLATION of {found[1]}: simulated-" in story
    assert f"To run it again: sawlog {' '.join(command)}\n" in story
