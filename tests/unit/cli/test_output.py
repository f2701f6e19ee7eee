"""Tables and progress bars: alignment, narrow terminals, pipes."""

import os
import subprocess
import sys
from pathlib import Path
from types import FrameType

import pytest

from sawlog.cli.output import _Bar, print_table, progress, table_lines

COLUMNS = ("topic", "lag", "rate", "member")
ROWS = [
    ("orders", 5, None, "client-0123456789-aaaa"),
    ("refunds", None, None, None),
]


def test_number_columns_are_right_aligned_even_if_all_values_are_unknown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table(COLUMNS, ROWS, numbers={"lag", "rate"}, shortened="member")
    assert capsys.readouterr().out.splitlines() == [
        "topic    lag  rate  member",
        "orders     5     -  client-0123456789-aaaa",
        "refunds    -     -  -",
    ]


@pytest.mark.parametrize(
    ("width", "member"),
    [
        (42, "client-0123456789-aaaa"),
        (41, "client-01..56789-aaaa"),
        (32, "clie..9-aaaa"),
        (5, "cli..-aaaa"),
    ],
)
def test_narrow_terminal_shortens_the_given_column(
    width: int,
    member: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_table(COLUMNS, ROWS, numbers={"lag", "rate"}, shortened="member")
    shown = capsys.readouterr().out.splitlines()
    assert shown[1].split() == ["orders", "5", "-", member]
    assert len(shown[1]) <= max(width, 30)
    print_table(COLUMNS, ROWS)
    assert ROWS[0][3] in capsys.readouterr().out


def test_wide_characters_keep_columns_aligned() -> None:
    assert table_lines(("topic", "lag"), [("日本", 5), ("ab", 12)]) == [
        "topic  lag",
        "日本     5",
        "ab      12",
    ]


def test_control_characters_are_escaped() -> None:
    assert table_lines(("client",), [("a\nb\x1b[1m\tc",)])[1:] == [r"a\nb\x1b[1m\tc"]


def test_table_needs_few_calls_per_cell() -> None:
    """`topics describe` prints one table per topic, and there may be thousands."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    rows = [(0, 1, 0, [1], [1], 0, 100)]
    columns = ("partition", "leader", "epoch", "replicas", "isr", "start offset", "end offset")
    print_table(columns, rows)
    sys.setprofile(count)
    try:
        print_table(columns, rows)
    finally:
        sys.setprofile(None)
    assert calls < 50 * len(columns)


def test_table_does_not_import_rich() -> None:
    program = (
        "import sys; from sawlog.cli.output import print_table;"
        "print_table(['a'], [['b']]); sys.exit('rich' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


@pytest.mark.parametrize("is_piped", [True, False])
def test_no_bar_is_drawn_while_records_go_to_a_pipe(
    is_piped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program behind the pipe may print the records to the same terminal."""
    reader, writer = os.pipe()
    path = tmp_path / "records"
    with open(reader), open(writer, "w") as pipe, path.open("w") as file:
        monkeypatch.setattr(sys, "stdout", pipe if is_piped else file)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        with progress("consuming", 3, unit="records", prints=True) as bar:
            bar.advance(1)
    assert isinstance(bar, _Bar) != is_piped
