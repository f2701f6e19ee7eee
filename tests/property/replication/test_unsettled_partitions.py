"""A follower's fetches that skip settled partitions are answered as those that read all of them.

Two machines get the same operations. One of them reads every partition of a session at every
fetch. Responses, in-sync sets and the followers' progress are equal after every step, and a fetch
stays parked only while there is nothing to tell.
"""

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from sawlog.broker.fetch_sessions import FetchContext, FetchSessions
from sawlog.core.ids import LeaderEpoch, NodeId
from sawlog.protocol.record_batch import check_produced
from sawlog.simulation.schedule import SeededRandom
from sawlog.simulation.simulated_broker import NODE, Call
from support.broker.follower_model import FollowerModel, News
from support.broker.images import OTHER, THIRD, change_partition, join_brokers, replicate
from support.broker.requests import TOPIC, batch_of, machine_with_topic

if TYPE_CHECKING:
    from sawlog.core.errors import KafkaError
    from sawlog.protocol.messages.fetch_request import FetchRequest
    from sawlog.replication.replica import Replica

PARTITIONS = 4
WAIT_MS = 50_000
OPERATIONS = (
    *["append"] * 4,
    *["append awaited"] * 2,
    *["fetch"] * 8,
    *["park"] * 4,
    *["flush"] * 5,
    *["catch up"] * 6,
    *["pass time"] * 2,
    "delete records",
    "elect again",
    "leave in-sync set",
    "join in-sync set",
    "restart",
    "register again",
    "pause",
    "resume",
    "change assignment",
)


class ReadsAll(FetchSessions):
    """Sessions whose fetches read all partitions."""

    def open(self, message: "FetchRequest", version: int) -> FetchContext:
        context = super().open(message, version)
        context.read_all()
        return context


class Led:
    """One machine that leads partitions, and its two followers."""

    def __init__(self, *, reads_all: bool) -> None:
        self.machine = machine_with_topic(PARTITIONS)
        if reads_all:
            sessions = ReadsAll(self.machine.schedule, SeededRandom(1), 100)
            self.machine.broker.components.fetch_sessions = sessions
        for index in range(PARTITIONS):
            replicate(self.machine, OTHER, THIRD, index=index)
        self.machine.schedule.run_for(1_000)
        self.followers = [FollowerModel(self.machine, node, PARTITIONS) for node in (OTHER, THIRD)]
        self.parked: list[Call | None] = [None, None]
        self.outcomes: list[tuple[int, KafkaError | None]] = []
        self.responses: list[News] = []
        for node in range(2):
            self.fetch(node, 0)

    def replica(self, index: int) -> "Replica":
        return self.machine.broker.replicas.leader(TOPIC, index)

    # Operations

    def append(self, _: int, index: int, *, is_awaited: bool = False) -> None:
        batch = memoryview(bytearray(batch_of(self.machine, b"v")))
        replica = self.replica(index)
        header = check_produced(batch, max_batch_bytes=1 << 20)
        end_offset = replica.append(batch, header, is_awaited=is_awaited).base_offset + 1
        if is_awaited:
            replica.when_committed(
                end_offset, lambda error: self.outcomes.append((end_offset, error))
            )

    def append_awaited(self, node: int, index: int) -> None:
        self.append(node, index, is_awaited=True)

    def fetch(self, node: int, _: int, wait_ms: int = 0) -> None:
        """Send the next fetch, which supersedes the one that is parked."""
        follower, parked = self.followers[node], self.parked[node]
        self.parked[node] = None
        call = follower.send(wait_ms=wait_ms)
        if parked is not None:
            assert parked.is_done
            self.responses.append(follower.take(parked))
        if call.is_done:
            self.responses.append(follower.take(call))
        else:
            self.parked[node] = call

    def park(self, node: int, index: int) -> None:
        self.fetch(node, index, WAIT_MS)

    def flush(self, node: int, index: int) -> None:
        self.followers[node].flush([index])

    def catch_up(self, _: int, index: int) -> None:
        """Let both followers have everything; what is settled now depends on the in-sync sets."""
        for _ in range(3):
            for node, follower in enumerate(self.followers):
                self.fetch(node, index)
                follower.flush()
            self.machine.schedule.run_for(100)

    def pass_time(self, _: int, index: int) -> None:
        self.machine.schedule.run_for(1_000 << index)

    def delete_records(self, _: int, index: int) -> None:
        self.replica(index).delete_before(-1)

    def elect_again(self, _: int, index: int) -> None:
        epoch = LeaderEpoch(self.replica(index).leader_epoch + 1)
        change_partition(self.machine, index=index, leader_epoch=epoch)

    def leave_in_sync_set(self, node: int, index: int) -> None:
        self._set_isr(index, [self.followers[1 - node].node])

    def join_in_sync_set(self, _: int, index: int) -> None:
        self._set_isr(index, [OTHER, THIRD])

    def _set_isr(self, index: int, followers: list[NodeId]) -> None:
        state = self.machine.broker.metadata.image.partition(TOPIC, index)
        assert state is not None
        change_partition(
            self.machine,
            index=index,
            isr=(NODE, *followers),
            members=(),
            partition_epoch=state.partition_epoch + 1,
        )

    def change_assignment(self, node: int, index: int) -> None:
        state = self.machine.broker.metadata.image.partition(TOPIC, index)
        assert state is not None
        other = self.followers[node].node
        replicas = (NODE, OTHER, THIRD)
        if other in state.replicas:
            replicas = tuple(member for member in state.replicas if member != other)
        change_partition(self.machine, index=index, replicas=replicas)

    def restart(self, node: int, _: int) -> None:
        """The follower has another broker epoch, which the leader's image may not have yet."""
        self.followers[node].broker_epoch += 1

    def register_again(self, node: int, index: int) -> None:
        """The image has the follower's broker epoch, or one that the follower does not have yet."""
        follower = self.followers[node]
        join_brokers(self.machine, follower.node, epoch=follower.broker_epoch + index % 2)

    def pause(self, node: int, index: int) -> None:
        if len(self.followers[node].paused) < PARTITIONS - 1:
            self.followers[node].paused.add(index)

    def resume(self, node: int, index: int) -> None:
        self.followers[node].paused.discard(index)

    def end_turn(self) -> None:
        self.machine.schedule.run_for(1)
        for node, call in enumerate(self.parked):
            if call is not None and call.is_done:
                self.responses.append(self.followers[node].take(call))
                self.parked[node] = None

    # Checks

    def state(self) -> list[object]:
        found: list[object] = []
        for index in range(PARTITIONS):
            replica = self.replica(index)
            assert replica.leader is not None
            found.append((replica.high_watermark, replica.log.end_offset, replica.leader.in_sync))
            for node, progress in replica.leader.followers.items():
                found.append(
                    (
                        node,
                        progress.broker_epoch,
                        progress.end_offset,
                        progress.flushed_offset,
                        progress.caught_up_ms,
                        progress.fetched_ms,
                    )
                )
        return found

    def check_parked(self) -> None:
        for follower, call in zip(self.followers, self.parked, strict=True):
            if call is None:
                continue
            for index in follower.fetched:
                replica = self.replica(index)
                assert follower.end_offsets[index] == replica.log.end_offset
                assert follower.watermarks[index] == replica.high_watermark
                assert follower.start_offsets[index] == replica.log.start_offset


STEPS = st.lists(
    st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 1), st.integers(0, PARTITIONS - 1)),
    min_size=20,
    max_size=80,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_settled_partitions_are_skipped_without_a_difference(
    steps: list[tuple[str, int, int]],
) -> None:
    skipping, reading = Led(reads_all=False), Led(reads_all=True)
    for operation, node, index in steps:
        for led in (skipping, reading):
            getattr(led, operation.replace(" ", "_").replace("-", "_"))(node, index)
            led.end_turn()
            led.check_parked()
        assert skipping.responses == reading.responses
        assert [bool(call) for call in skipping.parked] == [bool(call) for call in reading.parked]
        assert skipping.state() == reading.state()
        assert len(skipping.outcomes) == len(reading.outcomes)
