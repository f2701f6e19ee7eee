"""Replicas that come back with less than they had flushed: guarantee 16 and decision 0015."""

import pytest

from sawlog.cluster.metadata_image import DAMAGED_DIRECTORY, NO_NODE
from sawlog.core.errors import KafkaError
from sawlog.core.ids import NodeId, PartitionIndex, TopicName, TopicPartition
from sawlog.core.ports import DiskFull
from sawlog.replication.isr_writer import IsrWritten
from sawlog.replication.roles import Role
from sawlog.storage.checkpointer import INTERVAL_MS
from sawlog.storage.damaged_logs import DamagedLogs
from sawlog.storage.recovery import UNKNOWN_EPOCH
from support.replication.fetching_cluster import FetchingBroker, FetchingCluster
from support.replication.replicated_logs import assert_identical, values_of

MARKS = "damaged-log-checkpoint"
T0 = TopicPartition(TopicName("t"), PartitionIndex(0))
VALUES = [b"%d" % number for number in range(5)]


def cluster_with_records(count: int = 3) -> FetchingCluster:
    """Five committed records, below the recovery points of all replicas."""
    cluster = FetchingCluster(count)
    for value in VALUES:
        cluster.commit(value)
    cluster.settle()
    cluster.schedule.run_for(2 * INTERVAL_MS)
    return cluster


def noted(broker: FetchingBroker) -> list[str]:
    return [str(tp) for tp in broker.directory.damaged.entries]


def refuse(_: DamagedLogs, tp: TopicPartition) -> None:
    raise DiskFull(str(tp), "no space left")


def test_a_damaged_leader_steps_down_before_it_serves() -> None:
    cluster = cluster_with_records()
    cluster[1].restart(kept_batches=2)
    assert cluster[1].replica.role is Role.IDLE
    assert values_of(cluster[1].replica.log) == VALUES[:2], "truncated at the damage"
    with pytest.raises(KafkaError):
        cluster[1].produce(b"not accepted")
    cluster.schedule.run_for(100)
    state = cluster.state
    assert (state.leader, state.leader_epoch, state.isr) == (NO_NODE, 1, (2, 3))


def test_a_damaged_replica_is_in_sync_again_when_it_has_caught_up() -> None:
    cluster = cluster_with_records()
    cluster[1].restart(kept_batches=2)
    cluster.schedule.run_for(100)
    cluster.elect(2)
    cluster.settle()
    cluster.schedule.run_for(1_000)
    assert_identical(*(broker.replica.log for broker in cluster.brokers.values()))
    assert values_of(cluster[1].replica.log) == VALUES
    assert sorted(cluster.state.isr) == [1, 2, 3]
    assert noted(cluster[1]) == []
    cluster.elect(1)
    cluster.commit(b"led by it again")


@pytest.mark.parametrize("kept_batches", [0, 2])
@pytest.mark.parametrize("kept_bytes", [1, 40, 65])
def test_a_log_that_ends_in_a_torn_batch_is_truncated_before_it(
    kept_batches: int, kept_bytes: int
) -> None:
    cluster = cluster_with_records()
    cluster[1].restart(kept_batches=kept_batches, kept_bytes=kept_bytes)
    cluster.schedule.run_for(100)
    assert cluster.state.isr == (2, 3)
    kept = values_of(cluster[1].replica.log)
    assert kept == VALUES[: len(kept)]
    cluster.elect(2)
    cluster.settle()
    cluster.schedule.run_for(1_000)
    assert_identical(*(broker.replica.log for broker in cluster.brokers.values()))
    assert noted(cluster[1]) == []


def test_a_second_restart_does_not_forget_the_damage() -> None:
    cluster = cluster_with_records()
    before = cluster.image
    cluster[1].restart(kept_batches=2)
    cluster.image = before  # the step-down did not land
    cluster[1].restart()
    assert noted(cluster[1]) == ["t-0"]
    assert cluster[1].replica.role is Role.IDLE


def test_the_note_has_the_newest_epoch_that_the_log_had() -> None:
    """Members that were left out in a later epoch have everything that this replica had."""
    cluster = cluster_with_records()
    cluster.elect(2)
    cluster.commit(b"of epoch 1")
    cluster.settle()
    cluster.schedule.run_for(2 * INTERVAL_MS)
    cluster[1].restart(kept_batches=2)
    assert cluster[1].replica.log.epochs.latest == 0, "the rest is lost"
    assert cluster[1].directory.damaged.entries[T0].last_epoch == 1
    cluster[1].restart()
    assert cluster[1].directory.damaged.entries[T0].last_epoch == 1


@pytest.mark.parametrize("kept_batches", [None, 3])
def test_a_replica_that_leaves_again_names_the_epoch_in_which_it_was_in_sync(
    monkeypatch: pytest.MonkeyPatch, kept_batches: int | None
) -> None:
    """Members that were left out in that epoch may miss what was committed with this replica."""
    cluster = cluster_with_records()
    monkeypatch.setattr(DamagedLogs, "remove", refuse)
    cluster[3].restart(kept_batches=2)
    cluster.schedule.run_for(200)
    cluster.elect(2)
    cluster.commit(b"of epoch 1")
    cluster.settle()
    cluster.schedule.run_for(2 * INTERVAL_MS)
    assert sorted(cluster.state.isr) == [1, 2, 3]
    assert noted(cluster[3]) == ["t-0"], "the disk was full when it was in sync again"
    left: list[int] = []

    def leave(_node: NodeId, _partition_epoch: int, last_epoch: int, _done: IsrWritten) -> None:
        left.append(last_epoch)

    monkeypatch.setattr(cluster, "leave_isr", leave)
    cluster[3].restart(kept_batches=kept_batches)
    assert left == [1]


def test_what_was_fetched_again_survives_another_restart() -> None:
    cluster = cluster_with_records()
    cluster[3].restart(kept_batches=2)
    cluster.schedule.run_for(15)  # the fetch is on its way; the write that leaves the set too
    cluster.schedule.run(lambda: values_of(cluster[3].replica.log) == VALUES)
    cluster.schedule.run_for(200)
    cluster[3].restart()
    assert values_of(cluster[3].replica.log) == VALUES


def test_a_damaged_follower_leaves_the_set_and_joins_it_again() -> None:
    cluster = cluster_with_records()
    cluster[3].restart(kept_batches=0)
    assert cluster.schedule.run(lambda: cluster.state.isr == (1, 2))
    cluster.settle()
    cluster.schedule.run_for(1_000)
    assert sorted(cluster.state.isr) == [1, 2, 3]
    assert cluster.state.leader_epoch == 0
    assert noted(cluster[3]) == []


def test_the_last_member_with_damage_leads_only_after_an_unclean_election() -> None:
    cluster = cluster_with_records()
    cluster.remove_from_isr(2)
    cluster.remove_from_isr(3)
    for other in (2, 3):
        cluster.cut(1, other)
    cluster[1].restart(kept_batches=2)
    cluster.schedule.run_for(100)
    assert (cluster.state.leader, cluster.state.isr) == (NO_NODE, (1,))
    assert cluster.state.members[0].directory_id == DAMAGED_DIRECTORY
    version = cluster.state.partition_epoch
    cluster.schedule.run_for(5_000)
    assert cluster.state.partition_epoch == version, "it asks once"
    cluster.heal()
    cluster.elect_uncleanly(1)
    assert noted(cluster[1]) == []
    cluster.commit(b"new")
    cluster.settle()
    assert_identical(*(broker.replica.log for broker in cluster.brokers.values()))


def test_a_sole_replica_continues_after_the_lost_offsets() -> None:
    cluster = cluster_with_records(1)
    cluster[1].restart(kept_batches=2)
    assert cluster[1].replica.role is Role.LEADER
    assert cluster[1].replica.log.end_offset == 5, "decision 0005"
    assert noted(cluster[1]) == []


def test_a_missing_log_is_damaged() -> None:
    cluster = cluster_with_records()
    disk = cluster[2].disk
    for name in disk.list("t-0"):
        disk.remove(f"t-0/{name}")
    disk.remove_directory("t-0")
    cluster[2].restart()
    assert noted(cluster[2]) == ["t-0"]
    assert cluster[2].directory.damaged.entries[T0].last_epoch == UNKNOWN_EPOCH
    cluster.settle()
    cluster.schedule.run_for(1_000)
    assert values_of(cluster[2].replica.log) == VALUES
    assert noted(cluster[2]) == []


def test_a_sole_replica_serves_although_a_full_disk_keeps_its_note(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = cluster_with_records(1)
    with monkeypatch.context() as patch:
        patch.setattr(DamagedLogs, "remove", refuse)
        cluster[1].restart(kept_batches=2)
        assert cluster[1].replica.role is Role.LEADER
    assert noted(cluster[1]) == ["t-0"]
    cluster[1].restart()
    assert noted(cluster[1]) == []
