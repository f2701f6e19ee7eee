"""A simulated member of a consumer group (KIP-848): heartbeats, reads its partitions, commits."""

from typing import TYPE_CHECKING, Any

from sawlog.core.errors import ErrorCode
from sawlog.core.ids import NodeId
from sawlog.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from sawlog.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from sawlog.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from sawlog.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from sawlog.simulation.clients.cluster_client import RETRY_MS, ClusterClient
from sawlog.simulation.clients.partition_reader import PartitionReader
from sawlog.simulation.history.history import History, OffsetRead

if TYPE_CHECKING:
    from sawlog.simulation.world.simulated_cluster import SimulatedCluster

HEARTBEAT_MS = 500
REBALANCE_TIMEOUT_MS = 30_000
FENCED = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})


class GroupMember(ClusterClient):
    """Epoch 0 is a member that is about to join. Commits follow the heartbeats."""

    def __init__(
        self,
        cluster: "SimulatedCluster",
        name: str,
        topic: str,
        seed: int,
        history: History,
        group: str,
    ) -> None:
        super().__init__(cluster, name, topic, seed)
        self._history = history
        self._group = group
        self._epoch = 0
        self._lives = 0
        self._coordinator: NodeId | None = None
        self._readers: dict[int, PartitionReader] = {}
        self._readings = 0

    @property
    def _member_id(self) -> str:
        return f"{self.name}-{self._lives}"

    def start(self) -> None:
        self.refresh(self._beat)

    def _beat(self) -> None:
        if self.is_stopped:
            return
        if not self.topic_id:
            self.refresh(self._beat)
        elif self._coordinator is None:
            self._find_coordinator()
        else:
            self._heartbeat(self._coordinator)

    def _find_coordinator(self) -> None:
        def answered(response: Any) -> None:
            if response is not None and response.coordinators[0].error_code == ErrorCode.NONE:
                self._coordinator = NodeId(response.coordinators[0].node_id)
            self.schedule.after(RETRY_MS, self._beat)

        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[self._group])
        self.send(self.any_node(), request, answered, purpose="coordinator")

    def _heartbeat(self, coordinator: NodeId) -> None:
        is_joining = self._epoch == 0
        owned = [TopicPartitions(self.topic_id, sorted(self._readers))] if self._readers else []
        request = ConsumerGroupHeartbeatRequest(
            self._group,
            self._member_id,
            self._epoch,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=[self.topic] if is_joining else None,
            topic_partitions=owned,
        )
        self.send(coordinator, request, self._heartbeat_answered)

    def _heartbeat_answered(self, response: Any) -> None:
        code = None if response is None else response.error_code
        if code == ErrorCode.NONE:
            self._epoch = response.member_epoch
            if response.assignment is not None:
                self._assign(response.assignment)
            self._commit()
            self.schedule.after(HEARTBEAT_MS, self._beat)
            return
        if code in FENCED:
            self._leave()
        else:
            self._coordinator = None
        self.schedule.after(RETRY_MS, self._beat)

    def _leave(self) -> None:
        self._epoch = 0
        self._lives += 1
        for reader in self._readers.values():
            reader.is_stopped = True
        self._readers = {}

    def _assign(self, assignment: Any) -> None:
        wanted = {index for topic in assignment.topic_partitions for index in topic.partitions}
        for index in sorted(self._readers.keys() - wanted):
            self._readers.pop(index).is_stopped = True
        for index in sorted(wanted - self._readers.keys()):
            self._readings += 1
            name = f"{self._member_id}/{self._readings}"
            self._readers[index] = PartitionReader(
                self, index, -1, self._history, name, group=self._group
            )
            self._ask_offset(index, self._readers[index])

    def _ask_offset(self, index: int, reader: PartitionReader) -> None:
        """Ask for the committed offset, until the coordinator answers."""
        at_least = self._history.committed.get((self._group, index), -1)

        def answered(response: Any) -> None:
            if reader.is_stopped or self.is_stopped:
                return
            group = None if response is None else response.groups[0]
            if group is None or group.error_code != ErrorCode.NONE:
                self.schedule.after(RETRY_MS, lambda: self._ask_offset(index, reader))
                return
            answer = group.topics[0].partitions[0]
            if answer.error_code != ErrorCode.NONE:
                self.schedule.after(RETRY_MS, lambda: self._ask_offset(index, reader))
                return
            offset = answer.committed_offset
            self._history.offset_reads.append(OffsetRead(self.name, index, offset, at_least))
            reader.position = max(offset, 0)
            reader.start()

        topics = [OffsetFetchRequestTopics(topic_id=self.topic_id, partition_indexes=[index])]
        group = OffsetFetchRequestGroup(self._group, self._member_id, self._epoch, topics)
        request = OffsetFetchRequest(groups=[group])
        self.send(self._coordinator or self.any_node(), request, answered, purpose="offsets")

    def _commit(self) -> None:
        positions = {
            index: reader.position for index, reader in self._readers.items() if reader.position > 0
        }
        if not positions or self._coordinator is None:
            return

        def answered(response: Any) -> None:
            if response is None:
                return
            for partition in response.topics[0].partitions:
                if partition.error_code == ErrorCode.NONE:
                    key = (self._group, partition.partition_index)
                    offset = positions[partition.partition_index]
                    self._history.committed[key] = max(offset, self._history.committed.get(key, -1))

        partitions = [
            OffsetCommitRequestPartition(index, offset) for index, offset in positions.items()
        ]
        topic = OffsetCommitRequestTopic(topic_id=self.topic_id, partitions=partitions)
        request = OffsetCommitRequest(self._group, self._epoch, self._member_id, topics=[topic])
        self.send(self._coordinator, request, answered, purpose="offsets")
