"""`sawlog groups` against a running broker: what is printed, what is changed, what is refused."""

import csv
import io
import itertools
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sawlog.cli.commands import run
from support.broker import running_sawlog
from support.kafka import running_kafka
from support.members import ClassicMember, ConsumerMember

_numbers = itertools.count()
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
TIMEOUT_S = 60


@pytest.fixture(scope="module", params=["sawlog", pytest.param("kafka", marks=pytest.mark.long)])
def bootstrap(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    start = {"sawlog": running_sawlog, "kafka": running_kafka}[request.param]
    with start(tmp_path_factory.mktemp("broker"), SETTINGS) as server:
        yield server.bootstrap


class Sawlog:
    """The command line, pointed at the broker; in this process, for speed."""

    def __init__(self, capture: pytest.CaptureFixture[str], directory: Path) -> None:
        self._capture = capture
        self._input = directory / "input"
        self.told = ""  # on stderr, by the last command

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """Runs a command that is to end with this code: its stdout."""
        self._capture.readouterr()
        ended = run(arguments)
        out, self.told = self._capture.readouterr()
        assert ended == code, self.told
        return out

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json"))

    def produce(self, topic: str, partition: int, *timestamps: int) -> None:
        lines = [
            {"value": "", "partition": partition, "timestamp": timestamp}
            for timestamp in timestamps
        ]
        self._input.write_text("\n".join(map(json.dumps, lines)))
        self("produce", topic, "--json", "--file", str(self._input))


@pytest.fixture
def sawlog(
    bootstrap: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Sawlog:
    monkeypatch.setenv("SAWLOG_BOOTSTRAP", bootstrap)
    return Sawlog(capsys, tmp_path)


@pytest.fixture
def topic(sawlog: Sawlog) -> str:
    """Ten records a second apart in partition 0, four in partition 1, none in partition 2."""
    name = f"topic-{next(_numbers)}"
    sawlog("topics", "create", name, "-p", "3")
    sawlog.produce(name, 0, *range(1_000, 11_000, 1_000))
    sawlog.produce(name, 1, *range(1_000, 5_000, 1_000))
    return name


@pytest.fixture
def group() -> str:
    return f"group-{next(_numbers)}"


@pytest.fixture
def idle(sawlog: Sawlog, topic: str, group: str) -> str:
    """A group without members that has read two records of partitions 0 and 1."""
    where = f"{topic}:0,1"
    sawlog("groups", "reset", group, "--topic", where, "--to-offset", "2", "--execute")
    return group


def rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines()]


def offsets(sawlog: Sawlog, group: str) -> dict[int, int]:
    (described,) = sawlog.json("groups", "describe", group)
    return {each["partition"]: each["committed"] for each in described["offsets"]}


def test_groups_are_listed_with_state_and_members(
    sawlog: Sawlog, bootstrap: str, topic: str, idle: str
) -> None:
    with (
        ClassicMember(bootstrap, f"{idle}-classic", {topic: [0]}),
        ClassicMember(bootstrap, f"{idle}-connect", {topic: [0]}, protocol_type="connect"),
        ConsumerMember(bootstrap, f"{idle}-consumer", [topic]),
    ):
        listed = rows(sawlog("groups", "list"))
        assert listed[0] == ["group", "type", "state", "members", "protocol"]
        assert [each for each in listed if each[0].startswith(idle)] == [
            [idle, "classic", "Empty", "0", "-"],
            [f"{idle}-classic", "classic", "Stable", "1", "range"],
            [f"{idle}-connect", "classic", "Stable", "1", "connect/range"],
            [f"{idle}-consumer", "consumer", "Stable", "1", "uniform"],
        ]
        chosen = rows(sawlog("groups", "list", "--state", "stable", "--type", "Classic"))
        assert [each[0] for each in chosen if each[0].startswith(idle)] == [
            f"{idle}-classic",
            f"{idle}-connect",
        ]
        (entry,) = [
            each
            for each in sawlog.json("groups", "list", "--type", "consumer")
            if each["group"].startswith(idle)
        ]
        assert entry == {
            "group": f"{idle}-consumer",
            "type": "consumer",
            "state": "Stable",
            "members": 1,
            "protocol_type": "consumer",
            "protocol": "uniform",
        }


def test_a_classic_group_is_described_to_people(
    sawlog: Sawlog, bootstrap: str, topic: str, idle: str
) -> None:
    with ClassicMember(bootstrap, idle, {topic: [0, 2]}) as member:
        shown = sawlog("groups", "describe", idle).splitlines()
    assert shown[:3] == [
        f"{idle}  classic, Stable, 1 member",
        f"  coordinator={bootstrap} (1)",
        "  assignor=range",
    ]
    table = rows("\n".join(shown[3:]))
    assert table == [
        ["member", "client", "host", "assigned"],
        [member.id, "classic-client", "127.0.0.1", f"{topic}:0,2"],
        ["topic", "partition", "committed", "end", "lag", "member"],
        [topic, "0", "2", "10", "8", member.id],
        [topic, "1", "2", "4", "2", "-"],
        [topic, "2", "-", "0", "-", member.id],
    ]


def test_a_consumer_group_is_described_with_epochs_and_targets(
    sawlog: Sawlog, bootstrap: str, topic: str, group: str
) -> None:
    with ConsumerMember(bootstrap, group, [topic], instance_id="one") as member:
        shown = sawlog("groups", "describe", group).splitlines()
        (described,) = sawlog.json("groups", "describe", group)
        epoch = member.epoch
    assert shown[3] == f"  epoch={epoch}  target epoch={epoch}"
    assert " ".join(shown[4].split()) == "member instance client host epoch assigned target"
    assert shown[5].split()[4:] == [str(epoch), f"{topic}:0,1,2", f"{topic}:0,1,2"]
    host, port = bootstrap.split(":")
    assert described["coordinator"] == {"node": 1, "host": host, "port": int(port)}
    assert described["members"] == [
        {
            "member": member.id,
            "instance": "one",
            "client": "consumer-client",
            "host": "127.0.0.1",
            "epoch": epoch,
            "assigned": {topic: [0, 1, 2]},
            "target": {topic: [0, 1, 2]},
        }
    ]


def test_groups_that_are_not_there_are_told_after_those_that_are(sawlog: Sawlog, idle: str) -> None:
    for command in (("describe",), ("lag", "--interval", "0")):
        assert idle in sawlog("groups", *command, idle, "nope", code=1)
        assert sawlog.told == (
            "sawlog: nope: there is no group 'nope'; check the name (GROUP_ID_NOT_FOUND)\n"
        )


def test_lag_tells_rates_and_when_the_end_will_be_reached(
    sawlog: Sawlog, bootstrap: str, topic: str, idle: str
) -> None:
    table = sawlog("groups", "lag", idle, "--interval", "0").splitlines()
    assert table[0] == f"{idle}  Empty, no members"
    first = f"{topic} 0 2 10 8 - - unknown (measured once) -"
    assert " ".join(table[2].split()) == first
    assert "total lag=10  read/s=unknown  written/s=unknown" in table[4]
    (entry,) = sawlog.json("groups", "lag", idle, "--interval", "0.01")
    assert entry["lag"] == 10
    assert entry["outlook"] == "no_commits"
    assert entry["partitions"][0]["read_per_s"] == 0.0
    with ClassicMember(bootstrap, idle, {topic: [0, 2]}) as member:
        (entry,) = sawlog.json("groups", "lag", idle, "--interval", "0.01")
    assert [each["member"] for each in entry["partitions"]] == [member.id, None, member.id]
    assert entry["unknown_partitions"] == 1


def test_lag_of_all_groups(sawlog: Sawlog, topic: str, idle: str) -> None:
    sawlog("groups", "reset", f"{idle}-too", "--topic", topic, "--to-latest", "--execute")
    found = {
        each["group"]: each["lag"]
        for each in sawlog.json("groups", "lag", "--all", "--interval", "0")
    }
    assert (found[idle], found[f"{idle}-too"]) == (10, 0)


def test_lag_is_watched_as_it_moves_until_the_group_is_gone(
    sawlog: Sawlog, bootstrap: str, topic: str, idle: str
) -> None:
    command = [sys.executable, "-m", "sawlog.cli.main", "groups", "lag", idle, "--json"]
    watching = subprocess.Popen(
        [*command, "--watch", "0.05", "-b", bootstrap], stdout=subprocess.PIPE, text=True
    )
    assert watching.stdout is not None
    try:
        (first,) = json.loads(watching.stdout.readline())
        assert (first["lag"], first["outlook"]) == (10, "measured_once")
        sawlog("groups", "reset", idle, "--all-topics", "--shift-by", "1", "--execute")
        seen = (json.loads(line)[0] for line in watching.stdout)
        moved = next(each for each in seen if each["lag"] == 8)
        assert moved["outlook"] == "catching_up"
        assert moved["catch_up_s"] > 0
        sawlog("groups", "delete", idle)
        assert watching.wait(TIMEOUT_S) == 1
    finally:
        watching.kill()
        watching.communicate()


def test_watching_ends_with_ctrl_c(bootstrap: str, idle: str) -> None:
    command = [sys.executable, "-m", "sawlog.cli.main", "groups", "lag", idle, "--watch"]
    watching = subprocess.Popen(
        [*command, "-b", bootstrap], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert watching.stdout is not None
    watching.stdout.readline()
    watching.send_signal(signal.SIGINT)
    assert watching.communicate(timeout=TIMEOUT_S)[1].strip() == ""
    assert watching.returncode == 130


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (("--to-earliest",), [0, 0, 0]),
        (("--to-latest",), [10, 4, 0]),
        (("--to-offset", "3"), [3, 3, 0]),
        (("--to-time", "1970-01-01T00:00:03.500Z"), [3, 3, 0]),
        (("--to-time", "1970-01-01T00:00:06Z"), [5, 4, 0]),
        (("--to-time", "5m"), [10, 4, 0]),
    ],
)
def test_offsets_are_reset_to_a_place(
    sawlog: Sawlog, topic: str, idle: str, target: tuple[str, ...], expected: list[int]
) -> None:
    table = rows(sawlog("groups", "reset", idle, "--topic", topic, *target))
    ends = [10, 4, 0]
    assert table == [
        ["topic", "partition", "old", "new", "lag", "then"],
        *(
            [topic, str(index), old, "->", str(new), str(ends[index] - new)]
            for index, (old, new) in enumerate(zip("22-", expected, strict=True))
        ),
    ]
    assert "nothing was changed; give --execute to do it" in sawlog.told
    assert offsets(sawlog, idle) == {0: 2, 1: 2}
    sawlog("groups", "reset", idle, "--topic", topic, *target, "--execute")
    assert f"{idle}: 3 offsets set" in sawlog.told
    assert offsets(sawlog, idle) == dict(enumerate(expected))


@pytest.mark.parametrize(
    ("by", "expected", "words"),
    [
        ("1", {0: 3, 1: 3}, ""),
        ("-1", {0: 1, 1: 1}, ""),
        ("5", {0: 7, 1: 4}, "-1: 7 lies beyond the end; 4 is taken"),
        ("-5", {0: 0, 1: 0}, "-0: -3 lies before the first offset; 0 is taken"),
    ],
)
def test_offsets_are_shifted_within_the_log(
    sawlog: Sawlog, idle: str, by: str, expected: dict[int, int], words: str
) -> None:
    sawlog("groups", "reset", idle, "--all-topics", "--shift-by", by, "--execute")
    assert words in sawlog.told
    assert offsets(sawlog, idle) == expected


def test_a_plan_is_exported_and_carried_out_later(
    sawlog: Sawlog, topic: str, idle: str, tmp_path: Path
) -> None:
    plan = sawlog("groups", "reset", idle, "--topic", topic, "--to-latest", "--export")
    exported = list(csv.reader(io.StringIO(plan)))
    assert exported == [[topic, "0", "10"], [topic, "1", "4"], [topic, "2", "0"]]
    path = tmp_path / "plan.csv"
    path.write_text(plan)
    sawlog("groups", "reset", idle, "--to-earliest", "--all-topics", "--execute")
    found = sawlog.json("groups", "reset", idle, "--from-file", str(path), "--execute")
    assert found["execute"]
    moved = {"topic": topic, "partition": 0, "old": 0, "new": 10, "lag": 0, "note": None}
    assert found["offsets"][0] == moved
    assert offsets(sawlog, idle) == {0: 10, 1: 4, 2: 0}


def test_a_reset_makes_a_group_that_was_not_there(sawlog: Sawlog, topic: str, group: str) -> None:
    sawlog("groups", "reset", group, "--topic", f"{topic}:0", "--to-latest", "--execute")
    assert "there is no such group yet" in sawlog.told
    assert offsets(sawlog, group) == {0: 10}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--topic", "nope", "--to-latest"), "there is no topic 'nope'"),
        (("--topic", "{topic}:0,3", "--to-latest"), "has the partitions 0 to 2, not 3"),
        (("--topic", "{topic}", "--shift-by", "1"), "-2 has no committed offset to shift"),
    ],
)
def test_a_reset_that_cannot_be_is_refused_as_a_whole(
    sawlog: Sawlog, topic: str, idle: str, arguments: tuple[str, ...], words: str
) -> None:
    filled = [argument.format(topic=topic) for argument in arguments]
    sawlog("groups", "reset", idle, *filled, "--execute", code=1)
    assert words in sawlog.told
    assert sawlog.told.count("\n") == 1
    assert offsets(sawlog, idle) == {0: 2, 1: 2}


def test_to_reset_all_topics_of_a_group_without_offsets_is_refused(
    sawlog: Sawlog, group: str
) -> None:
    sawlog("groups", "reset", group, "--all-topics", "--to-latest", code=1)
    assert "has no committed offsets; name topics with --topic" in sawlog.told


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_what_members_hold_is_left_alone_and_says_who_they_are(
    sawlog: Sawlog, bootstrap: str, topic: str, idle: str, protocol: str
) -> None:
    member = (
        ClassicMember(bootstrap, idle, {topic: [0]}, client_id="a-reader")
        if protocol == "classic"
        else ConsumerMember(bootstrap, idle, [topic], client_id="a-reader")
    )
    with member:
        for execute in ((), ("--execute",)):
            sawlog("groups", "reset", idle, "--all-topics", "--to-earliest", *execute, code=1)
            assert "has 1 member (a-reader at 127.0.0.1)" in sawlog.told
            assert "stop them first (NON_EMPTY_GROUP)" in sawlog.told
        sawlog("groups", "delete", idle, code=1)
        assert "has members; stop them first (NON_EMPTY_GROUP)" in sawlog.told
        sawlog("groups", "delete-offsets", idle, "--topic", topic, code=1)
        assert "GROUP_SUBSCRIBED_TO_TOPIC" in sawlog.told
    assert offsets(sawlog, idle) == {0: 2, 1: 2}


def test_groups_are_deleted(sawlog: Sawlog, idle: str) -> None:
    sawlog("groups", "delete", idle, "nope", code=1)
    assert f"{idle}: deleted" in sawlog.told
    assert "there is no group 'nope'" in sawlog.told
    assert idle not in sawlog("groups", "list")
    sawlog("groups", "delete", idle, "--if-exists")


def test_offsets_are_deleted(sawlog: Sawlog, topic: str, idle: str) -> None:
    sawlog("groups", "delete-offsets", idle, "--topic", f"{topic}:1")
    assert f"{idle}: 1 offset deleted" in sawlog.told
    assert offsets(sawlog, idle) == {0: 2}
    sawlog("groups", "delete-offsets", idle, "--topic", f"{topic}:1", code=1)
    assert "nothing was deleted" in sawlog.told
    sawlog("groups", "delete-offsets", idle, "--topic", topic)
    assert offsets(sawlog, idle) == {}
