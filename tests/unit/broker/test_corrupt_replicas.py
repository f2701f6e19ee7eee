"""Replicas with a corrupt batch below their recovery points: decisions 0005 and 0015."""

import pytest

from sawlog.cluster.metadata_image import NO_NODE
from sawlog.replication.roles import Role
from sawlog.storage.checkpointer import INTERVAL_MS
from support.replication.fetching_cluster import FetchingBroker, FetchingCluster
from support.replication.replicated_logs import assert_identical, headers_in, values_of

VALUES = [b"value %d" % number for number in range(5)]
OFFSET_AT = 7
LENGTH_AT = 10
MAGIC_AT = 16
LAST_BYTE = -1


def cluster_with_records(count: int = 3) -> FetchingCluster:
    """Five committed records, each a batch, below the recovery points of all replicas."""
    cluster = FetchingCluster(count)
    for value in VALUES:
        cluster.commit(value)
    cluster.settle()
    cluster.schedule.run_for(2 * INTERVAL_MS)
    return cluster


def corrupt(broker: FetchingBroker, batch: int, at: int) -> None:
    """Change one byte of a batch, counted from its start or its end."""
    headers = headers_in(broker.replica.log)
    position = sum(header.size for header in headers[:batch]) + at % headers[batch].size
    path = f"t-0/{0:020}.log"
    byte = broker.disk.read_file(path)[position]
    broker.disk.overwrite(path, position, bytes([byte ^ 0x40]))


def begin_again(cluster: FetchingCluster, number: int) -> None:
    """A broker has lost its log, and fetches all records again."""
    cluster.remove_from_isr(number)
    cluster[number].restart(kept_batches=0)


@pytest.mark.parametrize("at", [LAST_BYTE, OFFSET_AT, LENGTH_AT, MAGIC_AT])
def test_a_leader_hands_on_when_a_follower_finds_a_corrupt_batch(at: int) -> None:
    cluster = cluster_with_records()
    corrupt(cluster[1], 2, at)
    begin_again(cluster, 3)
    assert cluster.schedule.run(lambda: cluster.state.leader == NO_NODE)
    assert (cluster.state.leader_epoch, cluster.state.isr) == (1, (2,))
    assert cluster[1].replica.role is Role.IDLE
    assert cluster[1].replica.log.end_offset == 5, "kept until another one leads"
    cluster.elect(2)
    cluster.settle()
    cluster.schedule.run_for(5_000)
    assert_identical(*(broker.replica.log for broker in cluster.brokers.values()))
    assert values_of(cluster[1].replica.log) == VALUES
    assert sorted(cluster.state.isr) == [1, 2, 3]


def test_a_corrupt_batch_is_not_appended_and_not_asked_for_too_often() -> None:
    """The leader is the only in-sync replica: it goes on with what it has."""
    cluster = cluster_with_records()
    cluster.cut(1, 2)
    cluster.remove_from_isr(2)
    corrupt(cluster[1], 2, LAST_BYTE)
    begin_again(cluster, 3)
    cluster.schedule.run_for(1_000)
    before = cluster[1].received
    cluster.schedule.run_for(10_000)
    assert cluster[1].received - before <= 4 * 10, "about one fetch and one report in a second"
    assert values_of(cluster[3].replica.log) == VALUES[:2]
    assert (cluster.state.leader, cluster.state.leader_epoch) == (1, 0)
    assert cluster[1].replica.log.end_offset == 5


def test_a_follower_that_recovery_finds_corrupt_fetches_the_records_again() -> None:
    cluster = cluster_with_records()
    corrupt(cluster[3], 2, MAGIC_AT)
    cluster[3].restart()
    assert cluster[3].replica.log.end_offset == 5, "nothing after the batch is dropped"
    assert cluster.schedule.run(lambda: cluster.state.isr == (1, 2))
    assert (cluster.state.leader, cluster.state.leader_epoch) == (1, 1)
    cluster.settle()
    cluster.schedule.run_for(5_000)
    assert_identical(*(broker.replica.log for broker in cluster.brokers.values()))
    assert sorted(cluster.state.isr) == [1, 2, 3]


def test_a_sole_replica_keeps_everything_after_a_corrupt_batch() -> None:
    cluster = cluster_with_records(1)
    corrupt(cluster[1], 2, MAGIC_AT)
    cluster[1].restart()
    cluster.schedule.run_for(60_000)
    assert cluster[1].replica.role is Role.LEADER
    assert (cluster[1].replica.log.start_offset, cluster[1].replica.log.end_offset) == (0, 5)


def test_a_leader_stays_while_no_other_member_is_alive() -> None:
    """The others are in the stored set, but they do not fetch: they may never come back."""
    cluster = cluster_with_records()
    for other in (2, 3):
        cluster.cut(1, other)
    cluster.schedule.run_for(5_000)
    assert cluster.state.isr == (1, 2, 3)
    corrupt(cluster[1], 2, LAST_BYTE)
    leader = cluster[1].replica
    cluster[1].replicas.corruption_reported(leader, 2)
    cluster.schedule.run_for(100)
    assert (cluster.state.leader, cluster.state.leader_epoch) == (1, 0)
    assert leader.log.end_offset == 5


def test_a_follower_stays_until_its_leader_has_answered() -> None:
    """The leader is registered, but it may be dead, and this the last copy of the records."""
    cluster = cluster_with_records(2)
    corrupt(cluster[2], 2, MAGIC_AT)
    cluster.cut(1, 2)
    cluster[2].restart()
    cluster.schedule.run_for(20_000)
    assert (cluster.state.leader_epoch, cluster.state.isr) == (0, (1, 2))
    assert cluster[2].replica.log.end_offset == 5
    cluster.heal()
    assert cluster.schedule.run(lambda: cluster.state.isr == (1,))
    cluster.settle()
    cluster.schedule.run_for(5_000)
    assert_identical(*(broker.replica.log for broker in cluster.brokers.values()))
    assert sorted(cluster.state.isr) == [1, 2]


def test_a_wrong_report_changes_nothing() -> None:
    cluster = cluster_with_records()
    cluster[1].replicas.corruption_reported(cluster[1].replica, 2)
    cluster.schedule.run_for(1_000)
    assert (cluster.state.leader, cluster.state.leader_epoch) == (1, 0)
    assert sorted(cluster.state.isr) == [1, 2, 3]
