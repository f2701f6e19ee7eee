"""Brokers that replicate a partition: leaders and followers with their real request handlers."""

from typing import TYPE_CHECKING

import pytest

from sawlog.replication.follower import QUIET_FLUSH_MS
from support.replication.fetching_cluster import FLUSH_MS, NETWORK_MS, FetchingCluster
from support.replication.replicated_logs import assert_identical, values_of

if TYPE_CHECKING:
    from sawlog.storage.log import Log


def logs(cluster: FetchingCluster) -> "list[Log]":
    return [broker.replica.log for broker in cluster.brokers.values()]


def test_records_reach_all_replicas_unchanged() -> None:
    cluster = FetchingCluster()
    for number in range(20):
        cluster.leader.produce(b"%d" % number)
    cluster.settle()
    assert_identical(*logs(cluster))
    assert values_of(cluster[3].replica.log) == [b"%d" % number for number in range(20)]


def test_a_record_that_finds_fetches_parked_takes_one_round_trip_and_one_flush() -> None:
    cluster = FetchingCluster()
    cluster.commit(b"first")
    for number in range(5):
        cluster.schedule.run_for(1_000 + 3 * NETWORK_MS * number)
        assert cluster.commit(b"%d" % number) == 2 * NETWORK_MS + FLUSH_MS


def test_a_lone_record_with_acks_all_takes_two_round_trips_and_two_flushes_at_most() -> None:
    cluster = FetchingCluster()
    for gap_ms in range(80):
        assert cluster.commit(b"%d" % gap_ms) <= 4 * NETWORK_MS + 2 * FLUSH_MS
        cluster.schedule.run_for(gap_ms)


def test_records_that_nobody_waits_for_are_flushed_and_committed_lazily() -> None:
    cluster = FetchingCluster()
    cluster.commit(b"first")
    cluster.schedule.run_for(1_000)
    cluster.leader.produce(b"second")
    cluster.schedule.run_for(2 * NETWORK_MS + 2 * FLUSH_MS)
    assert cluster[2].replica.log.end_offset == 2
    assert cluster[2].replica.log.flushed_offset == 1
    cluster.schedule.run_for(QUIET_FLUSH_MS + 2 * NETWORK_MS + FLUSH_MS)
    assert cluster.leader.replica.high_watermark == 2


def test_an_idle_follower_sends_one_fetch_per_wait() -> None:
    cluster = FetchingCluster(2, replica_fetch_wait_max_ms="500")
    cluster.commit(b"first")
    cluster.schedule.run_for(2_000)
    before = cluster[1].received
    cluster.schedule.run_for(5_200)
    assert cluster[1].received - before == 10


def test_a_deposed_leader_truncates_what_the_new_one_does_not_have() -> None:
    cluster = FetchingCluster()
    cluster.commit(b"kept")
    cluster.settle()
    for other in (2, 3):
        cluster.cut(1, other)
    cluster[1].produce(b"lost 1")
    cluster[1].produce(b"lost 2")
    cluster.schedule.run_for(100)
    cluster.elect(2, unaware=[1])
    cluster[2].produce(b"new")
    cluster.heal()
    cluster.inform(1)
    cluster.settle()
    assert_identical(*logs(cluster))
    assert values_of(cluster[1].replica.log) == [b"kept", b"new"]


def test_a_follower_that_truncated_learns_the_high_watermark_of_an_idle_leader() -> None:
    cluster = FetchingCluster()
    cluster.commit(b"first")
    cluster.settle()
    cluster[1].produce(b"second")
    assert cluster.schedule.run(
        lambda: all(cluster[node].replica.log.end_offset == 2 for node in (2, 3))
    )
    for other in (2, 3):
        cluster.cut(1, other)
    cluster[1].produce(b"lost")
    cluster.schedule.run_for(100)
    assert cluster[1].replica.high_watermark == 1, "it did not hear of the flushes"
    cluster.remove_from_isr(1)
    cluster.elect(2, unaware=[1])
    cluster.schedule.run_for(1_000)
    assert cluster[2].replica.high_watermark == 2
    cluster.heal()
    cluster.inform(1)
    cluster.schedule.run_for(5_000)
    assert values_of(cluster[1].replica.log) == [b"first", b"second"]
    assert cluster[1].replica.high_watermark == 2


def test_after_an_unclean_election_all_replicas_follow_the_new_leader() -> None:
    cluster = FetchingCluster()
    cluster.commit(b"kept")
    cluster.settle()
    cluster.remove_from_isr(3)
    for other in (1, 2):
        cluster.cut(3, other)
    cluster.commit(b"lost")
    cluster.schedule.run_for(1_000)
    assert cluster[2].replica.high_watermark == 2
    cluster.heal()
    cluster.elect_uncleanly(3)
    cluster[3].produce(b"new")
    cluster.settle()
    assert_identical(*logs(cluster))
    assert values_of(cluster[1].replica.log) == [b"kept", b"new"]
    assert [broker.fetchers.failed for broker in cluster.brokers.values()] == [[], [], []]


def test_a_restarted_follower_keeps_what_it_has_and_goes_on() -> None:
    cluster = FetchingCluster()
    cluster.commit(b"a")
    cluster.settle()
    cluster[3].restart()
    cluster.commit(b"b")
    cluster.settle()
    assert_identical(*logs(cluster))


def test_a_restarted_leader_that_loses_its_sessions_is_fetched_from_again() -> None:
    cluster = FetchingCluster()
    cluster.commit(b"a")
    cluster.settle()
    cluster[1].restart()
    cluster.elect(1)
    cluster.commit(b"b")
    cluster.settle()
    assert_identical(*logs(cluster))


def test_deleted_records_are_deleted_on_all_replicas() -> None:
    cluster = FetchingCluster()
    for number in range(5):
        cluster.commit(b"%d" % number)
    cluster.leader.replica.delete_before(3)
    assert cluster.schedule.run(
        lambda: all(broker.replica.log.start_offset == 3 for broker in cluster.brokers.values())
    )


def test_a_follower_that_was_away_longer_than_retention_starts_at_the_leaders_start() -> None:
    cluster = FetchingCluster()
    cluster.commit(b"0")
    cluster.settle()
    cluster.cut(1, 3)
    cluster.remove_from_isr(3)
    for number in range(1, 6):
        cluster.commit(b"%d" % number)
    cluster.leader.replica.delete_before(4)
    cluster.schedule.run_for(3_000)
    assert cluster[3].replica.log.end_offset == 1
    cluster.heal()
    cluster.settle()
    log = cluster[3].replica.log
    assert (log.start_offset, values_of(log)) == (4, [b"4", b"5"])


def test_a_follower_that_caught_up_is_in_sync_again() -> None:
    cluster = FetchingCluster()
    cluster.commit(b"0")
    cluster.cut(1, 3)
    cluster.remove_from_isr(3)
    cluster.commit(b"1")
    assert cluster.state.isr == (1, 2)
    cluster.heal()
    assert cluster.schedule.run(lambda: 3 in cluster.state.isr)
    assert cluster[3].replica.log.flushed_offset == 2


@pytest.mark.parametrize("seed", range(8))
def test_leadership_that_moves_under_load_loses_nothing_committed(seed: int) -> None:
    cluster = FetchingCluster(seed=seed)
    for number in range(12):
        cluster.commit(b"committed %d" % number)
        cluster.leader.produce(b"perhaps %d" % number)
        cluster.schedule.run_for(7 * (seed + number) % 30)
        cluster.elect(cluster.state.isr[number % len(cluster.state.isr)])
    cluster.settle()
    assert_identical(*logs(cluster))
    values = [
        value for value in values_of(cluster[1].replica.log) if b"committed" in (value or b"")
    ]
    assert values == [b"committed %d" % number for number in range(12)]
