"""The rules of consumer groups, each held by real clients in every protocol that they speak."""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from support.clients.confluent import Confluent
from support.clients.model import Row
from support.kafka.kafka_broker import running_kafka
from support.readers.host import Host
from support.readers.journal import (
    ASSIGNED,
    JOINED,
    LOST,
    READ,
    REVOKED,
    Event,
    Journal,
    holdings,
    read_offsets,
)
from support.readers.judge import commits_of_the_fenced, failures, overlaps, unread
from support.readers.kinds import COOPERATIVE, KINDS, make_member
from support.server.broker_process import running_sawlog

if TYPE_CHECKING:
    from support.readers.member import Member

PARTITIONS = 6
SESSION_S = 6
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_S * 1_000),
}
END_S = 60
OURS = ("sawlog-range", "sawlog-cooperative", "sawlog-consumer")


@pytest.fixture(scope="module")
def server(target: str, tmp_path_factory: pytest.TempPathFactory):
    """A broker whose groups lose no time; some tests stop it and start it again."""
    start = {"sawlog": running_sawlog, "kafka": running_kafka}[target]
    with start(tmp_path_factory.mktemp("groups"), SETTINGS) as server:
        yield server


@pytest.fixture
def library(server) -> Confluent:
    return Confluent(server.bootstrap)


def kinds(names: Iterable[str]) -> list[Any]:
    """kafka-python needs a process of its own and is slow to leave: it runs in the long tests, and
    so do our own classic members, whom tests of their own watch in the others.
    """
    slow = ("kafka-python", "sawlog-range", "sawlog-cooperative")
    return [
        pytest.param(name, marks=pytest.mark.long) if name.startswith(slow) else name
        for name in names
    ]


@pytest.fixture(params=kinds(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


class Group:
    """Members of one kind, and what they tell."""

    def __init__(self, bootstrap: str, kind: str, topic: str, name: str = "") -> None:
        self.kind = kind
        self.topic = topic
        self.name = name or f"group-of-{topic}"
        self.journal = Journal()
        self._bootstrap = bootstrap
        self._members: dict[str, Member] = {}
        self._host: Host | None = None

    def add(self, *names: str, **more: Any) -> None:
        for name in names:
            if self.kind.startswith("kafka-python"):  # it leaves sockets behind
                self.host.join(self.kind, self.name, self.topic, name, **more)
            else:
                place = (self._bootstrap, self.name, self.topic, name)
                self._members[name] = make_member(self.kind, *place, self.journal.tell, **more)

    @property
    def host(self) -> Host:
        """A process for members that cannot be here, or are to die."""
        if self._host is None:
            self._host = Host(self.journal, self._bootstrap)
        return self._host

    def leave(self, *names: str) -> None:
        for name in names:
            if name in self._members:
                self._members.pop(name).leave()
            else:
                self.host.leave(name)
        self.journal.wait_until(lambda events: not holdings(events).keys() & set(names), END_S)

    def end(self) -> None:
        self.leave(*self._members)
        if self._host is not None:
            self._host.end()
            self._host = None

    @property
    def events(self) -> list[Event]:
        return self.journal.events

    def wait_for_shares(self, *sizes: int) -> dict[str, set[int]]:
        """Until the members have so many partitions each, in any order; who has what."""
        wanted = sorted(sizes)
        self.journal.wait_until(lambda events: shares(events) == wanted)
        return holdings(self.events)

    def wait_for_reads(self, ends: dict[int, int]) -> None:
        """Until every record has been read by somebody."""
        self.journal.wait_until(lambda events: not unread(events, ends))

    def check(self) -> None:
        events = self.events
        assert failures(events) == []
        assert overlaps(events) == []
        assert commits_of_the_fenced(events) == []


def shares(events: list[Event]) -> list[int]:
    return sorted(len(some) for some in holdings(events).values())


@pytest.fixture
def group_of(server, topic: str) -> Iterator[Callable[..., Group]]:
    groups: list[Group] = []

    def make(kind: str, name: str = "") -> Group:
        groups.append(Group(server.bootstrap, kind, topic, name))
        return groups[-1]

    yield make
    for group in groups:
        group.end()


def fill(
    library: Confluent, topic: str, count: int, partitions: int = PARTITIONS
) -> dict[int, int]:
    """So many records in each partition more; where each partition ends now."""
    rows = [Row(b"x", partition=index % partitions) for index in range(count * partitions)]
    placed = library.produce(topic, rows)
    return {each.partition: each.offset + 1 for each in placed}


def test_a_partition_belongs_to_one_member_of_a_group(library, group_of, topic, kind) -> None:
    library.create_topic(topic, PARTITIONS)
    ends = fill(library, topic, 50)
    group = group_of(kind)
    group.add("anna", "ben")
    have = group.wait_for_shares(3, 3)
    assert have["anna"] | have["ben"] == set(range(PARTITIONS))
    group.wait_for_reads(ends)
    ends = fill(library, topic, 10)
    group.wait_for_reads(ends)
    late = read_offsets([event for event in group.events if is_read_from(event, 50)])
    assert {partition: offsets[-10:] for partition, offsets in late.items()} == {
        partition: list(range(50, 60)) for partition in range(PARTITIONS)
    }, "a settled group reads each record once"
    group.end()
    group.check()


def is_read_from(event: Event, offset: int) -> bool:
    return event.what == READ and any(last >= offset for _, last in event.partitions.values())


def test_more_members_than_partitions_leave_the_rest_idle(library, group_of, topic, kind) -> None:
    library.create_topic(topic, 2)
    group = group_of(kind)
    group.add("anna", "ben", "carla")
    have = group.wait_for_shares(0, 1, 1)
    (idle,) = (name for name, some in have.items() if not some)
    group.wait_for_reads(fill(library, topic, 20, partitions=2))
    assert read_offsets(group.events, idle) == {}
    busy = next(name for name in have if name != idle)
    group.leave(busy)
    group.wait_for_shares(1, 1)
    group.end()
    group.check()


def test_two_groups_do_not_disturb_each_other(library, group_of, topic, kind) -> None:
    library.create_topic(topic, PARTITIONS)
    ends = fill(library, topic, 20)
    first, second = group_of(kind, f"first-{topic}"), group_of(kind, f"second-{topic}")
    first.add("anna")
    first.wait_for_shares(PARTITIONS)
    first.wait_for_reads(ends)
    seen = len(first.events)
    second.add("ben", "carla")
    second.wait_for_shares(3, 3)
    second.wait_for_reads(ends)  # from the beginning, whatever the first has committed
    second.leave("ben")
    second.wait_for_shares(PARTITIONS)
    ends = fill(library, topic, 5)
    first.wait_for_reads(ends)
    second.wait_for_reads(ends)
    changes = [event for event in first.events[seen:] if event.what in (ASSIGNED, REVOKED, LOST)]
    assert changes == []
    for group in (first, second):
        group.end()
        group.check()


@pytest.mark.parametrize("kind", ["confluent-range", "confluent-consumer"])
def test_a_new_group_starts_at_the_smallest_or_the_largest_offset(
    library, group_of, topic, kind
) -> None:
    library.create_topic(topic, 1)
    fill(library, topic, 10, partitions=1)
    smallest, largest = group_of(kind, f"smallest-{topic}"), group_of(kind, f"largest-{topic}")
    smallest.add("anna")
    largest.add("ben", **{"auto.offset.reset": "latest"})
    smallest.wait_for_reads({0: 10})
    largest.wait_for_shares(1)
    while not read_offsets(largest.events):  # until it has found the end, it sees nothing new
        fill(library, topic, 1, partitions=1)
    assert read_offsets(smallest.events)[0][:10] == list(range(10))
    assert read_offsets(largest.events)[0][0] >= 10


@pytest.mark.parametrize(
    "kind",
    kinds(["confluent-range", "confluent-consumer", "aiokafka-range", *OURS]),
)
def test_a_dead_members_partitions_move_within_the_session_time_out(
    server, library, group_of, topic, kind
) -> None:
    library.create_topic(topic, PARTITIONS)
    group = group_of(kind)
    group.add("anna")
    group.wait_for_shares(PARTITIONS)
    group.host.join(kind, group.name, topic, "ben")
    have = group.wait_for_shares(3, 3)
    group.host.kill()
    moved = have["ben"]
    group.journal.wait_until(lambda events: holdings(events)["anna"] >= moved, SESSION_S * 5)
    group.wait_for_reads(fill(library, topic, 10))
    group.end()
    group.check()


class Drip:
    """Records that keep coming while a test does something else."""

    def __init__(self, library: Confluent, topic: str) -> None:
        self._library = library
        self._topic = topic
        self._is_over = threading.Event()
        self.ends: dict[int, int] = {}
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.wait(0.03):
            self.ends = fill(self._library, self._topic, 1)

    def stop(self) -> dict[int, int]:
        self._is_over.set()
        self._thread.join(END_S)
        return self.ends


@contextlib.contextmanager
def dripping(library: Confluent, topic: str) -> Iterator[Drip]:
    drip = Drip(library, topic)
    try:
        yield drip
    finally:
        drip.stop()


def test_adding_and_removing_members_never_doubles_ownership(
    library, group_of, topic, kind
) -> None:
    library.create_topic(topic, PARTITIONS)
    group = group_of(kind)
    with dripping(library, topic) as drip:
        group.add("anna")
        group.wait_for_shares(PARTITIONS)
        group.add("ben")
        group.wait_for_shares(3, 3)
        group.add("carla", "dora")
        group.wait_for_shares(1, 1, 2, 2)
        group.leave("anna", "carla")
        group.wait_for_shares(3, 3)
        group.add("emil")
        group.wait_for_shares(2, 2, 2)
        ends = drip.stop()
    group.wait_for_reads(ends)
    group.end()
    group.check()


@pytest.mark.parametrize("kind", kinds(COOPERATIVE))
def test_who_keeps_a_partition_does_not_stop_reading_it(library, group_of, topic, kind) -> None:
    library.create_topic(topic, PARTITIONS)
    group = group_of(kind)
    with dripping(library, topic):
        group.add("anna")
        group.wait_for_shares(PARTITIONS)
        group.journal.wait_until(lambda events: len(read_offsets(events)) == PARTITIONS)
        before = {each: len(read) for each, read in read_offsets(group.events).items()}
        group.add("ben")
        kept = group.wait_for_shares(3, 3)["anna"]
        group.journal.wait_until(
            lambda events: all(len(read_offsets(events)[each]) > before[each] for each in kept)
        )
    events = group.events
    came = next(place for place, event in enumerate(events) if event[1:3] == ("ben", JOINED))
    round_of_it = [event for event in events[came:] if event.member == "anna"]
    given_up = {
        each for event in round_of_it if event.what in (REVOKED, LOST) for each in event.partitions
    }
    assert given_up == set(range(PARTITIONS)) - kept
    through = read_offsets(events, "anna")
    assert all(
        through[each] == list(range(len(through[each]))) and len(through[each]) > before[each]
        for each in kept
    ), "read each record once, from before the change to after it"
    group.end()
    group.check()


def test_commits_survive_a_kill_of_the_broker(server, library, group_of, topic, kind) -> None:
    library.create_topic(topic, PARTITIONS)
    ends = fill(library, topic, 30)
    first = group_of(kind)
    first.add("anna")
    first.wait_for_reads(ends)
    first.end()
    server.kill()
    server.start()
    again = group_of(kind, first.name)
    again.add("ben")
    again.wait_for_shares(PARTITIONS)
    ends = fill(library, topic, 5)
    new = {partition: list(range(30, 35)) for partition in range(PARTITIONS)}
    again.journal.wait_until(lambda events: read_offsets(events) == new)
    again.end()
    again.check()


def test_a_group_goes_on_after_a_restart_of_the_broker(
    server, library, group_of, topic, kind
) -> None:
    library.create_topic(topic, PARTITIONS)
    group = group_of(kind)
    group.add("anna", "ben")
    have = group.wait_for_shares(3, 3)
    group.wait_for_reads(fill(library, topic, 10))
    server.restart()
    group.wait_for_reads(fill(library, topic, 10))
    group.add("carla")
    group.wait_for_shares(2, 2, 2)
    group.leave("carla")
    group.wait_for_shares(3, 3)
    group.wait_for_reads(fill(library, topic, 10))
    assert have.keys() == holdings(group.events).keys()
    group.end()
    group.check()
