"""kafka-consumer-groups of Apache Kafka 4.3.0 against Sawlog.

The output of every command against Apache Kafka is recorded; against Sawlog it must be equal,
except for generated ids, ports and the text of errors. The soak compares it with a running
Kafka; `SAWLOG_RECORD=1` makes it write the recording first.
"""

import itertools
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sawlog.client.admin.admin import Admin, NewTopic
from sawlog.client.admin.groups import GroupAdmin
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of
from sawlog.client.producer.producer import Producer
from support.client.group_members import ClassicMember, ConsumerMember
from support.kafka.kafka_broker import run_tool
from support.kafka.recordings import RECORDINGS
from support.kafka.shared_brokers import START

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
FIRST_TIME_MS = 1_700_000_000_000  # 2023-11-14T22:13:20Z
UUID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
RECORDING = RECORDINGS / "consumer-groups-tool.json"
FOREIGN = re.compile(r"'group\d+-\w+'(?:, )?|\bgroup\d+-\w+\b")
"""A group of another test; the names of this test have been replaced."""

Runs = dict[str, list[list[str]]]
_numbers = itertools.count()


@dataclass(frozen=True)
class Printed:
    """The output of the tool, without parts that differ from run to run."""

    code: int
    lines: list[str]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


@dataclass
class Tool:
    """Runs the tool against one broker and compares each run with the recording."""

    bootstrap: str
    expected: list[list[str]] | None  # None: the output is to be recorded
    names: dict[str, str] = field(default_factory=dict)
    printed: list[list[str]] = field(default_factory=list)

    def new_name(self, prefix: str, what: str) -> str:
        """A unique name, and its placeholder in the recording."""
        name = f"{prefix}{next(_numbers)}{what}"
        self.names[name] = f"<{prefix}{what}>"
        return name

    def run(self, *arguments: str, same: Callable[[str], str] = str) -> Printed:
        """Run the tool; `same` normalizes lines that may differ."""
        done = run_tool(TOOL, "--bootstrap-server", self.bootstrap, *arguments)
        text = UUID.sub("<uuid>", done.stdout + done.stderr)
        text = text.replace(self.bootstrap, "<bootstrap>")
        lines = [
            same(" ".join(line.split()))
            for line in text.splitlines()
            if line.strip() and not line.startswith("\tat ")
        ]
        number = len(self.printed)
        self.printed.append([str(done.returncode), *self._plain(lines)])
        if self.expected is not None:
            assert self.printed[number] == self.expected[number], arguments
        return Printed(done.returncode, lines)

    def _plain(self, lines: list[str]) -> list[str]:
        """The sorted lines with placeholders for names, without the groups of other tests."""
        plain: list[str] = []
        for line in lines:
            for name, word in self.names.items():
                line = line.replace(name, word)  # noqa: PLW2901
            rest = FOREIGN.sub("", line)
            if rest == line or "<group" in rest:
                plain.append(rest.rstrip(", "))
        return sorted(set(plain))  # each group has a header

    def rows(self, *arguments: str) -> list[list[str]]:
        """The columns of each line."""
        return [line.split() for line in self.run(*arguments).lines]

    def offsets(self, group: str) -> dict[str, int]:
        """The committed offsets of the group."""
        with Cluster(self.bootstrap) as cluster:
            found, errors = GroupAdmin(cluster).committed_offsets([group])
        assert errors == {}
        return {str(partition): committed.offset for partition, committed in found[group].items()}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("sawlog", marks=pytest.mark.long),
        pytest.param("kafka", marks=pytest.mark.soak),
    ],
)
def bootstrap(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with START[request.param](tmp_path_factory.mktemp("broker"), SETTINGS) as server:
        yield server.bootstrap


@pytest.fixture
def tool(request: pytest.FixtureRequest, bootstrap: str) -> Iterator[Tool]:
    """The tool with the recorded runs of this test."""
    parameters = {**getattr(request.node, "callspec").params}  # noqa: B009
    values = [str(value) for key, value in sorted(parameters.items()) if key != "bootstrap"]
    name = " ".join([request.node.originalname, *values])
    runs: Runs = json.loads(RECORDING.read_text()) if RECORDING.exists() else {}
    is_recorded = parameters.pop("bootstrap") == "kafka" and os.environ.get("SAWLOG_RECORD") == "1"
    tool = Tool(bootstrap, None if is_recorded else runs.get(name, []))
    yield tool
    if is_recorded:
        runs[name] = tool.printed
        RECORDING.write_text(json.dumps(dict(sorted(runs.items())), indent=1) + "\n")


@pytest.fixture
def topic(tool: Tool) -> str:
    """Ten records a minute apart in each of two partitions; none in the third."""
    name = tool.new_name("topic", "")
    with Cluster(tool.bootstrap) as cluster:
        assert Admin(cluster).create_topics([NewTopic(name, partitions=3)]) == {}
        with Producer(cluster) as producer:
            for number in range(20):
                time_ms = FIRST_TIME_MS + number // 2 * 60_000
                producer.send(name, b"", partition=number % 2, timestamp_ms=time_ms)
    return name


@pytest.fixture
def idle(tool: Tool, topic: str) -> str:
    """A group without members; its offsets are 4 in partition 0 and 6 in partition 1."""
    name = tool.new_name("group", "-idle")
    with Cluster(tool.bootstrap) as cluster:
        committed = {partition_of(topic, 0): 4, partition_of(topic, 1): 6}
        assert GroupAdmin(cluster).commit_offsets(name, committed) == {}
    return name


@pytest.fixture
def classic(tool: Tool, topic: str) -> Iterator[str]:
    """A classic group with one member that reads partitions 0 and 2."""
    name = tool.new_name("group", "-classic")
    with ClassicMember(tool.bootstrap, name, {topic: [0, 2]}):
        yield name


@pytest.fixture
def consumer(tool: Tool, topic: str) -> Iterator[str]:
    """A consumer group with one static member that reads everything."""
    name = tool.new_name("group", "-consumer")
    with ConsumerMember(tool.bootstrap, name, [topic], member_id="member-1", instance_id="one"):
        yield name


def test_list(tool: Tool, idle: str, classic: str, consumer: str) -> None:
    listed = tool.run("--list").lines
    assert {idle, classic, consumer} <= set(listed)
    states = tool.rows("--list", "--state")
    assert ["GROUP", "STATE"] in states
    assert [idle, "Empty"] in states
    assert [classic, "Stable"] in states
    stable = tool.rows("--list", "--state", "stable,preparingrebalance")
    assert [consumer, "Stable"] in stable
    assert [idle, "Empty"] not in stable
    types = tool.rows("--list", "--type")
    assert [classic, "Classic"] in types
    assert [consumer, "Consumer"] in types
    assert [consumer, "Consumer"] in tool.rows("--list", "--type", "consumer")
    chosen = tool.rows("--list", "--type", "classic", "--state", "empty")
    assert [idle, "Classic", "Empty"] in chosen
    assert [classic, "Classic", "Stable"] not in chosen


def test_describe_offsets(tool: Tool, topic: str, idle: str, classic: str, consumer: str) -> None:
    header = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"
    shown = tool.run("--describe", "--group", idle)
    assert shown.lines[:3] == [
        header,
        f"{idle} {topic} 0 4 10 6 - - -",
        f"{idle} {topic} 1 6 10 4 - - -",
    ]
    assert f"Consumer group '{idle}' has no active members." in shown.lines
    described = tool.run("--describe", "--offsets", "--group", classic, "--group", consumer).text
    assert (
        f"{classic} {topic} 0 - 10 - classic-client-<uuid> /127.0.0.1 classic-client" in described
    )
    assert f"{consumer} {topic} 2 - 0 - member-1 /127.0.0.1 consumer-client" in described
    verbose = tool.run("--describe", "--offsets", "--verbose", "--group", idle).text
    assert f"{idle} {topic} 0 - 4 10 6 - - -" in verbose
    everything = tool.run("--describe", "--all-groups").text
    assert all(name in everything for name in (idle, classic, consumer))


def test_describe_members(tool: Tool, topic: str, idle: str, classic: str, consumer: str) -> None:
    shown = tool.run("--describe", "--members", "--group", classic).lines
    member = f"{classic} classic-client-<uuid> /127.0.0.1 classic-client 2"
    assert shown == ["GROUP CONSUMER-ID HOST CLIENT-ID #PARTITIONS", member]
    verbose = tool.run("--describe", "--members", "--verbose", "--group", classic).lines
    assert verbose[1] == f"{member} - {topic}:0,2 - -"
    member = f"{consumer} member-1 one /127.0.0.1 consumer-client 3"
    verbose = tool.run("--describe", "--members", "--verbose", "--group", consumer).lines
    assert verbose[1].startswith(member)
    assert verbose[1].count(f"{topic}:0,1,2") == 2
    shown = tool.run("--describe", "--members", "--group", idle).lines
    assert f"Consumer group '{idle}' has no active members." in shown
    tool.run("--describe", "--members", "--verbose", "--all-groups")


def test_describe_state(tool: Tool, idle: str, classic: str, consumer: str) -> None:
    shown = tool.rows("--describe", "--state", "--group", classic)
    assert [classic, "<bootstrap>", "(1)", "range", "Stable", "1"] in shown
    verbose = tool.rows("--describe", "--state", "--verbose", "--group", consumer)
    assert verbose[1][:5] == [consumer, "<bootstrap>", "(1)", "uniform", "Stable"]
    shown = tool.rows("--describe", "--state", "--group", idle)
    assert [idle, "<bootstrap>", "(1)", "-", "Empty", "0"] in shown
    tool.run("--describe", "--state", "--verbose", "--all-groups")


def test_describe_a_group_that_is_rebalancing(tool: Tool, topic: str, consumer: str) -> None:
    with ConsumerMember(tool.bootstrap, consumer, [topic], member_id="two", waits=False):
        shown = tool.run("--describe", "--members", "--group", consumer).text
        assert f"Warning: Consumer group '{consumer}' is rebalancing." in shown
        assert f"{consumer} two" in shown


@pytest.mark.parametrize("what", ["--offsets", "--members", "--state"])
def test_describe_an_unknown_group(tool: Tool, what: str) -> None:
    shown = tool.run("--describe", what, "--group", "nope", same=without_words)
    assert "GroupIdNotFoundException" in shown.text


def without_words(line: str) -> str:
    """A line without the error message of the broker."""
    return re.sub(r"(errors\.\w+Exception): .*", r"\1", line)


RESETS = [
    (("--to-earliest",), {0: 0, 1: 0, 2: 0}),
    (("--to-latest",), {0: 10, 1: 10, 2: 0}),
    (("--to-current",), {0: 4, 1: 6, 2: 0}),
    (("--to-offset", "5"), {0: 5, 1: 5, 2: 0}),
    (("--to-offset", "1000"), {0: 10, 1: 10, 2: 0}),
    (("--to-datetime", "2023-11-14T22:15:30.000"), {0: 3, 1: 3, 2: 0}),
    (("--to-datetime", "2023-11-15T00:15:20.000+02:00"), {0: 2, 1: 2, 2: 0}),
    (("--by-duration", "PT5M"), {0: 10, 1: 10, 2: 0}),
    (("--by-duration", "P5000D"), {0: 0, 1: 0, 2: 0}),
]


@pytest.mark.parametrize(("target", "expected"), RESETS)
def test_reset_offsets(
    tool: Tool, topic: str, idle: str, target: tuple[str, ...], expected: dict[int, int]
) -> None:
    shown = tool.run("--reset-offsets", "--group", idle, "--topic", topic, *target, "--execute")
    assert shown.code == 0
    for partition, offset in expected.items():
        assert f"{idle} {topic} {partition} {offset}" in shown.lines
    named = {f"{topic}-{partition}": offset for partition, offset in expected.items()}
    assert tool.offsets(idle) == named


@pytest.mark.parametrize(
    ("by", "expected"), [("2", (6, 8)), ("-5", (0, 1)), ("100", (10, 10)), ("0", (4, 6))]
)
def test_reset_offsets_by_a_shift(
    tool: Tool, topic: str, idle: str, by: str, expected: tuple[int, int]
) -> None:
    tool.run("--reset-offsets", "--group", idle, "--all-topics", "--shift-by", by, "--execute")
    assert tool.offsets(idle) == {f"{topic}-0": expected[0], f"{topic}-1": expected[1]}


def test_reset_offsets_changes_nothing_without_execute(tool: Tool, topic: str, idle: str) -> None:
    whole = ("--reset-offsets", "--group", idle, "--all-topics", "--to-latest")
    assert f"{idle} {topic} 1 10" in tool.run(*whole).lines
    assert f"{idle} {topic} 1 10" in tool.run(*whole, "--dry-run").lines
    only = ("--reset-offsets", "--group", idle, "--topic", f"{topic}:1", "--to-earliest")
    assert tool.rows(*only, "--dry-run")[1:] == [[idle, topic, "1", "0"]]
    assert tool.offsets(idle) == {f"{topic}-0": 4, f"{topic}-1": 6}
    tool.run(*only, "--execute")
    assert tool.offsets(idle) == {f"{topic}-0": 4, f"{topic}-1": 0}


def test_reset_offsets_by_an_exported_file(
    tool: Tool, topic: str, idle: str, tmp_path: Path
) -> None:
    export = ("--reset-offsets", "--group", idle, "--all-topics", "--to-current", "--export")
    exported = tool.run(*export, "--dry-run").lines
    assert sorted(exported) == [f"{topic},0,4", f"{topic},1,6"]
    tool.run("--reset-offsets", "--group", idle, "--all-topics", "--to-latest", "--execute")
    path = tmp_path / "plan.csv"
    path.write_text("\n".join(exported))
    from_file = ("--reset-offsets", "--group", idle, "--from-file", str(path))
    tool.run(*from_file, "--dry-run")
    assert tool.offsets(idle) == {f"{topic}-0": 10, f"{topic}-1": 10}
    tool.run(*from_file, "--execute")
    assert tool.offsets(idle) == {f"{topic}-0": 4, f"{topic}-1": 6}


def test_reset_offsets_of_a_new_group(tool: Tool, topic: str) -> None:
    group = tool.new_name("group", "-new")
    tool.run("--reset-offsets", "--group", group, "--topic", topic, "--to-latest", "--execute")
    assert tool.offsets(group) == {f"{topic}-0": 10, f"{topic}-1": 10, f"{topic}-2": 0}
    assert [group, "Empty"] in tool.rows("--list", "--state")


def test_reset_offsets_skips_groups_with_members(
    tool: Tool, topic: str, idle: str, classic: str, consumer: str
) -> None:
    to_latest = ("--all-topics", "--to-latest", "--execute")
    for group in (classic, consumer):
        shown = tool.run("--reset-offsets", "--group", group, *to_latest).text
        assert f"Assignments can only be reset if the group '{group}' is inactive" in shown
        assert tool.offsets(group) == {}
    tool.run("--reset-offsets", "--all-groups", *to_latest)
    assert tool.offsets(idle) == {f"{topic}-0": 10, f"{topic}-1": 10}


@pytest.mark.parametrize("scope", ["nope", "{}:7"])
def test_reset_offsets_of_unknown_topics_and_partitions(
    tool: Tool, topic: str, idle: str, scope: str
) -> None:
    reset = ("--reset-offsets", "--group", idle, "--topic", scope.format(topic), "--to-latest")
    assert "do" in tool.run(*reset, "--execute", same=without_words).text
    assert tool.offsets(idle) == {f"{topic}-0": 4, f"{topic}-1": 6}


def test_delete_offsets(tool: Tool, topic: str, idle: str, classic: str) -> None:
    shown = tool.rows("--delete-offsets", "--group", idle, "--topic", f"{topic}:1")
    assert [topic, "1", "Successful"] in shown
    assert tool.offsets(idle) == {f"{topic}-0": 4}
    tool.run("--delete-offsets", "--group", idle, "--topic", topic)
    assert tool.offsets(idle) == {}
    shown = tool.run("--delete-offsets", "--group", classic, "--topic", topic)
    assert "Encountered some partition-level error" in shown.text
    assert "actively subscribed to it" in shown.text
    tool.run("--delete-offsets", "--group", idle, "--topic", "nope", same=without_words)
    tool.run("--delete-offsets", "--group", "nope", "--topic", topic)


def test_delete(tool: Tool, idle: str, classic: str, consumer: str) -> None:
    assert "was successful" in tool.run("--delete", "--group", idle).text
    assert idle not in tool.run("--list").lines
    for group, reason in (
        (classic, "GroupNotEmptyException"),
        (consumer, "GroupNotEmptyException"),
        (idle, "GroupIdNotFoundException"),
    ):
        shown = tool.run("--delete", "--group", group).text
        assert f"Group '{group}' could not be deleted due to" in shown
        assert reason in shown


def test_delete_all_groups(tool: Tool, idle: str, classic: str) -> None:
    shown = tool.run("--delete", "--all-groups", same=without_order).text
    assert f"Group '{classic}' could not be deleted due to" in shown
    assert tool.run("--list").lines == [classic]


def without_order(line: str) -> str:
    head, colon, names = line.partition("deleted successfully: ")
    return head + colon + ", ".join(sorted(names.split(", ")))


@pytest.mark.long
def test_validate_regex() -> None:
    assert run_tool(TOOL, "--validate-regex", "orders-.*").stdout == (
        "The regular expression `orders-.*` is valid.\n"
    )
    assert "is invalid" in run_tool(TOOL, "--validate-regex", "orders-[").stdout
