"""The guarantees of consumer groups, tested with real clients and each of their protocols."""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from support.client_libraries.client_library import Row
from support.client_libraries.confluent_library import Confluent
from support.group_consumers.consumer_kinds import COOPERATIVE, KINDS, start_consumer
from support.group_consumers.consumer_process import ConsumerProcess
from support.group_consumers.event_journal import (
    ASSIGNED,
    JOINED,
    LOST,
    READ,
    REVOKED,
    Event,
    EventJournal,
    owned_partitions,
    read_offsets,
)
from support.group_consumers.group_checks import failures, fenced_commits, overlaps, unread
from support.kafka.kafka_broker import running_kafka
from support.server.broker_process import running_sawlog

if TYPE_CHECKING:
    from support.group_consumers.group_consumer import GroupConsumer

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
    """A broker whose groups rebalance without delay; some tests restart it."""
    start = {"sawlog": running_sawlog, "kafka": running_kafka}[target]
    with start(tmp_path_factory.mktemp("groups"), SETTINGS) as server:
        yield server


@pytest.fixture
def library(server) -> Confluent:
    return Confluent(server.bootstrap)


def kinds(names: Iterable[str]) -> list[Any]:
    """Parameters; slow kinds run in the long tier.

    kafka-python needs a process of its own and leaves slowly; other tests cover the classic members
    of our client.
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
    """Members of one kind and their events."""

    def __init__(self, bootstrap: str, kind: str, topic: str, name: str = "") -> None:
        self.kind = kind
        self.topic = topic
        self.name = name or f"group-of-{topic}"
        self.journal = EventJournal()
        self._bootstrap = bootstrap
        self._members: dict[str, GroupConsumer] = {}
        self._process: ConsumerProcess | None = None

    def add(self, *names: str, **more: Any) -> None:
        for name in names:
            if self.kind.startswith("kafka-python"):  # it leaks sockets
                self.process.join(self.kind, self.name, self.topic, name, **more)
            else:
                target = (self._bootstrap, self.name, self.topic, name)
                self._members[name] = start_consumer(
                    self.kind, *target, self.journal.record, **more
                )

    @property
    def process(self) -> ConsumerProcess:
        """The process of members that must not run in this one, or that are killed."""
        if self._process is None:
            self._process = ConsumerProcess(self.journal, self._bootstrap)
        return self._process

    def leave(self, *names: str) -> None:
        for name in names:
            if name in self._members:
                self._members.pop(name).leave()
            else:
                self.process.leave(name)
        self.journal.wait_until(
            lambda events: not owned_partitions(events).keys() & set(names), END_S
        )

    def stop(self) -> None:
        self.leave(*self._members)
        if self._process is not None:
            self._process.stop()
            self._process = None

    @property
    def events(self) -> list[Event]:
        return self.journal.events

    def wait_for_sizes(self, *sizes: int) -> dict[str, set[int]]:
        """Wait until the members own so many partitions each; return the partitions by member."""
        wanted = sorted(sizes)
        self.journal.wait_until(lambda events: sizes_of(events) == wanted)
        return owned_partitions(self.events)

    def wait_for_reads(self, ends: dict[int, int]) -> None:
        """Wait until some member has read every record."""
        self.journal.wait_until(lambda events: not unread(events, ends))

    def check(self) -> None:
        events = self.events
        assert failures(events) == []
        assert overlaps(events) == []
        assert fenced_commits(events) == []


def sizes_of(events: list[Event]) -> list[int]:
    return sorted(len(some) for some in owned_partitions(events).values())


@pytest.fixture
def group_of(server, topic: str) -> Iterator[Callable[..., Group]]:
    groups: list[Group] = []

    def make(kind: str, name: str = "") -> Group:
        groups.append(Group(server.bootstrap, kind, topic, name))
        return groups[-1]

    yield make
    for group in groups:
        group.stop()


def fill(
    library: Confluent, topic: str, count: int, partitions: int = PARTITIONS
) -> dict[int, int]:
    """Produce `count` records to each partition; return the end offset of each."""
    rows = [Row(b"x", partition=index % partitions) for index in range(count * partitions)]
    placed = library.produce(topic, rows)
    return {each.partition: each.offset + 1 for each in placed}


def test_a_partition_belongs_to_one_member_of_a_group(library, group_of, topic, kind) -> None:
    library.create_topic(topic, PARTITIONS)
    ends = fill(library, topic, 50)
    group = group_of(kind)
    group.add("anna", "ben")
    owned = group.wait_for_sizes(3, 3)
    assert owned["anna"] | owned["ben"] == set(range(PARTITIONS))
    group.wait_for_reads(ends)
    ends = fill(library, topic, 10)
    group.wait_for_reads(ends)
    late = read_offsets([event for event in group.events if is_read_from(event, 50)])
    assert {partition: offsets[-10:] for partition, offsets in late.items()} == {
        partition: list(range(50, 60)) for partition in range(PARTITIONS)
    }, "a stable group reads each record once"
    group.stop()
    group.check()


def is_read_from(event: Event, offset: int) -> bool:
    return event.kind == READ and any(last >= offset for _, last in event.partitions.values())


def test_more_members_than_partitions_leave_the_rest_idle(library, group_of, topic, kind) -> None:
    library.create_topic(topic, 2)
    group = group_of(kind)
    group.add("anna", "ben", "carla")
    owned = group.wait_for_sizes(0, 1, 1)
    (idle,) = (name for name, some in owned.items() if not some)
    group.wait_for_reads(fill(library, topic, 20, partitions=2))
    assert read_offsets(group.events, idle) == {}
    busy = next(name for name in owned if name != idle)
    group.leave(busy)
    group.wait_for_sizes(1, 1)
    group.stop()
    group.check()


def test_two_groups_do_not_disturb_each_other(library, group_of, topic, kind) -> None:
    library.create_topic(topic, PARTITIONS)
    ends = fill(library, topic, 20)
    first, second = group_of(kind, f"first-{topic}"), group_of(kind, f"second-{topic}")
    first.add("anna")
    first.wait_for_sizes(PARTITIONS)
    first.wait_for_reads(ends)
    seen = len(first.events)
    second.add("ben", "carla")
    second.wait_for_sizes(3, 3)
    second.wait_for_reads(ends)  # from the beginning: offsets of the first group do not count
    second.leave("ben")
    second.wait_for_sizes(PARTITIONS)
    ends = fill(library, topic, 5)
    first.wait_for_reads(ends)
    second.wait_for_reads(ends)
    changes = [event for event in first.events[seen:] if event.kind in (ASSIGNED, REVOKED, LOST)]
    assert changes == []
    for group in (first, second):
        group.stop()
        group.check()


@pytest.mark.parametrize("kind", ["confluent-range", "confluent-consumer"])
def test_a_new_group_starts_at_the_earliest_or_the_latest_offset(
    library, group_of, topic, kind
) -> None:
    library.create_topic(topic, 1)
    fill(library, topic, 10, partitions=1)
    smallest, largest = group_of(kind, f"smallest-{topic}"), group_of(kind, f"largest-{topic}")
    smallest.add("anna")
    largest.add("ben", **{"auto.offset.reset": "latest"})
    smallest.wait_for_reads({0: 10})
    largest.wait_for_sizes(1)
    while not read_offsets(largest.events):  # records before it has found the log end are not read
        fill(library, topic, 1, partitions=1)
    assert read_offsets(smallest.events)[0][:10] == list(range(10))
    assert read_offsets(largest.events)[0][0] >= 10


@pytest.mark.parametrize(
    "kind",
    kinds(["confluent-range", "confluent-consumer", "aiokafka-range", *OURS]),
)
def test_partitions_of_a_dead_member_move_after_the_session_timeout(
    server, library, group_of, topic, kind
) -> None:
    library.create_topic(topic, PARTITIONS)
    group = group_of(kind)
    group.add("anna")
    group.wait_for_sizes(PARTITIONS)
    group.process.join(kind, group.name, topic, "ben")
    owned = group.wait_for_sizes(3, 3)
    group.process.kill()
    moved = owned["ben"]
    group.journal.wait_until(lambda events: owned_partitions(events)["anna"] >= moved)
    group.wait_for_reads(fill(library, topic, 10))
    group.stop()
    group.check()


class BackgroundProducer:
    """Produces records in the background."""

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
def producing(library: Confluent, topic: str) -> Iterator[BackgroundProducer]:
    producer = BackgroundProducer(library, topic)
    try:
        yield producer
    finally:
        producer.stop()


def test_joins_and_leaves_never_give_a_partition_two_owners(library, group_of, topic, kind) -> None:
    library.create_topic(topic, PARTITIONS)
    group = group_of(kind)
    with producing(library, topic) as producer:
        group.add("anna")
        group.wait_for_sizes(PARTITIONS)
        group.add("ben")
        group.wait_for_sizes(3, 3)
        group.add("carla", "dora")
        group.wait_for_sizes(1, 1, 2, 2)
        group.leave("anna", "carla")
        group.wait_for_sizes(3, 3)
        group.add("emil")
        group.wait_for_sizes(2, 2, 2)
        ends = producer.stop()
    group.wait_for_reads(ends)
    group.stop()
    group.check()


@pytest.mark.parametrize("kind", kinds(COOPERATIVE))
def test_members_keep_reading_partitions_that_do_not_move(library, group_of, topic, kind) -> None:
    library.create_topic(topic, PARTITIONS)
    group = group_of(kind)
    with producing(library, topic):
        group.add("anna")
        group.wait_for_sizes(PARTITIONS)
        group.journal.wait_until(lambda events: len(read_offsets(events)) == PARTITIONS)
        before = {each: len(read) for each, read in read_offsets(group.events).items()}
        group.add("ben")
        kept = group.wait_for_sizes(3, 3)["anna"]
        group.journal.wait_until(
            lambda events: all(len(read_offsets(events)[each]) > before[each] for each in kept)
        )
    events = group.events
    joined = next(place for place, event in enumerate(events) if event[1:3] == ("ben", JOINED))
    rebalance = [event for event in events[joined:] if event.member == "anna"]
    given_up = {
        each for event in rebalance if event.kind in (REVOKED, LOST) for each in event.partitions
    }
    assert given_up == set(range(PARTITIONS)) - kept
    through = read_offsets(events, "anna")
    assert all(
        through[each] == list(range(len(through[each]))) and len(through[each]) > before[each]
        for each in kept
    ), "each record is read once, across the rebalance"
    group.stop()
    group.check()


def test_commits_survive_a_kill_of_the_broker(server, library, group_of, topic, kind) -> None:
    library.create_topic(topic, PARTITIONS)
    ends = fill(library, topic, 30)
    first = group_of(kind)
    first.add("anna")
    first.wait_for_reads(ends)
    first.stop()
    server.kill()
    server.start()
    again = group_of(kind, first.name)
    again.add("ben")
    again.wait_for_sizes(PARTITIONS)
    ends = fill(library, topic, 5)
    new = {partition: list(range(30, 35)) for partition in range(PARTITIONS)}
    again.journal.wait_until(lambda events: read_offsets(events) == new)
    again.stop()
    again.check()


def test_a_group_continues_after_a_restart_of_the_broker(
    server, library, group_of, topic, kind
) -> None:
    library.create_topic(topic, PARTITIONS)
    group = group_of(kind)
    group.add("anna", "ben")
    owned = group.wait_for_sizes(3, 3)
    group.wait_for_reads(fill(library, topic, 10))
    server.restart()
    group.wait_for_reads(fill(library, topic, 10))
    group.add("carla")
    group.wait_for_sizes(2, 2, 2)
    group.leave("carla")
    group.wait_for_sizes(3, 3)
    group.wait_for_reads(fill(library, topic, 10))
    assert owned.keys() == owned_partitions(group.events).keys()
    group.stop()
    group.check()
