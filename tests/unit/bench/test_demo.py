"""The demo waits for as long as there is something to wait for, and then says what is missing."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from bench import demo
from bench.demo import LONGEST_S, STILL_S, NotLanded, Patience, Seen

STARTING = Seen(2_000, 0, 0, 0)
HALF = Seen(2_000, 1_000, 990, 0)


def test_spark_may_take_long_to_start() -> None:
    patience = Patience(0.0)
    assert not patience.is_over(STARTING, STILL_S * 2)
    assert patience.is_over(STARTING, LONGEST_S)


def test_rows_that_keep_coming_are_waited_for() -> None:
    patience = Patience(0.0)
    assert not patience.is_over(HALF, STILL_S)
    assert not patience.is_over(HALF._replace(aggregated=1), STILL_S * 2 - 1)
    assert not patience.is_over(HALF._replace(aggregated=1), STILL_S * 2 + 1)
    assert patience.is_over(HALF._replace(aggregated=1), STILL_S * 3)


def test_all_is_there_when_every_row_is_counted() -> None:
    assert not HALF.is_all
    assert not Seen(2_000, 2_000, 1_990, 1_000).is_all
    assert Seen(2_000, 2_000, 1_990, 1_990).is_all


def test_what_did_not_land_is_one_sentence_and_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.StringIO()

    def stuck(directory: Path, console: Console) -> demo.Account:
        raise NotLanded(f"after 300 s: {HALF}")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "run", stuck)
    monkeypatch.setattr(demo, "Console", lambda: Console(file=out, width=300))
    assert demo.main() == 1
    assert (
        "not all landed after 300 s: 1,000 of 2,000 records have landed, and 0 of 990 rows are"
        " counted by the minute; .cache/demo/pipeline.log says what the pipeline did."
    ) in out.getvalue()
