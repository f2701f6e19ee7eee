"""A simulated tool that reads the committed offsets of a group, from any broker that answers."""

from typing import TYPE_CHECKING, Any

from sawlog.core.errors import ErrorCode
from sawlog.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from sawlog.simulation.clients.cluster_client import ClusterClient
from sawlog.simulation.history.history import History, OffsetRead

if TYPE_CHECKING:
    from sawlog.simulation.world.simulated_cluster import SimulatedCluster

PAUSE_MS = 150


class OffsetReader(ClusterClient):
    """Asks brokers at random: only the group's coordinator may answer, with the newest offsets."""

    def __init__(
        self,
        cluster: "SimulatedCluster",
        name: str,
        topic: str,
        seed: int,
        history: History,
        group: str,
        partitions: int,
    ) -> None:
        super().__init__(cluster, name, topic, seed)
        self._history = history
        self._group = group
        self._partitions = partitions

    def start(self) -> None:
        self.refresh(self._ask)

    def _ask(self) -> None:
        if self.is_stopped:
            return
        if not self.topic_id:
            self.refresh(self._ask)
            return
        at_least = [
            self._history.committed.get((self._group, index), -1)
            for index in range(self._partitions)
        ]

        def answered(response: Any) -> None:
            group = None if response is None else response.groups[0]
            if group is not None and group.error_code == ErrorCode.NONE:
                for answer in group.topics[0].partitions:
                    if answer.error_code == ErrorCode.NONE:
                        index = answer.partition_index
                        self._history.offset_reads.append(
                            OffsetRead(self.name, index, answer.committed_offset, at_least[index])
                        )
            self.schedule.after(PAUSE_MS, self._ask)

        indexes = list(range(self._partitions))
        topics = [OffsetFetchRequestTopics(topic_id=self.topic_id, partition_indexes=indexes)]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(self._group, topics=topics)])
        self.send(self.any_node(), request, answered)
