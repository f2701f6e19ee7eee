"""Any interleaving of appends, fetches, flushes, power losses and clean elections keeps everything
that was committed, and ends with identical logs."""

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from sawlog.storage.log_config import LogConfig
from support.replication.replicated_logs import (
    Copy,
    assert_identical,
    catch_up,
    copies,
    diverging_epoch,
    fetch_once,
    values_of,
)

if TYPE_CHECKING:
    from sawlog.replication.follower import Follower

NODES = 3
OPERATIONS = (
    *["append"] * 4,
    *["fetch"] * 8,
    *["fetch one batch"] * 2,
    *["flush"] * 4,
    *["commit"] * 5,
    *["expand"] * 2,
    "shrink",
    "elect",
    "lose power",
)


class ReplicatedPartition:
    """Three replicas, and what a controller and a leader remember of them.

    The set of in-sync replicas, the progress of followers in this epoch and the committed values
    are kept here; truncation and appends are the Follower's.
    """

    def __init__(self) -> None:
        self.copies: list[Copy] = copies(NODES, LogConfig(segment_bytes=300))
        self.in_sync = set(range(NODES))
        self.committed: list[bytes | None] = []
        self.epoch = -1
        self.followers: dict[int, Follower] = {}
        self.flushed: dict[int, int] = {}  # as followers have told the leader in this epoch
        self.count = 0
        self.elect(0)

    @property
    def leader(self) -> Copy:
        return self.copies[self.leading]

    # Operations; each does nothing where it is not possible

    def elect(self, node: int) -> None:
        if node not in self.in_sync:
            return
        self.epoch += 1
        self.leading = node
        self.leader.lead(self.epoch)
        self.epoch_start = self.leader.log.end_offset
        self.flushed = {}
        self.followers = {
            other: self.copies[other].follow(self.epoch) for other in range(NODES) if other != node
        }

    def append(self, _: int) -> None:
        self.count += 1
        self.leader.write(self.epoch, b"%d" % self.count)

    def fetch(self, node: int, max_bytes: int = 1 << 20) -> None:
        follower = self.followers.get(node)
        if follower is None:
            return
        position = follower.position
        leader = self.leader.log
        agrees = diverging_epoch(leader, position) is None
        fetch_once(leader, follower, max_bytes=max_bytes)
        if agrees:
            self.flushed[node] = min(position.flushed_offset, leader.end_offset)

    def flush(self, node: int) -> None:
        self.copies[node].flush()

    def commit(self, _: int) -> None:
        """Move the high watermark over what all in-sync replicas have flushed."""
        log = self.leader.log
        others = [self.flushed.get(node, -1) for node in self.in_sync if node != self.leading]
        watermark = min([log.flushed_offset, *others])
        if watermark > log.high_watermark:
            log.set_high_watermark(watermark)
        if watermark > len(self.committed):
            self.committed = values_of(log)[:watermark]

    def shrink(self, node: int) -> None:
        if node != self.leading:
            self.in_sync.discard(node)

    def expand(self, node: int) -> None:
        reached = self.flushed.get(node, -1)
        if reached >= max(self.leader.log.high_watermark, self.epoch_start):
            self.in_sync.add(node)

    def lose_power(self, node: int) -> None:
        copy = self.copies[node]
        copy.lose_power()
        copy.open()
        self.flushed.pop(node, None)
        if node == self.leading:
            self.elect(node)
        else:
            self.followers[node] = copy.follow(self.epoch)

    # Checks

    def check(self) -> None:
        count = len(self.committed)
        for node in self.in_sync:
            assert self.copies[node].values[:count] == self.committed, (node, "lost commits")
        for copy in self.copies:
            watermark = copy.log.high_watermark
            assert copy.values[:watermark] == self.committed[:watermark]

    def settle(self) -> None:
        for follower in self.followers.values():
            catch_up(self.leader.log, follower)
        assert_identical(*(copy.log for copy in self.copies))
        self.check()


STEPS = st.lists(
    st.tuples(st.sampled_from(OPERATIONS), st.integers(0, NODES - 1)), min_size=30, max_size=120
)


@settings(max_examples=80, deadline=None)
@given(STEPS)
def test_committed_records_survive_and_logs_become_identical(steps: list[tuple[str, int]]) -> None:
    partition = ReplicatedPartition()
    for operation, node in steps:
        match operation:
            case "fetch one batch":
                partition.fetch(node, max_bytes=1)
            case _:
                getattr(partition, operation.replace(" ", "_"))(node)
        partition.check()
    partition.settle()
