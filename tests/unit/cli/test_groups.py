"""`sawlog groups`: wrong calls, and the small texts that it prints and reads."""

import io

import click
import pytest

from sawlog.cli.commands import run
from sawlog.cli.groups_lag import show_duration
from sawlog.cli.groups_members import occupied
from sawlog.cli.partition_options import TopicScope, TopicScopeType, show_partitions
from sawlog.client.admin.groups import GroupDescription, GroupMember
from sawlog.client.net.addresses import Address
from sawlog.client.net.leader_requests import partition_of
from sawlog.client.net.metadata import Node
from sawlog.core.ids import NodeId


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["describe"], "Missing argument 'GROUP...'"),
        (["list", "--state", "Sleeping"], "'Sleeping' is not one of"),
        (["list", "--type", "share"], "'share' is not one of 'classic', 'consumer'"),
        (["lag"], "name groups, or give --all"),
        (["lag", "g", "--all"], "name groups, or give --all, not both"),
        (["lag", "--watch", "g"], "name groups before --watch"),
        (["lag", "g", "--watch", "0"], "not in the range"),
        (["lag", "g", "--interval", "-1"], "not in the range"),
        (["lag", "g", "--interval", "nan"], "no time"),
        (["reset", "g", "--topic", "t"], "give one of --to-earliest"),
        (["reset", "g", "--topic", "t", "--to-latest", "--shift-by", "0"], "not both"),
        (
            ["reset", "g", "--to-latest", "--to-current", "--to-offset", "0"],
            "give --to-latest, --to-current or --to-offset, not all of them",
        ),
        (["reset", "g", "--to-latest"], "give --topic or --all-topics;"),
        (["reset", "g", "--topic", "t", "--all-topics", "--to-latest"], "not both"),
        (["reset", "g", "--topic", "t:", "--to-latest"], "expected TOPIC or TOPIC:PARTITION"),
        (["reset", "g", "--topic", "t:a", "--to-latest"], "'a' is not a whole number from 0 to"),
        (["reset", "g", "--topic", "t", "--to-offset", "-1"], "'-1' is not a whole number"),
        (["reset", "g", "--topic", "t", "--to-offset", "9" * 5_000], "not a whole number"),
        (["reset", "g", "--topic", "t", "--to-offset", f"{2**63}"], "not a whole number"),
        (["reset", "g", "--topic", "t", "--shift-by", "two"], "'two' is not a whole number"),
        (["reset", "g", "--topic", "t", "--to-time", "noon"], "none of: a time"),
        (["reset", "g", "--topic", "t", "--to-time", "17"], "too few digits"),
        (["reset", "g", "--topic", "t", "--from-file", __file__], "names its topics itself"),
        (["reset", "g", "--from-file", "/no/such"], "does not exist"),
        (["reset", "g", "--from-file", __file__], "test_groups.py: line 1: expected topic"),
        (["reset", "g", "--topic", "t", "--to-latest", "--export", "--json"], "not both"),
        (["delete-offsets", "g"], "Missing option '--topic'"),
        *(
            ([command, "", *options], "a name is wanted, and this one is empty")
            for command, *options in (
                ("describe",),
                ("delete",),
                ("lag",),
                ("reset", "--all-topics", "--to-latest"),
                ("delete-offsets", "--topic", "t"),
                ("remove-member", "--all"),
            )
        ),
        (["remove-member", "g"], "name members, or give --instance, or --all"),
        (["remove-member", "g", "m", "--all"], "not both"),
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


def test_a_plan_from_stdin_that_is_none_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for data, words in ((b"t,0", "stdin: line 1: expected topic"), (b"\xff", "stdin is not UTF-8")):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert run(["groups", "reset", "g", "--from-file", "-"]) == 2
        assert f"--from-file: {words}" in capsys.readouterr().err


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


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "the group 'g' has the state Stable; stop"),
        (1, "has 1 member: client-0 at 127.0.0.1 (member-0, instance place-0); stop it first"),
        (
            2,
            "client-0 at 127.0.0.1 (member-0, instance place-0), client-1 at 127.0.0.1 (member-1);",
        ),
        (9, "client-4 at 127.0.0.1 (member-4) and 4 more; stop them first"),
    ],
)
def test_members_in_the_way_are_named_and_how_they_go(count: int, words: str) -> None:
    members = [
        GroupMember(
            f"member-{number}",
            None if number else "place-0",
            f"client-{number}",
            "/127.0.0.1",
            (),
        )
        for number in range(count)
    ]
    node = Node(NodeId(1), Address("127.0.0.1", 9092), None)
    told = occupied(GroupDescription("g", "classic", "Stable", "consumer", "", node, members))
    assert words in told.message
    assert "session times out" in told.message
    assert "remove-member" in told.message
