"""Three simulated brokers for a transactional producer: each request goes to the broker that leads
the partition or coordinates the transactional id."""

from typing import Any

from sawlog.broker.broker import Broker
from sawlog.cluster.internal_topics import TRANSACTION_STATE
from sawlog.cluster.metadata_image import MetadataImage, PartitionImage
from sawlog.core.ids import NodeId
from sawlog.protocol.apis import (
    ApiKey,
    request_header_version,
    valid_versions,
)
from sawlog.protocol.codec import encode
from sawlog.protocol.headers import RequestHeader, write_request_header
from sawlog.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from sawlog.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from sawlog.protocol.messages.produce_request import ProduceRequest
from sawlog.protocol.schema import Message
from sawlog.simulation.simulated_broker import Call, SimulatedClient
from sawlog.simulation.world.simulated_cluster import SimulatedCluster
from support.broker.requests import TOPIC

SETTINGS = {
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "request.timeout.ms": "2000",
}
STEPS = 400_000


class TransactionsCluster:
    """Partition 0 of `t` is led by broker 1, 1 by 2 and 2 by 3. It has the interface of a
    SimulatedMachine that a TransactionalProducer uses."""

    def __init__(self, seed: int = 1) -> None:
        self.cluster = SimulatedCluster(seed, 3, 3, SETTINGS)
        self.schedule = self.cluster.schedule
        self._correlation_id = 0
        self.cluster.boot()
        nodes = self.cluster.nodes.values()
        self.run(lambda: all(node.is_serving for node in nodes))
        orders = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
        assignments = [CreatableReplicaAssignment(n, ids) for n, ids in enumerate(orders)]
        topic = CreatableTopic(TOPIC, -1, -1, assignments)
        self.ask_node(NodeId(1), CreateTopicsRequest([topic], timeout_ms=10_000))
        find = FindCoordinatorRequest(key_type=1, coordinator_keys=["x"])
        self.ask_node(NodeId(1), find)
        self.run(self.is_led)
        self.schedule.run_for(500)

    @property
    def ids(self) -> list[NodeId]:
        """The brokers that serve requests."""
        return [id_ for id_, node in self.cluster.nodes.items() if node.is_serving]

    def run(self, condition: Any) -> None:
        assert self.schedule.run(condition, max_steps=STEPS)

    def broker(self, node: NodeId) -> Broker:
        broker = self.cluster.nodes[node].broker
        assert broker is not None
        return broker

    def _image(self, node: NodeId) -> MetadataImage:
        return self.broker(node).metadata.image

    def is_led(self) -> bool:
        """Whether all serving brokers know a serving leader of every partition."""
        partitions = [(TOPIC, 0), (TOPIC, 1), (TOPIC, 2), (TRANSACTION_STATE.name, 0)]
        states = [self._image(node).partition(*each) for node in self.ids for each in partitions]
        return all(state is not None and state.leader in self.ids for state in states)

    def state(self, topic: str, index: int) -> PartitionImage:
        found = self._image(self.ids[-1]).partition(topic, index)
        assert found is not None
        return found

    @property
    def coordinator(self) -> NodeId:
        return self.state(TRANSACTION_STATE.name, 0).leader

    # The interface of a machine

    def send(self, message: Message, version: int | None = None) -> Call:
        return self.send_to(self._receiver(message), message, version)

    def ask(self, message: Message, version: int | None = None) -> Any:
        return self.ask_node(self._receiver(message), message, version)

    def _receiver(self, message: Message) -> NodeId:
        if isinstance(message, ProduceRequest):
            [topic] = message.topic_data
            return self.state(TOPIC, topic.partition_data[0].index).leader
        return self.coordinator

    def ask_node(self, node: NodeId, message: Message, version: int | None = None) -> Any:
        call = self.send_to(node, message, version)
        self.run(lambda: call.is_done)
        assert call.closed is None, call.closed
        return call.answered

    def send_to(self, node: NodeId, message: Message, version: int | None) -> Call:
        key = message.SCHEMA.api_key
        assert key is not None
        api = ApiKey(key)
        if version is None:
            version = valid_versions(api)[1]
        self._correlation_id += 1
        header = RequestHeader(int(api), version, self._correlation_id, "test")
        frame = bytearray(write_request_header(header, request_header_version(api, version)))
        frame += encode(message, version)
        call = Call(SimulatedClient(), api, version)
        self.broker(node).receive(call, memoryview(frame))
        return call

    def last_stable(self, index: int) -> int:
        leader = self.state(TOPIC, index).leader
        return self.broker(leader).replicas.by_partition[TOPIC, index].last_stable_offset
