"""A leader's bookkeeping, driven with numbers: progress, watermark, in-sync set."""

import pytest

from sawlog.cluster.metadata_image import BrokerImage, InSyncMember, PartitionImage
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import NO_TOPIC_ID, LeaderEpoch, NodeId, PartitionIndex, TopicName
from sawlog.core.ids import TopicPartition as Name
from sawlog.replication.follower_progress import FollowerFetch
from sawlog.replication.isr_writer import IsrWriteError
from sawlog.replication.leader import ISR_RETRY_MS, IsrTotals, Leader, ReplicationContext
from sawlog.simulation.schedule import Schedule
from support.replication.isr_writes import IsrWrites

LAG_MAX_MS = 1_000
EPOCH = LeaderEpoch(5)
BROKER_EPOCHS = {1: 11, 2: 12, 3: 13}


def member(node: int, broker_epoch: int | None = None) -> InSyncMember:
    epoch = BROKER_EPOCHS[node] if broker_epoch is None else broker_epoch
    return InSyncMember(NodeId(node), epoch, f"directory-{node}")


def image(
    isr: tuple[int, ...], partition_epoch: int = 7, replicas: tuple[int, ...] = (1, 2, 3)
) -> PartitionImage:
    return PartitionImage(
        leader=NodeId(1),
        leader_epoch=EPOCH,
        replicas=tuple(map(NodeId, replicas)),
        isr=tuple(map(NodeId, isr)),
        partition_epoch=partition_epoch,
        members=tuple(map(member, isr)),
    )


class World:
    """A leader, node 1, of a partition with replicas on nodes 1, 2 and 3."""

    def __init__(
        self,
        *isr: int,
        start_offset: int = 0,
        commits_on_flush: bool = True,
    ) -> None:
        self.schedule = Schedule(1)
        self.writes = IsrWrites()
        self.totals = IsrTotals()
        self.brokers = {
            NodeId(node): BrokerImage(
                NodeId(node), f"host-{node}", 9092, None, epoch, f"directory-{node}"
            )
            for node, epoch in BROKER_EPOCHS.items()
        }
        self.changes = 0
        self.leader = Leader(
            Name(TopicName("t"), PartitionIndex(0)),
            NO_TOPIC_ID,
            image(isr),
            ReplicationContext(
                NodeId(1),
                self.schedule,
                self.schedule,
                live_brokers=lambda: self.brokers,
                commits_on_flush=commits_on_flush,
                lag_max_ms=lambda: LAG_MAX_MS,
                isr_writer=self.writes,
                is_suspended=lambda: self.writes.is_suspended,
                totals=self.totals,
            ),
            start_offset=start_offset,
            isr_changed=self._isr_changed,
        )

    def _isr_changed(self) -> None:
        self.changes += 1

    def fetch(
        self,
        node: int,
        offset: int,
        flushed: int | None = None,
        *,
        broker_epoch: int | None = None,
        leader_end: int = 100,
        start: int = 0,
    ) -> None:
        self.leader.fetched(
            FollowerFetch(
                NodeId(node),
                BROKER_EPOCHS[node] if broker_epoch is None else broker_epoch,
                offset,
                offset if flushed is None else flushed,
                start,
            ),
            leader_end_offset=leader_end,
        )

    def committed(self, own: int = 100, leader_end: int = 100) -> int:
        return self.leader.committed_offset(own, leader_end)

    def expand(self, node: int, high_watermark: int = 0) -> None:
        self.leader.expand(NodeId(node), high_watermark)

    def shrink(self, leader_end: int = 100) -> None:
        self.leader.shrink(leader_end)

    @property
    def isr(self) -> list[int]:
        return list(self.leader.isr)


def test_the_watermark_is_what_every_in_sync_replica_has_flushed() -> None:
    world = World(1, 2, 3)
    assert world.committed() == -1
    world.fetch(2, 80, flushed=60)
    world.fetch(3, 100, flushed=70)
    assert world.committed() == 60
    assert world.committed(own=50) == 50


def test_with_flush_policy_os_written_records_count() -> None:
    world = World(1, 2, 3, commits_on_flush=False)
    world.fetch(2, 80, flushed=-1)
    world.fetch(3, 90, flushed=-1)
    assert world.committed() == 80


def test_a_replica_that_sends_no_flushed_offset_has_flushed_nothing() -> None:
    world = World(1, 2)
    world.fetch(2, 100, flushed=-1)
    assert world.committed() == -1
    world.schedule.run_for(LAG_MAX_MS + 1)
    world.fetch(2, 100, flushed=-1)
    world.shrink()
    assert world.writes.writes[0].nodes == [1]


def test_a_flushed_offset_above_the_fetch_offset_counts_only_up_to_that() -> None:
    world = World(1, 2)
    world.fetch(2, 40, flushed=90)
    assert world.committed() == 40


def test_a_replica_outside_the_in_sync_set_does_not_hold_the_watermark_back() -> None:
    world = World(1, 2)
    world.fetch(2, 100)
    assert world.committed() == 100
    world.fetch(3, 10)
    assert world.committed() == 100


def test_the_watermark_waits_for_a_follower_that_is_about_to_join() -> None:
    world = World(1, 2)
    world.fetch(2, 200, leader_end=200)
    world.fetch(3, 100, leader_end=100)
    assert world.committed(own=200, leader_end=200) == 100
    world.schedule.run_for(LAG_MAX_MS + 1)
    assert world.committed(own=200, leader_end=200) == 200


# Joining


def test_a_follower_joins_when_it_has_reached_the_watermark() -> None:
    world = World(1, 2)
    world.fetch(3, 49)
    world.expand(3, high_watermark=50)
    assert world.writes.writes == []
    world.fetch(3, 50)
    world.expand(3, high_watermark=50)
    [write] = world.writes.writes
    assert write.members == (member(1), member(2), member(3))
    assert (write.leader_epoch, write.partition_epoch) == (EPOCH, 7)
    assert world.isr == [1, 2]
    world.writes.succeed()
    assert world.isr == [1, 2, 3]
    assert world.changes == 1
    assert world.totals.expands == 1


def test_a_follower_joins_only_with_flushed_records() -> None:
    world = World(1, 2)
    world.fetch(3, 100, flushed=49)
    world.expand(3, high_watermark=50)
    assert world.writes.writes == []


def test_a_follower_below_the_start_of_the_epoch_does_not_join() -> None:
    """KAFKA-7128: committed records may lie between the watermark and the start of the epoch."""
    world = World(1, 2, start_offset=80)
    world.fetch(3, 79)
    world.expand(3, high_watermark=50)
    assert world.writes.writes == []
    world.fetch(3, 80)
    world.expand(3, high_watermark=50)
    assert world.writes.writes[0].nodes == [1, 2, 3]


def test_a_follower_does_not_join_before_it_has_fetched_in_this_epoch() -> None:
    world = World(1, 2)
    world.expand(3)
    assert world.writes.writes == []


def test_a_process_that_is_not_the_registered_one_does_not_join() -> None:
    """KAFKA-14617: the follower restarted, and the image does not show it yet."""
    world = World(1, 2)
    world.fetch(3, 100, broker_epoch=99)
    world.expand(3)
    assert world.writes.writes == []
    world.brokers[NodeId(3)] = world.brokers[NodeId(3)]._replace(epoch=99)
    world.fetch(3, 100, broker_epoch=99)
    world.expand(3)
    assert world.writes.writes[0].members[2] == member(3, 99)


@pytest.mark.parametrize("change", ["dead", "shutting down"])
def test_a_broker_that_is_dead_or_shuts_down_does_not_join(change: str) -> None:
    world = World(1, 2)
    if change == "dead":
        del world.brokers[NodeId(3)]
    else:
        world.brokers[NodeId(3)] = world.brokers[NodeId(3)]._replace(is_shutting_down=True)
    world.fetch(3, 100)
    world.expand(3)
    assert world.writes.writes == []


def test_a_fetch_of_an_earlier_process_is_rejected_and_changes_nothing() -> None:
    world = World(1, 2)
    world.fetch(2, 50)
    world.brokers[NodeId(2)] = world.brokers[NodeId(2)]._replace(epoch=99)
    with pytest.raises(KafkaError) as stale:
        world.fetch(2, 100)
    assert stale.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert world.committed() == 50


def test_a_new_broker_epoch_resets_the_progress() -> None:
    world = World(1, 2)
    world.fetch(2, 100)
    world.fetch(2, 0, broker_epoch=99)
    progress = world.leader.followers[NodeId(2)]
    assert (progress.end_offset, progress.flushed_offset) == (0, 0)
    with pytest.raises(KafkaError):
        world.fetch(2, 100)


def test_a_follower_that_restarted_does_not_hold_the_watermark_back_as_one_that_joins() -> None:
    world = World(1, 2)
    world.fetch(2, 200, leader_end=200)
    world.fetch(3, 100, leader_end=100)
    assert world.committed(own=200, leader_end=200) == 100
    world.brokers[NodeId(3)] = world.brokers[NodeId(3)]._replace(epoch=99)
    world.fetch(3, 50, broker_epoch=99, leader_end=200)
    assert world.committed(own=200, leader_end=200) == 200


def test_a_member_that_restarted_gets_its_new_broker_epoch_when_it_has_caught_up() -> None:
    world = World(1, 2)
    world.brokers[NodeId(2)] = world.brokers[NodeId(2)]._replace(epoch=99)
    world.fetch(2, 40, broker_epoch=99)
    world.expand(2, high_watermark=50)
    assert world.writes.writes == []
    world.fetch(2, 50, broker_epoch=99)
    world.expand(2, high_watermark=50)
    assert world.writes.writes[0].members == (member(1), member(2, 99))
    assert world.totals.expands == 0


# Leaving


def test_a_follower_leaves_when_it_was_not_caught_up_for_too_long() -> None:
    world = World(1, 2, 3)
    world.fetch(2, 100)
    world.fetch(3, 90)
    world.schedule.run_for(LAG_MAX_MS)
    world.shrink()
    assert world.writes.writes == []
    world.schedule.run_for(1)
    world.shrink()
    assert world.writes.writes[0].nodes == [1, 2]
    world.writes.succeed()
    assert world.isr == [1, 2]
    assert world.changes == 1
    assert world.totals.shrinks == 1


def test_a_follower_that_is_always_behind_by_a_little_stays() -> None:
    """Several fetches arrive while a flush runs, and the log grows with each of them."""
    world = World(1, 2)
    for turn in range(100):
        world.fetch(2, 100 + turn * 10, flushed=100 + (turn - 3) * 10, leader_end=110 + turn * 10)
        world.schedule.run_for(LAG_MAX_MS // 10)
        world.shrink(leader_end=120 + turn * 10)
    assert world.writes.writes == []


def test_a_member_outside_the_assignment_has_to_leave_before_anything_is_committed() -> None:
    world = World(1, 2, 3)
    world.fetch(2, 100)
    world.fetch(3, 100)
    world.leader.adopt(image((1, 2, 3), partition_epoch=7, replicas=(1, 2)))
    assert world.committed() == -1
    world.shrink()
    assert world.writes.writes[0].nodes == [1, 2]
    world.writes.succeed()
    assert world.committed() == 100


# Pending changes


def test_a_joining_replica_counts_before_the_write_is_answered() -> None:
    world = World(1, 2)
    world.fetch(2, 100)
    world.fetch(3, 50)
    world.expand(3, high_watermark=50)
    world.schedule.run_for(LAG_MAX_MS + 1)
    assert world.leader.maximal_isr() == {1, 2, 3}
    assert world.committed() == 50


def test_a_leaving_replica_counts_until_the_write_is_answered() -> None:
    """KAFKA-13091: the watermark advances with the answer, not with the next fetch."""
    world = World(1, 2, 3)
    world.fetch(2, 100)
    world.fetch(3, 50)
    world.schedule.run_for(LAG_MAX_MS + 1)
    world.shrink()
    assert world.committed() == 50
    world.writes.succeed()
    assert world.changes == 1
    assert world.committed() == 100


def test_only_one_change_is_written_at_a_time() -> None:
    world = World(1)
    world.fetch(2, 100)
    world.fetch(3, 100)
    world.expand(2)
    world.expand(3)
    assert [write.nodes for write in world.writes.writes] == [[1, 2]]
    world.writes.succeed()
    world.expand(3)
    assert world.writes.writes[0].nodes == [1, 2, 3]
    assert world.writes.writes[0].partition_epoch == 8


def test_a_stale_write_stays_pending_until_the_next_image() -> None:
    """A write that was repeated in between may have happened before the other one."""
    world = World(1, 2)
    world.fetch(3, 100)
    world.expand(3)
    world.writes.fail(IsrWriteError.STALE)
    world.expand(3)
    assert world.writes.writes == []
    assert world.leader.maximal_isr() == {1, 2, 3}
    world.schedule.run_for(ISR_RETRY_MS)
    world.writes.fail(IsrWriteError.STALE)
    assert world.leader.maximal_isr() == {1, 2, 3}
    world.leader.adopt(image((1,), partition_epoch=8))
    assert world.leader.maximal_isr() == {1}
    world.expand(3)
    assert world.writes.writes[0].partition_epoch == 8


def test_a_write_without_an_answer_is_repeated_and_stays_pending() -> None:
    """KAFKA-1382: the first write may have happened; then the second one is stale."""
    world = World(1, 2)
    world.fetch(3, 100)
    world.expand(3)
    world.writes.fail(IsrWriteError.UNAVAILABLE)
    assert world.leader.maximal_isr() == {1, 2, 3}
    world.schedule.run_for(ISR_RETRY_MS)
    assert world.writes.writes[0].nodes == [1, 2, 3]
    assert world.writes.writes[0].partition_epoch == 7
    world.writes.fail(IsrWriteError.STALE)
    world.leader.adopt(image((1, 2, 3), partition_epoch=8))
    assert world.isr == [1, 2, 3]


def test_a_change_is_taken_back_by_a_write_if_the_new_member_may_not_join_any_more() -> None:
    world = World(1, 2)
    world.fetch(2, 100)
    world.fetch(3, 50)
    world.expand(3)
    world.writes.fail(IsrWriteError.STALE)
    del world.brokers[NodeId(3)]
    world.schedule.run_for(ISR_RETRY_MS)
    [write] = world.writes.writes
    assert write.nodes == [1, 2]
    assert world.committed() == 50, "the first write may have happened"
    world.writes.succeed()
    assert world.isr == [1, 2]
    assert world.committed() == 100


def test_an_image_decides_a_pending_write_and_its_answer_is_ignored() -> None:
    world = World(1, 2)
    world.fetch(3, 100)
    world.expand(3)
    world.leader.adopt(image((1, 2, 3), partition_epoch=8))
    assert world.isr == [1, 2, 3]
    world.leader.adopt(image((1, 3), partition_epoch=9))
    world.writes.succeed()
    assert world.isr == [1, 3]
    assert world.leader.in_sync.partition_epoch == 9


def test_an_older_image_changes_nothing() -> None:
    world = World(1)
    world.fetch(2, 100)
    world.expand(2)
    world.writes.succeed()
    world.leader.adopt(image((1,), partition_epoch=7))
    assert world.isr == [1, 2]


def test_a_suspended_session_keeps_the_in_sync_set_as_it_is() -> None:
    world = World(1, 2)
    world.writes.is_suspended = True
    world.fetch(2, 50)
    world.fetch(3, 100)
    world.expand(3)
    world.schedule.run_for(LAG_MAX_MS + 1)
    world.shrink()
    assert world.writes.writes == []
    assert world.leader.maximal_isr() == {1, 2}
    world.fetch(2, 100)
    assert world.committed() == 100
    world.writes.is_suspended = False
    world.fetch(3, 100)
    world.expand(3)
    assert world.writes.writes[0].nodes == [1, 2, 3]


def test_an_ended_leader_writes_nothing_again() -> None:
    world = World(1, 2)
    world.fetch(3, 100)
    world.expand(3)
    world.leader.end()
    world.writes.fail(IsrWriteError.UNAVAILABLE)
    world.schedule.run_for(10 * ISR_RETRY_MS)
    assert world.writes.writes == []


# Other


def test_a_replica_that_is_not_assigned_is_rejected() -> None:
    world = World(1, 2)
    for has_epoch, code in (
        (True, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (False, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ):
        with pytest.raises(KafkaError) as error:
            world.leader.check_follower(NodeId(4), has_epoch=has_epoch)
        assert error.value.code is code
    world.leader.check_follower(NodeId(3), has_epoch=True)


def test_the_low_watermark_is_the_smallest_start_offset_of_live_replicas() -> None:
    world = World(1, 2, 3)
    world.fetch(2, 100, start=20)
    world.fetch(3, 100, start=5)
    assert world.leader.low_watermark(30) == 5
    del world.brokers[NodeId(3)]
    assert world.leader.low_watermark(30) == 20
    assert world.leader.low_watermark(10) == 10


def test_a_leader_with_too_few_members_is_under_its_minimum() -> None:
    world = World(1, 2)
    assert not world.leader.is_under_min_isr(2)
    assert world.leader.is_under_min_isr(3)
    assert world.leader.is_under_min_isr(4)
    assert world.leader.is_under_replicated
    assert not World(1, 2, 3).leader.is_under_min_isr(4)
    assert not World(1, 2, 3).leader.is_under_replicated
