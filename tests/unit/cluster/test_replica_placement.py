"""Replica placement: even, spread over racks, rejected with too few brokers."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sawlog.cluster.metadata_image import BrokerImage
from sawlog.cluster.replica_placement import place
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import NodeId
from sawlog.simulation.schedule import SeededRandom


def brokers(*racks: str | None) -> list[BrokerImage]:
    return [BrokerImage(NodeId(n), "h", 9092, rack, n) for n, rack in enumerate(racks)]


@given(
    racks=st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=7),
    partitions=st.integers(1, 30),
    seed=st.integers(0, 1000),
    data=st.data(),
)
def test_replicas_are_distinct_and_spread(
    racks: list[str | None], partitions: int, seed: int, data: st.DataObject
) -> None:
    live = brokers(*racks)
    factor = data.draw(st.integers(1, len(live)))
    placed = place(live, partitions, factor, SeededRandom(seed))
    assert len(placed) == partitions
    rack_of = {broker.id: broker.rack for broker in live}
    for replicas in placed:
        assert len(replicas) == len(set(replicas)) == factor
        spread = len({rack_of[node] for node in replicas})
        assert spread == min(factor, len(set(racks)))
    leaders = Counter(replicas[0] for replicas in placed)
    counts = [leaders[broker.id] for broker in live]
    assert max(counts) - min(counts) <= 1


def test_a_broker_that_shuts_down_gets_no_replicas() -> None:
    live = brokers(None, None, None)
    live[1] = live[1]._replace(is_shutting_down=True)
    for replicas in place(live, 12, 2, SeededRandom(3)):
        assert sorted(replicas) == [0, 2]
    with pytest.raises(KafkaError, match=r"only 2 broker\(s\)"):
        place(live, 1, 3, SeededRandom(3))


def test_brokers_without_a_rack_are_spread_over_their_hosts() -> None:
    hosts = {NodeId(n): f"host{n % 2}" for n in range(4)}
    live = [BrokerImage(node, host, 9092 + node, None, node) for node, host in hosts.items()]
    for replicas in place(live, 12, 2, SeededRandom(3)):
        assert {hosts[node] for node in replicas} == {"host0", "host1"}


def test_followers_of_a_leader_vary() -> None:
    placed = place(brokers(None, None, None, None), 12, 2, SeededRandom(1))
    pairs = {replicas for replicas in placed if replicas[0] == 0}
    assert len(pairs) == 3


def test_more_replicas_than_brokers_are_rejected() -> None:
    with pytest.raises(KafkaError) as raised:
        place(brokers(None), 1, 3, SeededRandom(1))
    assert raised.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert raised.value.message.startswith(
        "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot "
        "be reached because only 1 broker(s) are registered"
    )


def test_placement_without_brokers_is_rejected() -> None:
    with pytest.raises(KafkaError, match="All brokers are currently fenced"):
        place([], 1, 1, SeededRandom(1))
