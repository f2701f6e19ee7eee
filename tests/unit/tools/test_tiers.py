"""The tiers of the tests: the summary of a run, and the retry in CI."""

import itertools
from pathlib import Path

import pytest

from tools.test_report import OUTAGE, ReportedTest
from tools.tiers import (
    MAX_FLAKY,
    ROOT,
    RUN_BUDGET_S,
    SLOWEST,
    TIERS,
    Result,
    Step,
    Tier,
    retry,
    run_tier,
    summary,
    verdict,
)

FLAKY = """
import itertools
from pathlib import Path

def test_fails_the_first_time_only():
    seen = Path(__file__).with_suffix(".seen")
    was_seen = seen.exists()
    seen.touch()
    assert was_seen

def test_passes():
    pass
"""


def result_of(**outcomes: str) -> Result:
    result = Result("long", budget_s=100)
    for seconds, (name, outcome) in enumerate(outcomes.items()):
        result.tests[name] = ReportedTest(outcome=outcome, seconds=float(seconds), outages=[])
    return result


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project whose pytest finds the report plugin."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def run(root: Path, text: str, *, is_ci: bool) -> Result:
    (root / "test_sample.py").write_text(text)
    tier = Tier("sample", ((Step("tests", ()),),), retries_in_ci=True)
    return run_tier(tier, is_ci=is_ci, root=root)


def test_a_failed_test_that_passes_on_retry_is_flaky_in_ci(root: Path) -> None:
    result = run(root, FLAKY, is_ci=True)
    assert [name.rpartition("::")[2] for name in result.flaky] == ["test_fails_the_first_time_only"]
    assert result.failed == []
    assert result.is_good
    assert any(line.startswith("FLAKY ") for line in verdict([result]))


def test_there_is_no_retry_outside_of_ci(root: Path) -> None:
    result = run(root, FLAKY, is_ci=False)
    assert len(result.failed) == 1
    assert result.flaky == []
    assert not result.is_good


def test_results_of_parallel_steps_are_merged(root: Path) -> None:
    (root / "test_one.py").write_text("def test_one():\n    assert False\n")
    (root / "test_two.py").write_text("def test_two():\n    pass\n")
    steps = (Step("one", ("test_one.py",)), Step("two", ("test_two.py",)))
    result = run_tier(Tier("sample", (steps,)), is_ci=False, root=root)
    assert (result.failed, result.named("passed")) == (
        ["test_one.py::test_one"],
        ["test_two.py::test_two"],
    )
    assert list(result.steps) == ["one", "two"]


def test_a_crashed_step_fails_the_tier(root: Path) -> None:
    result = run(root, "import os\ndef test_dies():\n    os._exit(7)\n", is_ci=True)
    assert result.broken_steps == ["tests"]
    assert not result.is_good
    assert "FAILED step 'tests' of tier sample" in verdict([result])


def test_a_test_that_fails_on_retry_has_failed() -> None:
    result = result_of(a="failed", b="passed")
    retry(result, lambda name: False)
    assert (result.flaky, result.failed) == ([], ["a"])


@pytest.mark.parametrize(("count", "is_good"), [(MAX_FLAKY, True), (MAX_FLAKY + 1, False)])
def test_more_than_the_allowed_flaky_tests_fail_the_tier(count: int, is_good: bool) -> None:
    result = result_of(**{f"t{number}": "failed" for number in range(count)})
    retry(result, lambda name: True)
    assert len(result.flaky) == count
    assert result.is_good == is_good


def test_many_failures_are_not_retried() -> None:
    result = result_of(**{f"t{number}": "failed" for number in range(20)})
    retry(result, lambda name: pytest.fail("a test was retried"))
    assert len(result.failed) == 20


def test_a_tier_over_its_budget_gets_a_warning() -> None:
    result = result_of(a="passed")
    result.seconds = 161
    lines = verdict([result], RUN_BUDGET_S + 60)
    assert lines[0] == "WARNING: tier long took 2 min 41 s, its budget is 1 min 40 s"
    assert lines[1].startswith("WARNING: the whole run took 31 min 00 s")


def test_the_summary_lists_the_slowest_tests_and_ends_with_the_counts() -> None:
    result = result_of(**{f"t{number}": "passed" for number in range(30)}, last="failed")
    lines = summary([result], 500)
    assert (
        sum(" s  t" in line for line in lines) == SLOWEST - 1
    )  # the slowest test is the failed one
    assert "FAILED last" in lines
    assert lines[-1] == "30 passed, 1 failed"


OUTAGES = f"""
def test_kills(record_property):
    for seconds in (2.5, 1.25):
        record_property({OUTAGE!r}, dict(fault="kill", seconds=seconds, session_s=2.0))
    record_property({OUTAGE!r}, dict(fault="kill", seconds=6.5, session_s=6.0))
    record_property("another property", 1)

def test_cuts(record_property):
    record_property({OUTAGE!r}, dict(fault="cut", seconds=3.004, session_s=2.0))
"""


def test_the_summary_has_the_longest_outage_of_each_fault(root: Path) -> None:
    """The worker of pytest-xdist sends the properties of its tests to the process that reports."""
    (root / "test_sample.py").write_text(OUTAGES)
    result = run_tier(Tier("sample", ((Step("tests", ("-n", "1")),),)), is_ci=False, root=root)
    lines = summary([result], None)
    first = lines.index("  longest time without an acknowledgement, by fault:") + 1
    assert lines[first:] == [
        "     3.00 s  cut (session 2 s)",
        "     2.50 s  kill (session 2 s, 2 times from 1.25 s)",
        "     6.50 s  kill (session 6 s)",
        "2 passed, 0 failed",
    ]


@pytest.mark.parametrize("markers", list(itertools.product([False, True], repeat=3)))
def test_every_test_runs_in_exactly_one_step(markers: tuple[bool, ...]) -> None:
    """Evaluate each marker expression, as Python, for all combinations of markers."""
    names = dict(zip(("long", "soak", "spark"), markers, strict=True))
    steps = [
        (tier.name, step.title)
        for tier in TIERS.values()
        for stage in tier.stages
        for step in stage
        if not step.program and eval(step.arguments[-1], {}, dict(names))
    ]
    assert len(steps) == 1
    assert (steps[0][0] == "soak") == names["soak"]


def test_the_budgets_of_the_tiers_leave_time_for_the_setup() -> None:
    fast, long = TIERS["fast"], TIERS["long"]
    assert fast.budget_s is not None
    assert long.budget_s is not None
    assert fast.budget_s + long.budget_s < RUN_BUDGET_S
    assert long.retries_in_ci
    assert not fast.retries_in_ci
