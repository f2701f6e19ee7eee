"""`sawlog groups`: wrong calls, and the small texts that it prints and reads."""

import click
import pytest

from sawlog.cli.commands import run
from sawlog.cli.groups_lag import show_duration
from sawlog.cli.partitions import TopicScope, TopicScopeType, show_partitions
from sawlog.client.leaders import partition_of


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["describe"], "Missing argument 'GROUP...'"),
        (["list", "--state", "Sleeping"], "'Sleeping' is not one of"),
        (["list", "--type", "share"], "'share' is not one of 'classic', 'consumer'"),
        (["lag"], "name groups, or give --all"),
        (["lag", "g", "--all"], "name groups, or give --all"),
        (["lag", "--watch", "g"], "name groups before --watch"),
        (["lag", "g", "--watch", "0"], "not in the range"),
        (["lag", "g", "--interval", "-1"], "not in the range"),
        (["lag", "g", "--interval", "nan"], "no time"),
        (["reset", "g", "--topic", "t"], "give one of --to-earliest"),
        (["reset", "g", "--topic", "t", "--to-latest", "--shift-by", "0"], "give one of"),
        (["reset", "g", "--to-latest"], "give either --topic or --all-topics"),
        (["reset", "g", "--topic", "t", "--all-topics", "--to-latest"], "give either"),
        (["reset", "g", "--topic", "t:", "--to-latest"], "expected TOPIC or TOPIC:PARTITION"),
        (["reset", "g", "--topic", "t:a", "--to-latest"], "'a' is not a valid integer"),
        (["reset", "g", "--topic", "t", "--to-offset", "-1"], "not in the range"),
        (["reset", "g", "--topic", "t", "--to-time", "noon"], "neither a time"),
        (["reset", "g", "--topic", "t", "--to-time", "17"], "neither a time"),
        (["reset", "g", "--topic", "t", "--from-file", __file__], "names its topics itself"),
        (["reset", "g", "--from-file", "/no/such"], "does not exist"),
        (["reset", "g", "--from-file", __file__], "test_groups.py: line 1: expected topic"),
        (["reset", "g", "--topic", "t", "--to-latest", "--export", "--json"], "not both"),
        (["delete-offsets", "g"], "Missing option '--topic'"),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_code_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["groups", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert words in shown.err
    assert shown.err.count("\n") == 1


def test_no_broker_is_exit_code_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["groups", "list", "-b", "127.0.0.1:1"]) == 3
    assert "no broker can be reached" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("orders", TopicScope("orders")),
        ("orders:0", TopicScope("orders", (0,))),
        ("orders:2,0,2", TopicScope("orders", (2, 0))),
    ],
)
def test_a_topic_may_be_narrowed_to_partitions(text: str, scope: TopicScope) -> None:
    assert TopicScopeType().convert(text, None, None) == scope


@pytest.mark.parametrize("text", ["", ":0", "orders:", "orders:0,", "orders:-1", "orders:0:1"])
def test_anything_else_is_no_topic(text: str) -> None:
    with pytest.raises(click.BadParameter):
        TopicScopeType().convert(text, None, None)


def test_a_scope_holds_what_it_names() -> None:
    assert TopicScope("t").holds(partition_of("t", 5))
    assert TopicScope("t", (5,)).holds(partition_of("t", 5))
    assert not TopicScope("t", (5,)).holds(partition_of("t", 4))
    assert not TopicScope("t").holds(partition_of("u", 5))


def test_partitions_are_shown_as_an_option_takes_them() -> None:
    partitions = [partition_of("b", 1), partition_of("a", 2), partition_of("a", 0)]
    assert show_partitions(partitions) == "a:0,2;b:1"
    assert show_partitions([]) == "-"
    assert show_partitions(None) == "?"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0s"),
        (0.5, "0.5s"),
        (5, "5s"),
        (9.96, "10s"),
        (45.4, "45s"),
        (60, "1m"),
        (125, "2m 5s"),
        (3_600, "1h"),
        (12_034, "3h 20m"),
        (187_200, "2d 4h"),
        (86_405, "1d"),
    ],
)
def test_durations_are_shown_in_two_units_at_most(seconds: float, text: str) -> None:
    assert show_duration(seconds) == text
