"""The demo waits while rows arrive, and reports what is missing."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from bench import demo
from bench.demo import LONGEST_S, STILL_S, Deadline, NotLanded, Seen

STARTING = Seen(2_000, 0, 0, 0)
HALF = Seen(2_000, 1_000, 990, 0)


def test_the_start_of_spark_has_the_total_timeout_only() -> None:
    deadline = Deadline(0.0)
    assert not deadline.is_over(STARTING, STILL_S * 2)
    assert deadline.is_over(STARTING, LONGEST_S)


def test_new_rows_extend_the_deadline() -> None:
    deadline = Deadline(0.0)
    assert not deadline.is_over(HALF, STILL_S)
    assert not deadline.is_over(HALF._replace(aggregated=1), STILL_S * 2 - 1)
    assert not deadline.is_over(HALF._replace(aggregated=1), STILL_S * 2 + 1)
    assert deadline.is_over(HALF._replace(aggregated=1), STILL_S * 3)


def test_the_demo_is_complete_when_every_row_is_aggregated() -> None:
    assert not HALF.is_all
    assert not Seen(2_000, 2_000, 1_990, 1_000).is_all
    assert Seen(2_000, 2_000, 1_990, 1_990).is_all


def test_missing_rows_are_reported_with_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.StringIO()

    def stuck(directory: Path, console: Console) -> demo.Counts:
        raise NotLanded(f"after 300 s: {HALF}")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "run", stuck)
    monkeypatch.setattr(demo, "Console", lambda: Console(file=out, width=300))
    assert demo.main() == 1
    assert (
        "not all rows landed after 300 s: 1,000 of 2,000 records have landed, and 0 of 990 rows are"
        " counted by the minute; see the log of the pipeline, .cache/demo/pipeline.log."
    ) in out.getvalue()
