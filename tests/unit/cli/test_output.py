"""Tables: how they are aligned, and what becomes of them on a narrow terminal."""

import sys

import pytest

from sawlog.cli.output import print_table

COLUMNS = ("topic", "lag", "rate", "member")
ROWS = [
    ("orders", 5, None, "client-0123456789-aaaa"),
    ("refunds", None, None, None),
]


def test_columns_of_numbers_stand_to_the_right_even_where_none_is_known(
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
def test_a_narrow_terminal_shortens_what_may_be(
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
