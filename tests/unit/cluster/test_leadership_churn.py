"""Leaders, in-sync sets and reassignments under faults from a seed; every stored state is checked.

Brokers crash, restart (some with an empty directory), lose sessions and connections; leaders write
in-sync sets from their own images, administrators reassign replicas, order elections and stop
brokers. Each write of a state is compared with the state before.
"""

from collections.abc import Sequence

import pytest

from sawlog.cluster import znodes
from sawlog.cluster.controlled_shutdown import hand_over
from sawlog.cluster.metadata_image import NO_NODE, InSyncMember, PartitionImage
from sawlog.cluster.ordered_elections import ElectionType
from sawlog.cluster.znodes import PartitionState
from sawlog.core.ids import NodeId, PartitionIndex, TopicName, TopicPartition
from sawlog.core.store import Operation, Result, SessionState, SetData
from sawlog.simulation.schedule import SeededRandom
from sawlog.simulation.simulated_store import SimulatedStore
from support.cluster.cluster import Cluster
from support.cluster.member import MemberHarness
from support.tiers import rounds

BROKERS = 4
T = TopicName("t")


class LeadershipChurn:
    def __init__(self, seed: int) -> None:
        self.cluster = Cluster(seed, brokers=BROKERS)
        self.cluster.create("t", [0, 1, 2], [1, 2, 3], [2, 3, 0])
        self.random = SeededRandom(seed)
        self.dead: list[SimulatedStore] = []
        self.directories = dict.fromkeys(range(BROKERS), 0)
        self.writes = 0
        self.is_over = False
        self._write = self.cluster.service.write
        self.cluster.service.write = self.checked  # type: ignore[method-assign]

    # Invariants

    def checked(self, operations: Sequence[Operation], session: int) -> list[Result]:
        changes = [op for op in operations if isinstance(op, SetData) and "/state" in op.path]
        tree = self.cluster.service.tree
        before = {op.path: znodes.decode_state(tree.get(op.path)) for op in changes}
        results = self._write(operations, session)
        writes_topic = any(
            isinstance(op, SetData) and op.path.count("/") == znodes.topic_path("t").count("/")
            for op in operations
        )
        for op in changes:
            old, new = before[op.path], znodes.decode_state(tree.get(op.path))
            if writes_topic and new.members == old.members and new.leader == old.leader:
                assert new.leader_epoch <= old.leader_epoch + 1, "a replica is added"
            else:
                self.check(old, new)
            self.writes += 1
        return results

    def check(self, old: PartitionState, new: PartitionState) -> None:
        assert new.members, "an in-sync set is never empty"
        assert len(set(new.isr)) == len(new.isr)
        assert new.controller_epoch >= old.controller_epoch
        leads = new.leader == NO_NODE or new.member(new.leader) is not None
        assert leads, "a leader is in its in-sync set"
        if new.leader == NO_NODE:
            assert set(new.members) <= set(old.members)
            return
        was, now = old.member(new.leader), new.member(new.leader)
        assert now is not None
        if (old.leader, was) != (new.leader, now):
            assert new.leader_epoch > old.leader_epoch, "guarantee 9: one appender per epoch"
            assert was is not None, "guarantee 3: no unclean election"
            assert now.directory_id == was.directory_id, "guarantee 16"
            kept = {member.node: member.directory_id for member in old.members}
            for member in new.members:
                assert kept.get(member.node) == member.directory_id, "guarantee 16"
        else:
            assert new.leader_epoch == old.leader_epoch

    # Faults and work

    def run(self, steps: int) -> None:
        actions = (
            self.write_isr,
            self.write_isr,
            self.write_isr,
            self.break_session,
            self.crash,
            self.restart,
            self.reassign,
            self.order_election,
            self.shut_down,
        )
        for _ in range(steps):
            action = actions[self.random.below(len(actions))]
            action() if self.cluster.members else self.restart()
            for _ in range(self.random.below(40)):
                self.cluster.schedule.step()

    def member(self) -> MemberHarness:
        nodes = sorted(self.cluster.members)
        return self.cluster.members[nodes[self.random.below(len(nodes))]]

    def write_isr(self) -> None:
        """A leader writes a random in-sync set, of brokers as its own image shows them."""
        member = self.member()
        topic = member.image.topics.get(T)
        index = self.random.below(3)
        if topic is None or topic.partitions[index].leader != member.node:
            return
        state: PartitionImage = topic.partitions[index]
        members = [m for m in state.members if m.node == member.node]
        for node in state.replicas:
            broker = member.image.brokers.get(node)
            if node != member.node and broker is not None and self.random.below(3):
                members.append(InSyncMember(node, broker.epoch, broker.directory_id))
        member.isr_changes.write_isr(
            TopicPartition(T, PartitionIndex(index)),
            topic.id,
            state.leader_epoch,
            tuple(members),
            state.partition_epoch,
            lambda _: None,
        )

    def break_session(self) -> None:
        store = self.member().store
        assert isinstance(store, SimulatedStore)
        if store.state is SessionState.CONNECTED:
            store.expire() if self.random.below(2) else store.suspend()
        elif store.state is SessionState.SUSPENDED:
            store.expire() if self.random.below(2) else store.resume()

    def crash(self) -> None:
        if len(self.cluster.members) > 1:
            self.dead.append(self.cluster.crash(self.member().node))

    def restart(self) -> None:
        missing = [node for node in range(BROKERS) if node not in self.cluster.members]
        if self.dead:
            self.dead.pop().expire()
        if missing:
            node = missing[self.random.below(len(missing))]
            if self.random.below(8) == 0:
                self.directories[node] += 1
            self.boot(node)

    def boot(self, node: int) -> None:
        self.cluster.boot(node, directory=f"directory{node}" + "'" * self.directories[node])

    def reassign(self) -> None:
        target = sorted(range(BROKERS), key=lambda _: self.random.below(100))
        wanted = target[: 1 + self.random.below(3)] if self.random.below(4) else None
        index = self.random.below(3)
        self.member().reassignments.alter("t", {index: wanted}, 1_000, lambda _: None)

    def order_election(self) -> None:
        elect = self.member().elections.elect
        elect(ElectionType.PREFERRED, "t", self.random.below(3), 1_000, lambda _: None)

    def shut_down(self) -> None:
        if len(self.cluster.members) > 1 and self.random.below(3) == 0:
            member = self.member()
            store = member.store
            assert isinstance(store, SimulatedStore)

            def stop() -> None:
                if self.cluster.members.get(member.node) is member and not self.is_over:
                    self.dead.append(self.cluster.crash(member.node))

            hand_over(member.member, self.cluster.schedule, 500, stop)

    # After the faults

    def recover(self) -> None:
        self.is_over = True
        for store in self.dead:
            store.expire()
        for node in range(BROKERS):
            if node in self.cluster.members:
                store = self.cluster.store(node)
                if store.state is SessionState.SUSPENDED:
                    store.resume()
            else:
                self.boot(node)
        self.cluster.schedule.run_for(20_000)


@pytest.mark.parametrize("seeds", rounds(fast=range(8), long=range(8, 50), soak=range(2_000)))
def test_stored_states_keep_their_invariants_under_faults(seeds: range) -> None:
    writes = 0
    for seed in seeds:
        churn = LeadershipChurn(seed)
        churn.run(80)
        churn.recover()
        writes += churn.writes
        cluster = churn.cluster
        images = [member.image for member in cluster.members.values()]
        assert all(image == images[0] for image in images), f"seed {seed}"
        for index, partition in enumerate(images[0].topics[T].partitions):
            stored = cluster.stored("t", index)
            if partition.leader == NO_NODE:
                live = images[0].brokers
                assert not any(
                    member.has_directory_of(live[member.node])
                    for member in stored.members
                    if member.node in partition.replicas
                    and member.node in live
                    and not live[member.node].is_shutting_down
                ), f"seed {seed}: a member that may lead is live"
            assert all(
                member.is_of(images[0].brokers[NodeId(member.node)]) or partition.leader == NO_NODE
                for member in stored.members
            ), f"seed {seed}: members of earlier epochs are gone"
    assert writes > len(seeds)
