"""Sawlog's client and librdkafka share a group, with each protocol and in either order."""

import pytest

from support.client_libraries.client_library import Row
from support.client_libraries.confluent_library import Confluent
from support.group_consumers.consumer_kinds import start_consumer
from support.group_consumers.event_journal import Event, EventJournal, owned_partitions
from support.group_consumers.group_checks import failures, fenced_commits, overlaps, unread
from support.kafka.shared_brokers import EITHER_BROKER, QUICK_GROUPS, Server, SharedBrokers

PARTITIONS = 6
END_S = 60
PAIRS = {
    "eager": ("sawlog-range", "confluent-range"),
    "cooperative": ("sawlog-cooperative", "confluent-cooperative"),
    "consumer": ("sawlog-consumer", "confluent-consumer"),
    "ours with the consumer protocol": ("sawlog-consumer", "confluent-cooperative"),
    "ours with the classic protocol": ("sawlog-cooperative", "confluent-consumer"),
}


@pytest.fixture(scope="module", params=EITHER_BROKER)
def server(request: pytest.FixtureRequest, shared_brokers: SharedBrokers) -> Server:
    return shared_brokers.get(request.param, QUICK_GROUPS)


def fill(library: Confluent, topic: str, count: int) -> dict[int, int]:
    rows = [Row(b"x", partition=index % PARTITIONS) for index in range(count * PARTITIONS)]
    return {each.partition: each.offset + 1 for each in library.produce(topic, rows)}


def sizes_of(events: list[Event]) -> list[int]:
    return sorted(len(some) for some in owned_partitions(events).values())


@pytest.mark.parametrize("ours_first", [True, False])
@pytest.mark.parametrize("pair", PAIRS)
def test_both_clients_share_a_group(server, topic, pair, ours_first) -> None:
    library = Confluent(server.bootstrap)
    library.create_topic(topic, PARTITIONS)
    kinds = PAIRS[pair] if ours_first else PAIRS[pair][::-1]
    journal = EventJournal()
    target = (server.bootstrap, f"group-of-{topic}", topic)
    members = {}

    def join(name: str, kind: str, *expected: int) -> None:
        members[name] = start_consumer(kind, *target, name, journal.record)
        journal.wait_until(lambda events: sizes_of(events) == sorted(expected), END_S)
        ends = fill(library, topic, 10)
        journal.wait_until(lambda events: not unread(events, ends), END_S)

    join("anna", kinds[0], PARTITIONS)
    join("ben", kinds[1], 3, 3)
    join("carla", kinds[0], 2, 2, 2)
    members.pop("anna").leave()  # the first member, which leads a classic group
    journal.wait_until(lambda events: sizes_of(events) == [3, 3], END_S)
    ends = fill(library, topic, 10)
    journal.wait_until(lambda events: not unread(events, ends), END_S)
    for member in members.values():
        member.leave()
    for member in members.values():
        member.wait(END_S)
    events = journal.events
    assert failures(events) == []
    assert overlaps(events) == []
    assert fenced_commits(events) == []
