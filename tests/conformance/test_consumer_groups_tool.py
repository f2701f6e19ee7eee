"""kafka-consumer-groups of Apache Kafka 4.3.0, doing all of its work against Sawlog.

Every command runs against both brokers, which are kept in the same state, and prints the same but
for ids that are made up, ports and the words of refusals.
"""

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from sawlog.client.admin import Admin, NewTopic
from sawlog.client.cluster import Cluster
from sawlog.client.groups import GroupAdmin
from sawlog.client.leaders import partition_of
from sawlog.client.producer import Producer
from support.broker import running_sawlog
from support.kafka import run_tool, running_kafka
from support.members import ClassicMember, ConsumerMember

pytestmark = pytest.mark.long

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
FIRST_TIME_MS = 1_700_000_000_000  # 2023-11-14T22:13:20Z
UUID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_numbers = itertools.count()


@dataclass(frozen=True)
class Printed:
    """What a run of the tool printed, without what differs from run to run."""

    code: int
    lines: list[str]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def sorted(self) -> tuple[int, list[str]]:
        """Brokers tell groups and members in no order."""
        return self.code, sorted(self.lines)


class Both:
    """The two brokers, and the tool run against each of them."""

    def __init__(self, ours: str, theirs: str) -> None:
        self.bootstraps = (ours, theirs)

    def __iter__(self) -> Iterator[str]:
        return iter(self.bootstraps)

    def run(self, *arguments: str, same: Callable[[str], str] = str) -> Printed:
        """What both print; `same` makes lines equal that may differ."""
        with ThreadPoolExecutor(len(self.bootstraps)) as threads:
            runs = threads.map(lambda each: _run(each, arguments), self.bootstraps)
            ours, theirs = (
                Printed(each.code, [same(line) for line in each.lines]) for each in runs
            )
        assert ours.sorted == theirs.sorted
        return ours

    def rows(self, *arguments: str) -> list[list[str]]:
        """The words of each line."""
        return [line.split() for line in self.run(*arguments).lines]

    def offsets(self, group: str) -> dict[str, int]:
        """What the group has committed, the same in both."""
        ours, theirs = (_offsets(bootstrap, group) for bootstrap in self)
        assert ours == theirs
        return ours


def _run(bootstrap: str, arguments: tuple[str, ...]) -> Printed:
    done = run_tool(TOOL, "--bootstrap-server", bootstrap, *arguments)
    text = UUID.sub("<uuid>", done.stdout + done.stderr).replace(bootstrap, "<bootstrap>")
    lines = (" ".join(line.split()) for line in text.splitlines() if not line.startswith("\tat "))
    return Printed(done.returncode, [line for line in lines if line])


def _offsets(bootstrap: str, group: str) -> dict[str, int]:
    with Cluster(bootstrap) as cluster:
        found, refused = GroupAdmin(cluster).committed_offsets([group])
    assert refused == {}
    return {str(partition): told.offset for partition, told in found[group].items()}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    directory = tmp_path_factory.mktemp("brokers")
    with (
        running_sawlog(directory / "ours", SETTINGS) as ours,
        running_kafka(directory / "theirs", SETTINGS) as theirs,
    ):
        yield Both(ours.bootstrap, theirs.bootstrap)


@pytest.fixture
def topic(both: Both) -> str:
    """Ten records a minute apart in each of two partitions; none in the third."""
    name = f"topic{next(_numbers)}"
    for bootstrap in both:
        with Cluster(bootstrap) as cluster:
            assert Admin(cluster).create_topics([NewTopic(name, partitions=3)]) == {}
            with Producer(cluster) as producer:
                for number in range(20):
                    time_ms = FIRST_TIME_MS + number // 2 * 60_000
                    producer.send(name, b"", partition=number % 2, timestamp_ms=time_ms)
    return name


@pytest.fixture
def idle(both: Both, topic: str) -> str:
    """A group without members that stands at 4 in partition 0 and at 6 in partition 1."""
    name = f"group{next(_numbers)}-idle"
    for bootstrap in both:
        with Cluster(bootstrap) as cluster:
            committed = {partition_of(topic, 0): 4, partition_of(topic, 1): 6}
            assert GroupAdmin(cluster).commit_offsets(name, committed) == {}
    return name


@pytest.fixture
def classic(both: Both, topic: str) -> Iterator[str]:
    """A classic group with one member that reads partitions 0 and 2."""
    name = f"group{next(_numbers)}-classic"
    with contextlib.ExitStack() as stack:
        for bootstrap in both:
            stack.enter_context(ClassicMember(bootstrap, name, {topic: [0, 2]}))
        yield name


@pytest.fixture
def consumer(both: Both, topic: str) -> Iterator[str]:
    """A consumer group with one static member that reads everything."""
    name = f"group{next(_numbers)}-consumer"
    with contextlib.ExitStack() as stack:
        for bootstrap in both:
            stack.enter_context(
                ConsumerMember(bootstrap, name, [topic], member_id="member-1", instance_id="one")
            )
        yield name


def test_list(both: Both, idle: str, classic: str, consumer: str) -> None:
    listed = both.run("--list").lines
    assert {idle, classic, consumer} <= set(listed)
    states = both.rows("--list", "--state")
    assert ["GROUP", "STATE"] in states
    assert [idle, "Empty"] in states
    assert [classic, "Stable"] in states
    stable = both.rows("--list", "--state", "stable,preparingrebalance")
    assert [consumer, "Stable"] in stable
    assert [idle, "Empty"] not in stable
    types = both.rows("--list", "--type")
    assert [classic, "Classic"] in types
    assert [consumer, "Consumer"] in types
    assert [consumer, "Consumer"] in both.rows("--list", "--type", "consumer")
    chosen = both.rows("--list", "--type", "classic", "--state", "empty")
    assert [idle, "Classic", "Empty"] in chosen
    assert [classic, "Classic", "Stable"] not in chosen


def test_describe_offsets(both: Both, topic: str, idle: str, classic: str, consumer: str) -> None:
    header = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"
    shown = both.run("--describe", "--group", idle)
    assert shown.lines[:3] == [
        header,
        f"{idle} {topic} 0 4 10 6 - - -",
        f"{idle} {topic} 1 6 10 4 - - -",
    ]
    assert f"Consumer group '{idle}' has no active members." in shown.lines
    described = both.run("--describe", "--offsets", "--group", classic, "--group", consumer).text
    assert (
        f"{classic} {topic} 0 - 10 - classic-client-<uuid> /127.0.0.1 classic-client" in described
    )
    assert f"{consumer} {topic} 2 - 0 - member-1 /127.0.0.1 consumer-client" in described
    verbose = both.run("--describe", "--offsets", "--verbose", "--group", idle).text
    assert f"{idle} {topic} 0 - 4 10 6 - - -" in verbose
    everything = both.run("--describe", "--all-groups").text
    assert all(name in everything for name in (idle, classic, consumer))


def test_describe_members(both: Both, topic: str, idle: str, classic: str, consumer: str) -> None:
    shown = both.run("--describe", "--members", "--group", classic).lines
    member = f"{classic} classic-client-<uuid> /127.0.0.1 classic-client 2"
    assert shown == ["GROUP CONSUMER-ID HOST CLIENT-ID #PARTITIONS", member]
    verbose = both.run("--describe", "--members", "--verbose", "--group", classic).lines
    assert verbose[1] == f"{member} - {topic}:0,2 - -"
    member = f"{consumer} member-1 one /127.0.0.1 consumer-client 3"
    verbose = both.run("--describe", "--members", "--verbose", "--group", consumer).lines
    assert verbose[1].startswith(member)
    assert verbose[1].count(f"{topic}:0,1,2") == 2
    shown = both.run("--describe", "--members", "--group", idle).lines
    assert f"Consumer group '{idle}' has no active members." in shown
    both.run("--describe", "--members", "--verbose", "--all-groups")


def test_describe_state(both: Both, idle: str, classic: str, consumer: str) -> None:
    shown = both.rows("--describe", "--state", "--group", classic)
    assert [classic, "<bootstrap>", "(1)", "range", "Stable", "1"] in shown
    verbose = both.rows("--describe", "--state", "--verbose", "--group", consumer)
    assert verbose[1][:5] == [consumer, "<bootstrap>", "(1)", "uniform", "Stable"]
    shown = both.rows("--describe", "--state", "--group", idle)
    assert [idle, "<bootstrap>", "(1)", "-", "Empty", "0"] in shown
    both.run("--describe", "--state", "--verbose", "--all-groups")


def test_describe_a_group_that_is_rebalancing(both: Both, topic: str, consumer: str) -> None:
    with contextlib.ExitStack() as stack:
        for bootstrap in both:
            second = ConsumerMember(bootstrap, consumer, [topic], member_id="two", waits=False)
            stack.enter_context(second)
        shown = both.run("--describe", "--members", "--group", consumer).text
        assert f"Warning: Consumer group '{consumer}' is rebalancing." in shown
        assert f"{consumer} two" in shown


@pytest.mark.parametrize("what", ["--offsets", "--members", "--state"])
def test_describe_a_group_that_is_not_there(both: Both, what: str) -> None:
    shown = both.run("--describe", what, "--group", "nope", same=without_words)
    assert "GroupIdNotFoundException" in shown.text


def without_words(line: str) -> str:
    """A refusal without what the broker said besides its code."""
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
    both: Both, topic: str, idle: str, target: tuple[str, ...], expected: dict[int, int]
) -> None:
    shown = both.run("--reset-offsets", "--group", idle, "--topic", topic, *target, "--execute")
    assert shown.code == 0
    for partition, offset in expected.items():
        assert f"{idle} {topic} {partition} {offset}" in shown.lines
    named = {f"{topic}-{partition}": offset for partition, offset in expected.items()}
    assert both.offsets(idle) == named


@pytest.mark.parametrize(
    ("by", "expected"), [("2", (6, 8)), ("-5", (0, 1)), ("100", (10, 10)), ("0", (4, 6))]
)
def test_reset_offsets_by_a_shift(
    both: Both, topic: str, idle: str, by: str, expected: tuple[int, int]
) -> None:
    both.run("--reset-offsets", "--group", idle, "--all-topics", "--shift-by", by, "--execute")
    assert both.offsets(idle) == {f"{topic}-0": expected[0], f"{topic}-1": expected[1]}


def test_reset_offsets_changes_nothing_unless_told(both: Both, topic: str, idle: str) -> None:
    whole = ("--reset-offsets", "--group", idle, "--all-topics", "--to-latest")
    assert f"{idle} {topic} 1 10" in both.run(*whole).lines
    assert f"{idle} {topic} 1 10" in both.run(*whole, "--dry-run").lines
    only = ("--reset-offsets", "--group", idle, "--topic", f"{topic}:1", "--to-earliest")
    assert both.rows(*only, "--dry-run")[1:] == [[idle, topic, "1", "0"]]
    assert both.offsets(idle) == {f"{topic}-0": 4, f"{topic}-1": 6}
    both.run(*only, "--execute")
    assert both.offsets(idle) == {f"{topic}-0": 4, f"{topic}-1": 0}


def test_reset_offsets_by_an_exported_file(
    both: Both, topic: str, idle: str, tmp_path: Path
) -> None:
    export = ("--reset-offsets", "--group", idle, "--all-topics", "--to-current", "--export")
    exported = both.run(*export, "--dry-run").lines
    assert sorted(exported) == [f"{topic},0,4", f"{topic},1,6"]
    both.run("--reset-offsets", "--group", idle, "--all-topics", "--to-latest", "--execute")
    path = tmp_path / "plan.csv"
    path.write_text("\n".join(exported))
    from_file = ("--reset-offsets", "--group", idle, "--from-file", str(path))
    both.run(*from_file, "--dry-run")
    assert both.offsets(idle) == {f"{topic}-0": 10, f"{topic}-1": 10}
    both.run(*from_file, "--execute")
    assert both.offsets(idle) == {f"{topic}-0": 4, f"{topic}-1": 6}


def test_reset_offsets_of_a_group_that_was_not_there(both: Both, topic: str) -> None:
    group = f"group{next(_numbers)}-new"
    both.run("--reset-offsets", "--group", group, "--topic", topic, "--to-latest", "--execute")
    assert both.offsets(group) == {f"{topic}-0": 10, f"{topic}-1": 10, f"{topic}-2": 0}
    assert [group, "Empty"] in both.rows("--list", "--state")


def test_reset_offsets_leaves_groups_with_members_alone(
    both: Both, topic: str, idle: str, classic: str, consumer: str
) -> None:
    to_latest = ("--all-topics", "--to-latest", "--execute")
    for group in (classic, consumer):
        shown = both.run("--reset-offsets", "--group", group, *to_latest).text
        assert f"Assignments can only be reset if the group '{group}' is inactive" in shown
        assert both.offsets(group) == {}
    both.run("--reset-offsets", "--all-groups", *to_latest)
    assert both.offsets(idle) == {f"{topic}-0": 10, f"{topic}-1": 10}


@pytest.mark.parametrize("scope", ["nope", "{}:7"])
def test_reset_offsets_of_what_is_not_there(both: Both, topic: str, idle: str, scope: str) -> None:
    reset = ("--reset-offsets", "--group", idle, "--topic", scope.format(topic), "--to-latest")
    assert "do" in both.run(*reset, "--execute", same=without_words).text
    assert both.offsets(idle) == {f"{topic}-0": 4, f"{topic}-1": 6}


def test_delete_offsets(both: Both, topic: str, idle: str, classic: str) -> None:
    shown = both.rows("--delete-offsets", "--group", idle, "--topic", f"{topic}:1")
    assert [topic, "1", "Successful"] in shown
    assert both.offsets(idle) == {f"{topic}-0": 4}
    both.run("--delete-offsets", "--group", idle, "--topic", topic)
    assert both.offsets(idle) == {}
    shown = both.run("--delete-offsets", "--group", classic, "--topic", topic)
    assert "Encountered some partition-level error" in shown.text
    assert "actively subscribed to it" in shown.text
    both.run("--delete-offsets", "--group", idle, "--topic", "nope", same=without_words)
    both.run("--delete-offsets", "--group", "nope", "--topic", topic)


def test_delete(both: Both, idle: str, classic: str, consumer: str) -> None:
    assert "was successful" in both.run("--delete", "--group", idle).text
    assert idle not in both.run("--list").lines
    for group, reason in (
        (classic, "GroupNotEmptyException"),
        (consumer, "GroupNotEmptyException"),
        (idle, "GroupIdNotFoundException"),
    ):
        shown = both.run("--delete", "--group", group).text
        assert f"Group '{group}' could not be deleted due to" in shown
        assert reason in shown


def test_delete_all_groups(both: Both, idle: str, classic: str) -> None:
    shown = both.run("--delete", "--all-groups", same=without_order).text
    assert f"Group '{classic}' could not be deleted due to" in shown
    assert both.run("--list").lines == [classic]


def without_order(line: str) -> str:
    head, colon, names = line.partition("deleted successfully: ")
    return head + colon + ", ".join(sorted(names.split(", ")))


def test_validate_regex() -> None:
    assert run_tool(TOOL, "--validate-regex", "orders-.*").stdout == (
        "The regular expression `orders-.*` is valid.\n"
    )
    assert "is invalid" in run_tool(TOOL, "--validate-regex", "orders-[").stdout
