"""Fetches of a follower, as a broker with another node id sends them."""

from typing import Any

from sawlog.core.ids import NodeId, TopicName
from sawlog.protocol.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ReplicaState,
)
from sawlog.simulation.simulated_broker import Call, SimulatedMachine
from support.broker.requests import TOPIC

VERSION = 17


class FollowerSession:
    """The fetch session of one follower for the first partition of a topic."""

    def __init__(self, machine: SimulatedMachine, node: NodeId, *, broker_epoch: int = 1_000):
        self.machine = machine
        self.node = node
        self.broker_epoch = broker_epoch
        self.session_id = 0
        self.session_epoch = 0

    def send(self, offset: int, flushed: int = -1, *, wait_ms: int = 500, **fields: Any) -> Call:
        """Send the next fetch of the session; `fields` are of its partition."""
        image = self.machine.broker.metadata.image
        state = image.partition(TOPIC, 0)
        assert state is not None
        partition = FetchPartition(
            0, fetch_offset=offset, flushed_offset=flushed, partition_max_bytes=1 << 20
        )
        partition.current_leader_epoch = state.leader_epoch
        partition.log_start_offset = 0
        for name, value in fields.items():
            setattr(partition, name, value)
        topic = FetchTopic(topic_id=image.topics[TopicName(TOPIC)].id, partitions=[partition])
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=self.session_id,
            session_epoch=self.session_epoch,
            topics=[topic],
            replica_state=ReplicaState(self.node, self.broker_epoch),
        )
        self.session_epoch += 1
        return self.machine.send(request, VERSION)

    def ask(self, offset: int, flushed: int = -1, *, wait_ms: int = 0, **fields: Any) -> Any:
        """Send a fetch and return the partition of its response, None if it has no news."""
        call = self.send(offset, flushed, wait_ms=wait_ms, **fields)
        assert self.machine.schedule.run(lambda: call.is_done)
        return self.news(call)

    def news(self, call: Call) -> Any:
        """Return the partition of a response, None if it has no news."""
        assert call.answered.error_code == 0, call.answered
        self.session_id = call.answered.session_id
        partitions = [data for topic in call.answered.responses for data in topic.partitions]
        return partitions[0] if partitions else None
