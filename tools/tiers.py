"""Run one tier of the tests, save its result, and print the summary of a CI run.

    python -m tools.tiers fast       static checks and the fast tests
    python -m tools.tiers long       one round of every fault and of every real client
    python -m tools.tiers soak       many rounds of every repeated test; on demand
    python -m tools.tiers summary    the results of the tiers that ran, and of the whole run

With CI=true, a failed test of the long tier runs once more by itself. If it passes then, it is
listed as FLAKY; more than `MAX_FLAKY` flaky tests fail the run. Without CI=true there is no retry:
a flaky test is a bug.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

from tools.test_report import REPORT_VARIABLE, ReportedTest

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / ".cache" / "tiers"
BYTECODE = ROOT / ".cache" / "bytecode"
RUN_BUDGET_S = 30 * 60
MAX_FLAKY = 2
SLOWEST = 10
TESTS_FAILED = 1
WORKERS = os.environ.get("WORKERS", "2")
PARALLEL = ("-n", WORKERS, "--dist", "worksteal")
ALONE = ("-n", "1")  # a test that hangs or crashes ends its worker, not the run
SOAK_LIMIT = "faulthandler_timeout=7200"  # seconds for one test


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a tier; without a `program` it is pytest."""

    title: str
    arguments: tuple[str, ...]
    program: str = ""

    def command(self) -> list[str]:
        if self.program:
            return [str(Path(sys.executable).parent / self.program), *self.arguments]
        return [sys.executable, "-m", "pytest", "-q", "-p", "tools.test_report", *self.arguments]


@dataclass(frozen=True, slots=True)
class Tier:
    """The stages of a tier, one after the other. The steps of a stage run at the same time: tests
    wait more than they compute."""

    name: str
    stages: tuple[tuple[Step, ...], ...]
    budget_s: float | None = None
    retries_in_ci: bool = False


TIERS = {
    "fast": Tier(
        "fast",
        (
            (
                Step("lint", ("check", "."), "ruff"),
                Step("format", ("format", "--check", "."), "ruff"),
                Step("types", (), "mypy"),
                Step("layers", (), "lint-imports"),
                Step("tests", (*PARALLEL, "-m", "not long and not soak and not spark")),
            ),
            (Step("tests with Spark", (*PARALLEL, "-m", "spark and not long and not soak")),),
        ),
        budget_s=8 * 60,
    ),
    "long": Tier(
        "long",
        (
            (
                Step("tests", (*PARALLEL, "-m", "long and not soak and not spark")),
                Step("tests with Spark", (*ALONE, "-m", "long and not soak and spark")),
            ),
        ),
        budget_s=17 * 60,
        retries_in_ci=True,
    ),
    "soak": Tier("soak", ((Step("tests", ("-o", SOAK_LIMIT, "-m", "soak")),),)),
}


@dataclass(slots=True)
class Result:
    """The result of one tier."""

    tier: str
    budget_s: float | None = None
    seconds: float = 0.0
    steps: dict[str, float] = field(default_factory=dict)
    tests: dict[str, ReportedTest] = field(default_factory=dict)
    broken_steps: list[str] = field(default_factory=list)  # failed for another reason than a test
    flaky: list[str] = field(default_factory=list)

    def named(self, outcome: str) -> list[str]:
        return [name for name, test in self.tests.items() if test["outcome"] == outcome]

    @property
    def failed(self) -> list[str]:
        return [name for name in self.named("failed") if name not in self.flaky]

    @property
    def is_good(self) -> bool:
        return not self.failed and not self.broken_steps and len(self.flaky) <= MAX_FLAKY

    @property
    def is_over_budget(self) -> bool:
        return self.budget_s is not None and self.seconds > self.budget_s


def run_tier(tier: Tier, *, is_ci: bool, root: Path = ROOT) -> Result:
    """Run all steps, also after a failed one, so that one run shows all failures."""
    result = Result(tier.name, tier.budget_s)
    began = time.monotonic()

    for stage in tier.stages:
        _run_stage(tier, stage, result, root)
    if is_ci and tier.retries_in_ci:
        retry(result, lambda name: _passes_alone(name, root))
    result.seconds = round(time.monotonic() - began, 1)
    return result


def _run_stage(tier: Tier, stage: Sequence[Step], result: Result, root: Path) -> None:
    def run_step(step: Step) -> tuple[Step, Ran]:
        return step, _run(step.command(), root, is_printed_later=len(stage) > 1)

    with ThreadPoolExecutor(len(stage)) as threads:
        for step, ran in threads.map(run_step, stage):
            print(f"== {tier.name}: {step.title}\n{ran.output}", flush=True)
            result.tests.update(ran.tests)
            outcomes = {test["outcome"] for test in ran.tests.values()}
            has_failed_test = ran.code == TESTS_FAILED and "failed" in outcomes
            if ran.code != 0 and not has_failed_test:
                result.broken_steps.append(step.title)
            result.steps[step.title] = ran.seconds


def retry(result: Result, passes_alone: Callable[[str], bool]) -> None:
    """Run failed tests once more, each by itself; those that pass are flaky.

    Many failures have another cause, so then there is no retry.
    """
    failed = result.failed
    if 0 < len(failed) <= 2 * MAX_FLAKY:
        result.flaky += [name for name in failed if passes_alone(name)]


def _passes_alone(name: str, root: Path) -> bool:
    print(f"== retry: {name}", flush=True)
    return _run(Step("", ("-m", "", name)).command(), root).code == 0


class Ran(NamedTuple):
    """The result of one command; `output` is empty if it was printed at once."""

    code: int
    tests: dict[str, ReportedTest]
    seconds: float
    output: str


def _run(command: Sequence[str], root: Path, *, is_printed_later: bool = False) -> Ran:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.json"
        done = subprocess.run(
            command,
            cwd=root,
            env={**environment(), REPORT_VARIABLE: str(report)},
            stdout=subprocess.PIPE if is_printed_later else None,
            stderr=subprocess.STDOUT if is_printed_later else None,
            text=True,
            errors="replace",
            check=False,
        )
        tests = json.loads(report.read_text()) if report.exists() else {}
    return Ran(done.returncode, tests, round(time.monotonic() - began, 1), done.stdout or "")


def environment() -> dict[str, str]:
    """Let the many Python processes of a tier compile each module once, outside the source tree."""
    kept = dict(os.environ)
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    kept["PYTHONPYCACHEPREFIX"] = str(BYTECODE)
    return kept


def slowest(result: Result) -> list[tuple[float, str]]:
    times = [(test["seconds"], name) for name, test in result.tests.items()]
    return sorted(times, reverse=True)[:SLOWEST]


def describe(result: Result) -> list[str]:
    """The result of one tier as lines: counts, times, the slowest tests and measured outages."""
    budget = f" of {_minutes(result.budget_s)}" if result.budget_s else ""
    counts = ", ".join(
        f"{len(names)} {outcome}"
        for outcome in ("passed", "failed", "skipped")
        if (names := result.named(outcome))
    )
    lines = [f"tier {result.tier}: {_minutes(result.seconds)}{budget}; {counts or 'no tests'}"]
    lines += [f"  {seconds:7.1f} s  {title}" for title, seconds in result.steps.items()]
    lines.append("  slowest tests:")
    lines += [f"  {seconds:7.1f} s  {name}" for seconds, name in slowest(result)]
    return lines + describe_outages(result)


def describe_outages(result: Result) -> list[str]:
    """One line for each fault that tests measured, with the longest outage."""
    by_fault: dict[tuple[str, float], list[float]] = defaultdict(list)
    for test in result.tests.values():
        for outage in test["outages"]:
            by_fault[outage["fault"], outage["session_s"]].append(outage["seconds"])
    lines = ["  longest time without an acknowledgement, by fault:"] if by_fault else []
    for (fault, session_s), times in sorted(by_fault.items()):
        rest = f", {len(times)} times from {min(times):.2f} s" if len(times) > 1 else ""
        lines.append(f"  {max(times):7.2f} s  {fault} (session {session_s:g} s{rest})")
    return lines


def verdict(results: Sequence[Result], seconds: float | None = None) -> list[str]:
    """Lines about failed and flaky tests, and about tiers over their budget."""
    lines: list[str] = []
    for result in results:
        lines += [f"FAILED {name}" for name in result.failed]
        lines += [f"FAILED step '{title}' of tier {result.tier}" for title in result.broken_steps]
        lines += [f"FLAKY {name}" for name in result.flaky]
        if len(result.flaky) > MAX_FLAKY:
            lines.append(f"FAILED: {len(result.flaky)} flaky tests, allowed are {MAX_FLAKY}")
        if result.is_over_budget:
            lines.append(
                f"WARNING: tier {result.tier} took {_minutes(result.seconds)},"
                f" its budget is {_minutes(result.budget_s)}"
            )
    if seconds is not None and seconds > RUN_BUDGET_S:
        lines.append(
            f"WARNING: the whole run took {_minutes(seconds)},"
            f" its budget is {_minutes(RUN_BUDGET_S)}"
        )
    return lines


def summary(results: Sequence[Result], seconds: float | None) -> list[str]:
    lines = [line for result in results for line in describe(result)]
    if seconds is not None:
        lines.append(f"whole run, with setup: {_minutes(seconds)}")
    lines += verdict(results, seconds)
    passed = sum(len(result.named("passed")) + len(result.flaky) for result in results)
    failed = sum(len(result.failed) + len(result.broken_steps) for result in results)
    return [*lines, f"{passed} passed, {failed} failed"]


def _minutes(seconds: float | None) -> str:
    whole = round(seconds or 0)
    return f"{whole // 60} min {whole % 60:02d} s"


def save(result: Result) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{result.tier}.json").write_text(json.dumps(asdict(result)))


def load_all() -> list[Result]:
    paths = [RESULTS / f"{name}.json" for name in TIERS]
    return [Result(**json.loads(path.read_text())) for path in paths if path.exists()]


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a tier or print the summary; `summary` takes the seconds of the whole run."""
    if arguments[:1] == ["summary"]:
        seconds = float(arguments[1]) if len(arguments) > 1 else None
        print("\n".join(summary(load_all(), seconds)))
        return 0
    if len(arguments) != 1 or arguments[0] not in TIERS:
        print(f"usage: python -m tools.tiers {'|'.join(TIERS)}|summary", file=sys.stderr)
        return 2
    result = run_tier(TIERS[arguments[0]], is_ci=environment.get("CI") == "true")
    save(result)
    print("\n".join(summary([result], None)), flush=True)
    return 0 if result.is_good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
