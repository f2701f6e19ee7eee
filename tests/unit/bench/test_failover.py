"""The table of `python -m bench.failover`."""

import io

from rich.console import Console

from bench.failover import ROWS, results_table


def lines(found: dict[str, list[float]]) -> list[list[str]]:
    written = io.StringIO()
    Console(file=written, width=200).print(results_table(found, 6_000, "title"))
    rows = [line for line in written.getvalue().splitlines() if "│" in line]
    return [[cell.strip() for cell in row.split("│")[1:-1]] for row in rows]


def test_a_row_has_the_median_and_the_range_of_its_rounds() -> None:
    title = "SIGTERM of the controller"
    [row] = lines({title: [0.3, 0.1, 0.2]})
    assert row == [title, "0.20", "0.10-0.30", "0-1.4", "0.5", "yes"]


def test_a_target_is_missed_by_one_round_beyond_it() -> None:
    """The target of a kill is counted from the end of the session."""
    title = "the controller killed"
    [row] = lines({title: [5.0, 5.0, 8.1]})
    assert row == [title, "5.00", "5.00-8.10", "7-12", "8", "no"]


def test_controller_and_other_brokers_have_rows_of_their_own() -> None:
    titles = [row.title for row in ROWS]
    assert {"SIGTERM of the controller", "SIGTERM of one, not the controller"} <= set(titles)
    assert len(titles) == len(set(titles))
