"""The base of simulated clients of a group: it reads and commits offsets, and remembers for the
history which commits were acknowledged."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sawlog.core.errors import ErrorCode
from sawlog.core.ids import NodeId
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
from sawlog.simulation.clients.cluster_client import ClusterClient
from sawlog.simulation.history.history import History, OffsetRead

if TYPE_CHECKING:
    from sawlog.simulation.world.simulated_cluster import SimulatedCluster

NO_MEMBER: tuple[None, int] = (None, -1)


class GroupClient(ClusterClient):
    """A client of one topic and of one group, whose offsets it may read without being a member."""

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

    def read_offsets(
        self,
        node: NodeId,
        partitions: Iterable[int],
        answered: Callable[[dict[int, int]], None],
        *,
        member: tuple[str | None, int] = NO_MEMBER,
    ) -> None:
        """Ask a broker for committed offsets; `answered` gets those that it told. Each must be at
        least the highest one that was acknowledged before the request."""
        wanted = list(partitions)
        committed = self._history.committed
        at_least = {index: committed.get((self._group, index), -1) for index in wanted}

        def got(response: Any) -> None:
            group = None if response is None else response.groups[0]
            told: dict[int, int] = {}
            if group is not None and group.error_code == ErrorCode.NONE:
                for answer in group.topics[0].partitions:
                    if answer.error_code == ErrorCode.NONE:
                        told[answer.partition_index] = answer.committed_offset
            self._history.offset_reads += [
                OffsetRead(self.name, index, offset, at_least[index])
                for index, offset in told.items()
            ]
            answered(told)

        topics = [OffsetFetchRequestTopics(topic_id=self.topic_id, partition_indexes=wanted)]
        group = OffsetFetchRequestGroup(self._group, *member, topics)
        self.send(node, OffsetFetchRequest(groups=[group]), got, purpose="offsets")

    def commit_offsets(
        self, node: NodeId, member_id: str, epoch: int, positions: Mapping[int, int]
    ) -> None:
        """Commit offsets as a member in a member epoch or generation."""

        def answered(response: Any) -> None:
            if response is None:
                return
            committed = self._history.committed
            for partition in response.topics[0].partitions:
                if partition.error_code == ErrorCode.NONE:
                    key = (self._group, partition.partition_index)
                    offset = positions[partition.partition_index]
                    committed[key] = max(offset, committed.get(key, -1))

        partitions = [
            OffsetCommitRequestPartition(index, offset) for index, offset in positions.items()
        ]
        topic = OffsetCommitRequestTopic(topic_id=self.topic_id, partitions=partitions)
        request = OffsetCommitRequest(self._group, epoch, member_id, topics=[topic])
        self.send(node, request, answered, purpose="offsets")
