"""A simulated administrator that deletes a topic and creates it again, while a producer writes."""

from typing import TYPE_CHECKING, Any

from sawlog.core.ids import NodeId
from sawlog.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from sawlog.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from sawlog.simulation.clients.admin_client import TIMEOUT_MS, AdminClient, ignore
from sawlog.simulation.clients.producer_client import ProducerClient
from sawlog.simulation.history.history import ACKS_ALL, History

if TYPE_CHECKING:
    from sawlog.simulation.world.simulated_cluster import SimulatedCluster

REPLACED_TOPIC = "replaced"
PARTITIONS = 2


class TopicReplacer(AdminClient):
    """The topic is its own, apart from that of the run: no history can be checked over its lives.
    The invariants take each of them for another topic, because its id is another one."""

    def __init__(self, cluster: "SimulatedCluster", seed: int, replication_factor: int) -> None:
        super().__init__(cluster, "replacer", REPLACED_TOPIC, seed)
        self._factor = replication_factor
        self._producer = ProducerClient(
            cluster,
            "replacer-producer",
            REPLACED_TOPIC,
            seed + 1,
            History(),
            acks=ACKS_ALL,
            is_idempotent=False,
        )
        self._is_producing = False

    def replace(self, via: NodeId) -> None:
        """Ask a broker to delete the topic, and any broker to create it, whatever the answer is."""

        def answered(_: Any) -> None:
            self._create()

        state = DeleteTopicState(REPLACED_TOPIC)
        self.send(via, DeleteTopicsRequest([state], timeout_ms=TIMEOUT_MS), answered)
        if not self._is_producing:
            self._is_producing = True
            self._producer.start()

    def stop(self) -> None:
        self.is_stopped = self._producer.is_stopped = True

    def _create(self) -> None:
        if self.is_stopped:
            return
        configs = [CreatableTopicConfig("internal.segment.bytes", "1000")]
        topic = CreatableTopic(REPLACED_TOPIC, PARTITIONS, self._factor, configs=configs)
        request = CreateTopicsRequest([topic], timeout_ms=TIMEOUT_MS)
        self.send(self.any_node(), request, ignore)
