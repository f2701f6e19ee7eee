"""A leading replica with followers, on a simulated disk: commits, in-sync set, epochs."""

import pytest

from sawlog.cluster.metadata_image import BrokerImage, InSyncMember, PartitionImage
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import LeaderEpoch, NodeId
from sawlog.protocol.record_batch import check_produced
from sawlog.protocol.records import Record, build_batch
from sawlog.replication.follower_progress import FollowerFetch
from sawlog.replication.leader import ReplicationContext
from sawlog.replication.replica import Replica
from support.replication.isr_writes import IsrWrites
from support.storage.logs import TOPIC_ID, TP, SimulatedStorage

OWN, OTHER = NodeId(1), NodeId(2)
LAG_MAX_MS = 1_000
BROKER_EPOCH = 10


class World:
    """Node 1, which leads in epoch 1, and its follower, node 2."""

    def __init__(self, *isr: NodeId, commits_on_flush: bool = True) -> None:
        self.storage = SimulatedStorage()
        self.schedule = self.storage.schedule
        self.writes = IsrWrites()
        self.outcomes: list[ErrorCode | None] = []
        brokers = {
            node: BrokerImage(node, "host", 9092, None, BROKER_EPOCH, str(node))
            for node in (OWN, OTHER)
        }
        context = ReplicationContext(
            OWN,
            self.schedule,
            self.schedule,
            live_brokers=lambda: brokers,
            commits_on_flush=commits_on_flush,
            lag_max_ms=lambda: LAG_MAX_MS,
            isr_writer=self.writes,
            is_suspended=lambda: self.writes.is_suspended,
        )
        self.replica = Replica(self.storage.log, TP, TOPIC_ID, context)
        self.lead(1, *isr)

    def lead(self, epoch: int, *isr: NodeId, partition_epoch: int = 0) -> None:
        self.replica.lead(
            LeaderEpoch(epoch),
            PartitionImage(
                OWN,
                LeaderEpoch(epoch),
                (OWN, OTHER),
                isr,
                partition_epoch,
                tuple(InSyncMember(node, BROKER_EPOCH, str(node)) for node in isr),
            ),
        )

    def append(self) -> int:
        """Append a record, flush it, and wait for its commit; returns the log end offset."""
        batch = memoryview(build_batch([Record(0, self.storage.now_ms, b"k", b"v", ())]))
        header = check_produced(batch, max_batch_bytes=1 << 20)
        end_offset = self.replica.append(batch, header, is_awaited=True).base_offset + 1
        self.replica.when_committed(end_offset, self._committed)
        self.schedule.run_for(100)
        return end_offset

    def _committed(self, error: KafkaError | None) -> None:
        self.outcomes.append(None if error is None else error.code)

    def fetch(self, offset: int, flushed: int) -> None:
        self.replica.fetched(FollowerFetch(OTHER, BROKER_EPOCH, offset, flushed, 0))


def test_a_waiter_succeeds_when_the_follower_has_flushed() -> None:
    world = World(OWN, OTHER)
    end_offset = world.append()
    world.fetch(end_offset, 0)
    assert world.outcomes == []
    world.fetch(end_offset, end_offset)
    assert world.outcomes == [None]
    assert world.replica.high_watermark == end_offset


def test_a_waiter_for_followers_does_not_flush_if_commits_need_no_flush() -> None:
    world = World(OWN, OTHER, commits_on_flush=False)
    end_offset = world.append()
    world.fetch(end_offset, -1)
    assert world.outcomes == [None]
    assert world.storage.log.flushed_offset == 0


def test_a_waiter_of_an_ended_epoch_fails_even_if_its_offset_is_committed_later() -> None:
    world = World(OWN, OTHER)
    world.append()
    world.replica.follow(LeaderEpoch(2), OTHER)
    assert world.outcomes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    world.storage.log.truncate(0)
    world.lead(3, OWN, OTHER)
    end_offset = world.append()
    world.fetch(end_offset, end_offset)
    assert world.outcomes == [ErrorCode.NOT_LEADER_OR_FOLLOWER, None]


def test_progress_of_an_ended_epoch_does_not_count() -> None:
    world = World(OWN, OTHER)
    end_offset = world.append()
    world.fetch(end_offset, end_offset)
    world.lead(2, OWN, OTHER)
    world.append()
    assert world.replica.high_watermark == end_offset
    assert world.replica.leader is not None
    assert not world.replica.leader.followers[OTHER].has_fetched


def test_a_slow_follower_leaves_and_the_waiters_succeed() -> None:
    world = World(OWN, OTHER)
    end_offset = world.append()
    world.schedule.run_for(LAG_MAX_MS)
    world.replica.check_in_sync_set()
    assert world.writes.writes[0].nodes == [OWN]
    assert world.outcomes == [], "the write may fail"
    world.writes.succeed()
    assert world.outcomes == [None]
    assert world.replica.high_watermark == end_offset


def test_a_follower_that_has_caught_up_joins_and_counts_at_once() -> None:
    world = World(OWN)
    end_offset = world.append()
    assert world.outcomes == [None]
    world.fetch(end_offset, end_offset)
    assert world.writes.writes[0].nodes == [OWN, OTHER]
    world.append()
    assert world.outcomes == [None], "the write may have happened"
    world.writes.succeed()
    world.fetch(end_offset + 1, end_offset + 1)
    assert world.outcomes == [None, None]


def test_a_suspended_store_changes_no_in_sync_set_and_stops_no_producer() -> None:
    world = World(OWN, OTHER)
    world.writes.is_suspended = True
    for _ in range(5):
        end_offset = world.append()
        world.schedule.run_for(LAG_MAX_MS)
        world.replica.check_in_sync_set()
        world.fetch(end_offset, end_offset)
    assert world.outcomes == [None] * 5
    assert world.writes.writes == []


def test_a_leader_of_an_ended_epoch_ignores_the_answer_to_its_write() -> None:
    world = World(OWN, OTHER)
    world.append()
    world.schedule.run_for(LAG_MAX_MS)
    world.replica.check_in_sync_set()
    world.replica.follow(LeaderEpoch(2), OTHER)
    world.writes.succeed()
    assert world.replica.high_watermark == 0


@pytest.mark.parametrize("event", ["follow", "lose_leader"])
def test_a_replica_that_does_not_lead_appends_nothing(event: str) -> None:
    world = World(OWN)
    if event == "follow":
        world.replica.follow(LeaderEpoch(2), OTHER)
    else:
        world.replica.lose_leader(LeaderEpoch(1))
    with pytest.raises(KafkaError) as refused:
        world.append()
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert world.storage.log.end_offset == 0
