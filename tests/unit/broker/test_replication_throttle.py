"""Throttled replication between brokers with their real request handlers, in simulated time."""

import pytest

from sawlog.core.config_throttle import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
)
from support.replication.fetching_cluster import FetchingCluster

RATE = 10_000
BACKLOG = 60
SIZE = 5_000


def lagging(topic: dict[str, str], brokers: dict[str, str]) -> FetchingCluster:
    """Broker 3 is out of sync and misses BACKLOG records of SIZE bytes; then the settings come."""
    cluster = FetchingCluster(replica_fetch_max_bytes="5000", replica_lag_time_max_ms="2000")
    cluster.commit(b"first")
    for other in (1, 2):
        cluster.cut(3, other)
    cluster.remove_from_isr(3)
    for _ in range(BACKLOG):
        cluster.leader.produce(b"x" * SIZE)
    cluster.schedule.run_for(5_000)
    assert cluster[2].replica.log.end_offset == BACKLOG + 1
    cluster.configure(topic=topic, brokers=brokers)
    cluster.heal()
    return cluster


def fetched_bytes(cluster: FetchingCluster, for_ms: int) -> int:
    before = sum(totals.bytes for totals in cluster[3].fetchers.totals.values())
    cluster.schedule.run_for(for_ms)
    return sum(totals.bytes for totals in cluster[3].fetchers.totals.values()) - before


@pytest.mark.parametrize(
    ("replicas", "rate"), [(LEADER_REPLICAS, LEADER_RATE), (FOLLOWER_REPLICAS, FOLLOWER_RATE)]
)
@pytest.mark.parametrize("text", ["*", "node"])
def test_an_out_of_sync_replica_catches_up_at_the_rate_of_its_throttle(
    replicas: str, rate: str, text: str
) -> None:
    node = 1 if replicas is LEADER_REPLICAS else 3
    listed = {replicas: f"1:{node},0:{node}" if text == "node" else text}
    cluster = lagging(listed, {rate: str(RATE)})
    moved = fetched_bytes(cluster, 20_000)
    assert RATE * 15 <= moved <= RATE * 25
    assert cluster.schedule.run(lambda: 3 in cluster.state.isr)


@pytest.mark.parametrize(
    ("replicas", "rate", "text"),
    [
        (LEADER_REPLICAS, LEADER_RATE, "0:2,0:3,1:1"),
        (FOLLOWER_REPLICAS, FOLLOWER_RATE, "0:1,0:2,1:3"),
    ],
)
def test_replicas_that_are_not_listed_are_not_throttled(
    replicas: str, rate: str, text: str
) -> None:
    cluster = lagging({replicas: text}, {rate: "1"})
    assert fetched_bytes(cluster, 5_000) > BACKLOG * SIZE


def test_in_sync_replicas_are_not_held_back_though_their_bytes_count() -> None:
    cluster = FetchingCluster()
    cluster.commit(b"first")
    cluster.configure(
        topic={LEADER_REPLICAS: "*", FOLLOWER_REPLICAS: "*"},
        brokers={LEADER_RATE: "1", FOLLOWER_RATE: "1"},
    )
    for number in range(20):
        assert cluster.commit(b"%d" % number * 1_000) < 100
    assert cluster[1].throttle.leader.wait_ms() > 0
    assert cluster[3].throttle.follower.wait_ms() > 0
    assert cluster.state.isr == (1, 2, 3)


def test_in_sync_replicas_acknowledge_while_another_is_held_back() -> None:
    cluster = lagging(
        {LEADER_REPLICAS: "*", FOLLOWER_REPLICAS: "*"},
        {LEADER_RATE: str(RATE), FOLLOWER_RATE: str(RATE)},
    )
    for _ in range(10):
        assert cluster.commit(b"record") < 100
        cluster.schedule.run_for(100)
    assert cluster[3].replica.log.end_offset < BACKLOG


def test_a_throttle_that_is_removed_lets_the_replica_catch_up() -> None:
    cluster = lagging(
        {LEADER_REPLICAS: "0:1", FOLLOWER_REPLICAS: "0:3"},
        {LEADER_RATE: "100", FOLLOWER_RATE: "100"},
    )
    assert fetched_bytes(cluster, 10_000) < BACKLOG * SIZE // 2
    cluster.configure(topic={}, brokers={})
    assert fetched_bytes(cluster, 3_000) > BACKLOG * SIZE // 2, "a new rate counts at once"
    cluster.settle()


@pytest.mark.parametrize("replicas", [LEADER_REPLICAS, FOLLOWER_REPLICAS])
def test_a_partition_with_too_many_digits_does_not_keep_an_image_from_being_applied(
    replicas: str,
) -> None:
    cluster = FetchingCluster()
    cluster.configure(topic={replicas: f"{'9' * 5_000}:1,0:1"}, brokers={})
    throttle = cluster[1].throttle
    quota = throttle.leader if replicas is LEADER_REPLICAS else throttle.follower
    assert quota.throttles("t", 0)
    cluster.commit(b"served")
