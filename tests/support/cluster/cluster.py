"""Several members of a cluster on one simulated store, for tests of the control plane."""

import json
from typing import Any

from sawlog.cluster import znodes
from sawlog.cluster.isr_changes import IsrWriteError
from sawlog.cluster.metadata_image import NO_NODE, InSyncMember, PartitionImage
from sawlog.cluster.new_topic import NewTopic
from sawlog.cluster.znodes import PartitionState
from sawlog.core.ids import NodeId, PartitionIndex, TopicName, TopicPartition
from sawlog.simulation.schedule import Schedule
from sawlog.simulation.simulated_store import SimulatedStore, StoreService
from support.cluster.member import TIMEOUT_MS, MemberHarness


class Cluster:
    """Brokers 0 to n-1, all started; `service` is the store they share."""

    def __init__(self, seed: int = 1, brokers: int = 3, **config: str) -> None:
        self.schedule = Schedule(seed)
        self.service = StoreService(self.schedule, seed)
        self.config = {name.replace("_", "."): value for name, value in config.items()}
        self.members: dict[int, MemberHarness] = {}
        for node in range(brokers):
            self.boot(node)
        assert self.settle()

    def boot(
        self, node: int, *, directory: str | None = None, clean_stop: bool = True, **config: str
    ) -> MemberHarness:
        """Start a broker; its data directory is the one it had, unless another is named."""
        store = self.service.connect()
        more = {name.replace("_", "."): value for name, value in config.items()}
        member = MemberHarness(
            self.schedule,
            store,
            node,
            config=self.config | more,
            rack=f"rack{node % 2}",
            directory=f"directory{node}" if directory is None else directory,
            clean_stop=clean_stop,
        )
        self.members[node] = member
        member.member.start()
        return member

    def store(self, node: int) -> SimulatedStore:
        store = self.members[node].store
        assert isinstance(store, SimulatedStore)
        return store

    def crash(self, node: int) -> SimulatedStore:
        """Kill the process; the returned session lasts until it expires."""
        store = self.store(node)
        store.crash()
        del self.members[node]
        return store

    @property
    def controller(self) -> int:
        (node,) = (n for n, member in self.members.items() if member.member.is_controller)
        return node

    @property
    def other(self) -> int:
        """A broker that is not the controller."""
        return next(n for n in self.members if n != self.controller)

    def create(self, name: str, *replicas: list[int], **configs: str) -> None:
        """Create a topic with these replicas, and wait until all brokers see its leaders."""
        assigned = list(enumerate(replicas))
        new = NewTopic(name, assignments=assigned, configs=configs)
        member = self.members[self.controller]
        planned = member.topics.plan(new)
        error = member.settle(lambda done: member.topics.create(planned, TIMEOUT_MS, done))
        assert error is None
        assert self.settle()

    def state(self, topic: str, partition: int = 0) -> dict[str, Any]:
        node = self.service.tree.get(f"/brokers/topics/{topic}/partitions/{partition}/state")
        state: dict[str, Any] = json.loads(node.data)
        return state

    def stored(self, topic: str, partition: int = 0) -> PartitionState:
        return znodes.decode_state(self.service.tree.get(znodes.state_path(topic, partition)))

    def partition(self, node: int, topic: str, partition: int = 0) -> PartitionImage:
        found = self.members[node].image.partition(topic, partition)
        assert found is not None
        return found

    def entry(self, node: int) -> InSyncMember:
        """The entry of a live broker in an in-sync set."""
        broker = next(iter(self.members.values())).image.brokers[NodeId(node)]
        return InSyncMember(broker.id, broker.epoch, broker.directory_id)

    def write_isr(
        self, leader: int, topic: str, members: tuple[InSyncMember, ...], index: int = 0
    ) -> list[int | IsrWriteError]:
        """Start an ISR write of the leader; the result appears in the list."""
        member = self.members[leader]
        image = member.image.topics[TopicName(topic)]
        state = image.partitions[index]
        results: list[int | IsrWriteError] = []
        member.isr_changes.write_isr(
            TopicPartition(TopicName(topic), PartitionIndex(index)),
            image.id,
            state.leader_epoch,
            members,
            state.partition_epoch,
            results.append,
        )
        return results

    def isr_written(
        self, leader: int, topic: str, *nodes: int, index: int = 0
    ) -> int | IsrWriteError:
        """Let the leader write the live brokers as its in-sync set; return the result."""
        results = self.write_isr(leader, topic, tuple(self.entry(n) for n in nodes), index)
        assert self.schedule.run(lambda: bool(results))
        return results[0]

    def settled(self) -> bool:
        """Whether all images are equal and complete, and every partition has a leader."""
        images = [member.image for member in self.members.values()]
        return (
            set(images[0].brokers) == set(self.members)
            and images[0].controller_id in self.members
            and all(image == images[0] for image in images)
            and len(images[0].topics) == len(self.service.tree.children("/brokers/topics"))
            and all(p.leader != NO_NODE for t in images[0].topics.values() for p in t.partitions)
        )

    def settle(self) -> bool:
        """Run until the images are settled, and stay so after everything that is under way."""
        if not self.schedule.run(self.settled, max_steps=20_000):
            return False
        self.schedule.run_for(100)
        return self.schedule.run(self.settled, max_steps=20_000)
