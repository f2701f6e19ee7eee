"""Our own client in one group with librdkafka's, by each protocol, whoever comes first."""

import pytest

from support.clients.confluent import Confluent
from support.clients.model import Row
from support.kafka.shared_brokers import EITHER_BROKER, QUICK_GROUPS, Server, SharedBrokers
from support.readers.journal import Event, Journal, holdings
from support.readers.judge import commits_of_the_fenced, failures, overlaps, unread
from support.readers.kinds import make_member

PARTITIONS = 6
END_S = 60
PAIRS = {
    "eager": ("sawlog-range", "confluent-range"),
    "cooperative": ("sawlog-cooperative", "confluent-cooperative"),
    "consumer": ("sawlog-consumer", "confluent-consumer"),
    "ours by the newer protocol": ("sawlog-consumer", "confluent-cooperative"),
    "ours by the older protocol": ("sawlog-cooperative", "confluent-consumer"),
}


@pytest.fixture(scope="module", params=EITHER_BROKER)
def server(request: pytest.FixtureRequest, shared_brokers: SharedBrokers) -> Server:
    return shared_brokers.get(request.param, QUICK_GROUPS)


def fill(library: Confluent, topic: str, count: int) -> dict[int, int]:
    rows = [Row(b"x", partition=index % PARTITIONS) for index in range(count * PARTITIONS)]
    return {each.partition: each.offset + 1 for each in library.produce(topic, rows)}


def shares(events: list[Event]) -> list[int]:
    return sorted(len(some) for some in holdings(events).values())


@pytest.mark.parametrize("ours_first", [True, False])
@pytest.mark.parametrize("pair", PAIRS)
def test_they_share_a_group(server, topic, pair, ours_first) -> None:
    library = Confluent(server.bootstrap)
    library.create_topic(topic, PARTITIONS)
    kinds = PAIRS[pair] if ours_first else PAIRS[pair][::-1]
    journal = Journal()
    place = (server.bootstrap, f"group-of-{topic}", topic)
    members = {}

    def join(name: str, kind: str, *expected: int) -> None:
        members[name] = make_member(kind, *place, name, journal.tell)
        journal.wait_until(lambda events: shares(events) == sorted(expected), END_S)
        ends = fill(library, topic, 10)
        journal.wait_until(lambda events: not unread(events, ends), END_S)

    join("anna", kinds[0], PARTITIONS)
    join("ben", kinds[1], 3, 3)
    join("carla", kinds[0], 2, 2, 2)
    members.pop("anna").leave()  # who was first, and led
    journal.wait_until(lambda events: shares(events) == [3, 3], END_S)
    ends = fill(library, topic, 10)
    journal.wait_until(lambda events: not unread(events, ends), END_S)
    for member in members.values():
        member.leave()
    for member in members.values():
        member.wait(END_S)
    events = journal.events
    assert failures(events) == []
    assert overlaps(events) == []
    assert commits_of_the_fenced(events) == []
