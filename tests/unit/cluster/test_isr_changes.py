"""In-sync sets that leaders write: compare-and-set, lost answers, and races with elections."""

import pytest

from sawlog.cluster import znodes
from sawlog.cluster.isr_changes import IsrWriteError
from sawlog.core.ids import LeaderEpoch, NodeId, PartitionIndex, TopicName, TopicPartition
from sawlog.core.store import Create, Delete, Operation, SetData
from support.cluster.cluster import Cluster

T0 = TopicPartition(TopicName("t"), PartitionIndex(0))


def test_a_leader_shrinks_and_expands_its_in_sync_set() -> None:
    cluster = Cluster()
    cluster.create("t", [0, 1, 2])
    assert cluster.isr_written(0, "t", 0, 1) == 1
    assert cluster.settle()
    for node in range(3):
        partition = cluster.partition(node, "t")
        assert (partition.isr, partition.leader_epoch, partition.partition_epoch) == ((0, 1), 0, 1)
        assert partition.members == (cluster.entry(0), cluster.entry(1))
    assert cluster.isr_written(0, "t", 0, 1, 2) == 2
    assert cluster.settle()
    assert cluster.partition(1, "t").isr == (0, 1, 2)


def test_writes_may_follow_each_other_before_the_image_shows_the_first() -> None:
    cluster = Cluster()
    cluster.create("t", [0, 1, 2])
    leader = cluster.members[0]
    topic = leader.image.topics[T0.topic]
    members = tuple(cluster.entry(node) for node in (0, 1))
    results: list[object] = []

    leader.isr_changes.write_isr(
        T0, topic.id, topic.partitions[0].leader_epoch, members, 0, results.append
    )
    leader.isr_changes.write_isr(
        T0, topic.id, topic.partitions[0].leader_epoch, members[:1], 1, results.append
    )
    assert cluster.schedule.run(lambda: len(results) == 2)
    assert results == [1, 2]
    assert cluster.stored("t").isr == (0,)


def test_a_write_with_an_old_version_changes_nothing() -> None:
    """Guarantee 12. Another writer's change is in the store and not yet in the leader's image."""
    cluster = Cluster()
    cluster.create("t", [0, 1, 2])
    path = znodes.state_path("t", 0)
    before = cluster.service.tree.get(path).data
    cluster.service.write([SetData(path, before)], 0)
    results = cluster.write_isr(0, "t", (cluster.entry(0),))
    assert cluster.schedule.run(lambda: bool(results))
    assert results == [IsrWriteError.STALE]
    assert cluster.service.tree.get(path).data == before


def test_a_write_that_races_an_election_loses() -> None:
    """KAFKA-12686: the controller has elected another leader before the write arrives."""
    cluster = Cluster()
    cluster.create("t", [0, 1, 2])
    elected = cluster.stored("t")._replace(leader=NodeId(1), leader_epoch=LeaderEpoch(1))
    path = znodes.state_path("t", 0)
    cluster.service.write([SetData(path, znodes.encode_state(elected))], 0)
    results = cluster.write_isr(0, "t", (cluster.entry(0),))
    assert cluster.schedule.run(lambda: bool(results))
    assert results == [IsrWriteError.STALE]
    assert cluster.stored("t").isr == (0, 1, 2)
    assert cluster.settle()
    later = cluster.write_isr(0, "t", (cluster.entry(0),))
    assert cluster.schedule.run(lambda: bool(later))
    assert later == [IsrWriteError.STALE], "it does not lead any more"


def test_a_write_for_a_recreated_topic_is_stale() -> None:
    cluster = Cluster(brokers=1)
    cluster.create("t", [0])
    member = cluster.members[0]
    old = member.image.topics[T0.topic]
    assert member.delete("t") is None
    cluster.create("t", [0])
    results: list[object] = []
    member.isr_changes.write_isr(
        T0,
        old.id,
        old.partitions[0].leader_epoch,
        (cluster.entry(0),),
        0,
        results.append,
    )
    assert results == [], "never from inside the call"
    assert cluster.schedule.run(lambda: bool(results))
    assert results == [IsrWriteError.STALE]


def test_a_member_of_an_earlier_broker_epoch_may_not_join() -> None:
    """KAFKA-14617, KIP-903: the broker bounced, and lost its data, since it caught up."""
    cluster = Cluster()
    cluster.create("t", [0, 1, 2])
    assert cluster.isr_written(0, "t", 0, 1) == 1
    assert cluster.settle()
    entry = cluster.entry(2)
    for stale in (
        entry._replace(broker_epoch=entry.broker_epoch - 1),
        entry._replace(directory_id="another"),
    ):
        results = cluster.write_isr(0, "t", (cluster.entry(0), cluster.entry(1), stale))
        assert cluster.schedule.run(lambda results=results: bool(results))
        assert results == [IsrWriteError.STALE]
    assert cluster.stored("t").isr == (0, 1)


@pytest.mark.parametrize("is_registered_again", [True, False])
def test_a_member_whose_registration_has_ended_may_not_join(is_registered_again: bool) -> None:
    """Guarantee 14a. The broker's registration ended, and the leader's image does not show it yet,
    for example because the leader was paused."""
    cluster = Cluster()
    cluster.create("t", [0, 1, 2])
    assert cluster.isr_written(0, "t", 0, 1) == 1
    assert cluster.settle()
    entry, old = cluster.entry(2), cluster.service.tree.get(znodes.broker_path(2))
    name = znodes.decode_broker(NodeId(2), old).registration
    changes: list[Operation] = [
        Delete(znodes.broker_path(2)),
        Delete(znodes.registration_path(name)),
    ]
    if is_registered_again:
        changes.append(Create(znodes.broker_path(2), old.data))
        changes.append(Create(znodes.registration_path("another")))
    cluster.service.write(changes, 0)
    results = cluster.write_isr(0, "t", (cluster.entry(0), cluster.entry(1), entry))
    assert cluster.schedule.run(lambda: bool(results))
    assert results == [IsrWriteError.STALE]
    assert cluster.stored("t").isr == (0, 1)


@pytest.mark.parametrize("seed", range(12))
def test_a_lost_answer_is_decided_by_reading_the_state_again(seed: int) -> None:
    """KAFKA-1382: the write may have landed before the connection broke."""
    cluster = Cluster(seed)
    cluster.create("t", [0, 1, 2])
    results = cluster.write_isr(0, "t", (cluster.entry(0), cluster.entry(1)))
    for _ in range(seed % 4):
        cluster.schedule.step()
    store = cluster.store(0)
    store.suspend()
    cluster.schedule.run_for(20)
    has_landed = cluster.stored("t").isr == (0, 1)
    assert len(results) in (0, 1)
    store.resume()
    assert cluster.schedule.run(lambda: bool(results))
    if results == [1]:
        assert cluster.stored("t").isr == (0, 1)
    else:
        assert results == [IsrWriteError.UNAVAILABLE]
        assert not has_landed
        cluster.schedule.run_for(100)
        assert cluster.isr_written(0, "t", 0, 1) == 1, "the caller writes it again"


def test_a_leader_without_a_connection_changes_no_in_sync_set() -> None:
    cluster = Cluster()
    cluster.create("t", [0, 1, 2])
    cluster.store(0).suspend()
    results = cluster.write_isr(0, "t", (cluster.entry(0),))
    cluster.schedule.run_for(1_000)
    assert results == []
    assert cluster.stored("t").isr == (0, 1, 2)


def test_a_damaged_leader_leaves_and_another_member_is_elected() -> None:
    cluster = Cluster()
    cluster.create("t", [0, 1, 2])
    leader = cluster.members[0]
    results: list[object] = []
    leader.isr_changes.leave_isr(T0, leader.image.topics[T0.topic].id, 0, -1, results.append)
    assert cluster.schedule.run(lambda: bool(results))
    assert cluster.settle()
    partition = cluster.partition(1, "t")
    assert (partition.leader, partition.isr) == (1, (1, 2))


def test_the_last_member_that_is_damaged_is_not_elected_again() -> None:
    cluster = Cluster()
    cluster.create("t", [0, 1, 2])
    assert cluster.isr_written(0, "t", 0) == 1
    assert cluster.settle()
    leader = cluster.members[0]
    results: list[object] = []
    leader.isr_changes.leave_isr(T0, leader.image.topics[T0.topic].id, 1, -1, results.append)
    assert cluster.schedule.run(lambda: bool(results))
    cluster.schedule.run_for(10_000)
    stored = cluster.stored("t")
    assert (stored.leader, stored.isr) == (-1, (0,))


def test_a_damaged_replica_does_not_leave_a_state_that_has_changed() -> None:
    cluster = Cluster()
    cluster.create("t", [0, 1, 2])
    assert cluster.isr_written(0, "t", 0, 1) == 1
    leader = cluster.members[0]
    topic_id = leader.image.topics[T0.topic].id
    for partition_epoch in (1, 0):  # newer than the view, then older than the stored one
        results: list[object] = []
        leader.isr_changes.leave_isr(T0, topic_id, partition_epoch, -1, results.append)
        assert cluster.schedule.run(lambda results=results: bool(results))
        assert results == [IsrWriteError.STALE]
    assert cluster.stored("t").isr == (0, 1)
