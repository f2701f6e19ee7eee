"""`sawlog groups`: wrong usage, and the formats that it prints and reads."""

import io

import click
import pytest

from sawlog.cli.cluster_options import TopicScope, TopicScopeType, show_partitions
from sawlog.cli.commands import run
from sawlog.cli.groups_members import non_empty_group
from sawlog.cli.units import show_duration
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
        (["lag"], "give group names, or --all"),
        (["lag", "g", "--all"], "give group names or --all, not both"),
        (["lag", "--watch", "g"], "put groups before --watch"),
        (["lag", "g", "--watch", "0"], "not in the range"),
        (["lag", "g", "--interval", "-1"], "not in the range"),
        (["lag", "g", "--interval", "nan"], "not a number of seconds"),
        (["reset", "g", "--topic", "t"], "give one of --to-earliest"),
        (["reset", "g", "--topic", "t", "--to-latest", "--shift-by", "0"], "not both"),
        (
            ["reset", "g", "--to-latest", "--to-current", "--to-offset", "0"],
            "give --to-latest, --to-current or --to-offset, not all of them",
        ),
        (["reset", "g", "--to-latest"], "give --topic or --all-topics;"),
        (["reset", "g", "--topic", "t", "--all-topics", "--to-latest"], "not both"),
        (["reset", "g", "--topic", "t:", "--to-latest"], "expected TOPIC or TOPIC:PARTITION"),
        (["reset", "g", "--topic", "t:a", "--to-latest"], "'a' is not an integer from 0 to"),
        (["reset", "g", "--topic", "t", "--to-offset", "-1"], "'-1' is not an integer"),
        (["reset", "g", "--topic", "t", "--to-offset", "9" * 5_000], "not an integer"),
        (["reset", "g", "--topic", "t", "--to-offset", f"{2**63}"], "not an integer"),
        (["reset", "g", "--topic", "t", "--shift-by", "two"], "'two' is not an integer"),
        (["reset", "g", "--topic", "t", "--to-time", "noon"], "not one of: a time"),
        (["reset", "g", "--topic", "t", "--to-time", "17"], "too few digits"),
        (["reset", "g", "--topic", "t", "--from-file", __file__], "--from-file names topics"),
        (["reset", "g", "--from-file", "/no/such"], "does not exist"),
        (["reset", "g", "--from-file", __file__], "test_groups.py: line 1: expected topic"),
        (["reset", "g", "--topic", "t", "--to-latest", "--export", "--json"], "not both"),
        (["delete-offsets", "g"], "Missing option '--topic'"),
        *(
            ([command, "", *options], "the name is empty")
            for command, *options in (
                ("describe",),
                ("delete",),
                ("lag",),
                ("reset", "--all-topics", "--to-latest"),
                ("delete-offsets", "--topic", "t"),
                ("remove-member", "--all"),
            )
        ),
        (["remove-member", "g"], "give members, --instance or --all"),
        (["remove-member", "g", "m", "--all"], "not both"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["groups", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert words in shown.err
    assert shown.err.count("\n") == 1


def test_invalid_plan_on_stdin_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for data, words in ((b"t,0", "stdin: line 1: expected topic"), (b"\xff", "stdin is not UTF-8")):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert run(["groups", "reset", "g", "--from-file", "-"]) == 2
        assert f"--from-file: {words}" in capsys.readouterr().err


def test_unreachable_broker_is_exit_code_3(capsys: pytest.CaptureFixture[str]) -> None:
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
def test_topic_scope_is_parsed(text: str, scope: TopicScope) -> None:
    assert TopicScopeType().convert(text, None, None) == scope


@pytest.mark.parametrize("text", ["", ":0", "orders:", "orders:0,", "orders:-1", "orders:0:1"])
def test_invalid_topic_scope_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        TopicScopeType().convert(text, None, None)


def test_topic_scope_covers_its_partitions() -> None:
    assert TopicScope("t").covers(partition_of("t", 5))
    assert TopicScope("t", (5,)).covers(partition_of("t", 5))
    assert not TopicScope("t", (5,)).covers(partition_of("t", 4))
    assert not TopicScope("t").covers(partition_of("u", 5))


def test_partitions_are_shown_in_the_format_of_the_option() -> None:
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
def test_durations_are_shown_in_at_most_two_units(seconds: float, text: str) -> None:
    assert show_duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "the group 'g' has the state Stable; stop"),
        (1, "has 1 member: client-0 at 127.0.0.1 (member-0, instance s-0); stop it first"),
        (
            2,
            "client-0 at 127.0.0.1 (member-0, instance s-0), client-1 at 127.0.0.1 (member-1);",
        ),
        (9, "client-4 at 127.0.0.1 (member-4) and 4 more; stop them first"),
    ],
)
def test_error_of_a_non_empty_group_names_members_and_how_to_remove_them(
    count: int, words: str
) -> None:
    members = [
        GroupMember(
            f"member-{number}",
            None if number else "s-0",
            f"client-{number}",
            "/127.0.0.1",
            (),
        )
        for number in range(count)
    ]
    node = Node(NodeId(1), Address("127.0.0.1", 9092), None)
    error = non_empty_group(
        GroupDescription("g", "classic", "Stable", "consumer", "", node, members)
    )
    assert words in error.message
    assert "session times out" in error.message
    assert "remove-member" in error.message
