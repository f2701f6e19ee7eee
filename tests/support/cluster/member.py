"""A member of a cluster on a simulated schedule, for tests of the control plane."""

from sawlog.cluster.broker_registration import Registration, RegistrationRefused
from sawlog.cluster.cluster_member import ClusterMember
from sawlog.cluster.embedded_store import EmbeddedStore
from sawlog.cluster.isr_changes import IsrChanges
from sawlog.cluster.metadata_image import MetadataImage
from sawlog.cluster.new_topic import NewTopic
from sawlog.cluster.ordered_elections import OrderedElections
from sawlog.cluster.reassignments import Reassignments
from sawlog.cluster.resource_configs import ResourceConfigs
from sawlog.cluster.topics import Topics
from sawlog.core.config import BrokerConfig
from sawlog.core.config_dynamic import DynamicBrokerConfig
from sawlog.core.errors import KafkaError
from sawlog.core.ids import NodeId
from sawlog.core.store import Store
from sawlog.simulation.schedule import Schedule, SeededRandom
from sawlog.simulation.simulated_disk import SimulatedDisk

TIMEOUT_MS = 10_000


class MemberHarness:
    """One member with its topics; `images` has every image that it received."""

    def __init__(
        self,
        schedule: Schedule,
        store: Store,
        node: int = 0,
        *,
        config: dict[str, str] | None = None,
        rack: str | None = None,
        directory: str = "",
        clean_stop: bool = True,
        host: str | None = None,
    ) -> None:
        self.schedule = schedule
        self.store = store
        self.node = NodeId(node)
        self.images: list[MetadataImage] = []
        self.refused: list[RegistrationRefused] = []
        broker_config = DynamicBrokerConfig(BrokerConfig(config or {}))

        def apply(_: MetadataImage, new: MetadataImage) -> None:
            self.images.append(new)
            broker_config.reconfigure(*new.broker_configs(self.node))

        random = SeededRandom(store.session_id)
        self.member = ClusterMember(
            store,
            Registration(
                self.node,
                host or f"host{node}",
                9092 + node,
                rack,
                directory,
                broker_config["flush.policy"],
                clean_stop,
            ),
            broker_config,
            clock=schedule,
            timer=schedule,
            random=random,
            on_image=apply,
            on_refused=self.refused.append,
        )
        broker_config.subscribe(
            ("unclean.leader.election.enable",), self.member.reconsider_elections
        )
        self.resource_configs = ResourceConfigs(self.member)
        self.topics = Topics(self.member, broker_config, random)
        self.isr_changes = IsrChanges(self.member)
        self.elections = OrderedElections(self.member)
        self.reassignments = Reassignments(self.member, broker_config)

    @property
    def image(self) -> MetadataImage:
        return self.member.image

    def start(self) -> "MemberHarness":
        self.member.start()
        assert self.schedule.run(lambda: bool(self.images)), "no image was received"
        return self

    def stop(self) -> None:
        ended: list[bool] = []
        self.member.stop(lambda: ended.append(True))
        assert self.schedule.run(lambda: bool(ended))

    def create(self, name: str, partitions: int = 1, **more: object) -> KafkaError | None:
        """Create a topic; return the error, or None when the image has the topic."""
        try:
            planned = self.topics.plan(NewTopic(name, partitions, **more))  # type: ignore[arg-type]
        except KafkaError as error:
            return error
        return self.settle(lambda done: self.topics.create(planned, TIMEOUT_MS, done))

    def delete(self, name: str) -> KafkaError | None:
        topic = self.image.topics[name]  # type: ignore[index]
        return self.settle(lambda done: self.topics.delete(topic, TIMEOUT_MS, done))

    def settle(self, call) -> KafkaError | None:  # type: ignore[no-untyped-def]
        """Run until the call's `done` is called, and return its argument."""
        results: list[KafkaError | None] = []
        call(results.append)
        assert self.schedule.run(lambda: bool(results)), "`done` was not called"
        return results[0]


class SingleBroker(MemberHarness):
    """A started broker with the embedded store on a simulated disk."""

    def __init__(self, seed: int = 1, *, config: dict[str, str] | None = None) -> None:
        schedule = Schedule(seed)
        self.disk = SimulatedDisk(schedule.soon)
        self._config = config
        super().__init__(schedule, EmbeddedStore(self.disk, schedule), config=config)
        self.start()

    def restart(self) -> None:
        """Kill the process and start another one on the same disk."""
        self.schedule.clear()
        self.disk.kill()
        store = EmbeddedStore(self.disk, self.schedule)
        super().__init__(self.schedule, store, config=self._config)
        self.start()
