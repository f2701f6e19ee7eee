"""A partition on a simulated disk, for tests of coordinators."""

from sawlog.cluster.metadata_image import PartitionImage
from sawlog.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from sawlog.replication.replica import Replica
from sawlog.simulation.simulated_broker import SimulatedMachine


class PartitionWorld:
    """One partition of one topic, led by a broker that can be restarted."""

    def __init__(self, seed: int = 1) -> None:
        self._machine = SimulatedMachine(seed)
        self._machine.boot()
        topic = CreatableTopic("t", 1, 1)
        answer = self._machine.ask(CreateTopicsRequest([topic], timeout_ms=10_000))
        assert answer.topics[0].error_code == 0, answer
        self.schedule = self._machine.schedule
        self.disk = self._machine.disk

    @property
    def partition(self) -> Replica:
        return self._machine.broker.replicas.by_partition["t", 0]

    @property
    def state(self) -> PartitionImage:
        """The partition's state in the broker's image."""
        state = self._machine.broker.metadata.image.partition("t", 0)
        assert state is not None
        return state

    def reopened(self) -> Replica:
        """Return the partition after a kill -9 and a restart."""
        self._machine.kill()
        self._machine.boot()
        return self.partition
