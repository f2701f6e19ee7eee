"""The base of simulated group members: the way to the coordinator, and readers of the partitions
that are assigned; the protocols differ in how a member joins."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from sawlog.core.errors import ErrorCode
from sawlog.core.ids import NodeId
from sawlog.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from sawlog.simulation.clients.cluster_client import RETRY_MS
from sawlog.simulation.clients.group_client import GroupClient
from sawlog.simulation.clients.partition_reader import PartitionReader
from sawlog.simulation.history.history import History

if TYPE_CHECKING:
    from sawlog.simulation.world.simulated_cluster import SimulatedCluster

HEARTBEAT_MS = 500


class GroupMember(GroupClient, ABC):
    """Invariant: `_readers` reads the partitions of the present assignment. `_epoch` is the member
    epoch or the generation, `_member_id` the id under which the coordinator knows the member."""

    def __init__(
        self,
        cluster: "SimulatedCluster",
        name: str,
        topic: str,
        seed: int,
        history: History,
        group: str,
    ) -> None:
        super().__init__(cluster, name, topic, seed, history, group)
        self._epoch = 0
        self._member_id = ""
        self._coordinator: NodeId | None = None
        self._readers: dict[int, PartitionReader] = {}
        self._readings = 0

    def start(self) -> None:
        self.refresh(self._beat)

    @abstractmethod
    def _talk(self, coordinator: NodeId) -> None:
        """Send the next request of the protocol: join, or a heartbeat."""

    @property
    @abstractmethod
    def _identity(self) -> tuple[str | None, int]:
        """Member id and epoch for OffsetFetch."""

    def _beat(self) -> None:
        if self.is_stopped:
            return
        if not self.topic_id:
            self.refresh(self._beat)
        elif self._coordinator is None:
            self._find_coordinator()
        else:
            self._talk(self._coordinator)

    def _beat_later(self, delay_ms: int = RETRY_MS) -> None:
        self.schedule.after(delay_ms, self._beat)

    def _find_coordinator(self) -> None:
        def answered(response: Any) -> None:
            if response is not None and response.coordinators[0].error_code == ErrorCode.NONE:
                self._coordinator = NodeId(response.coordinators[0].node_id)
            self._beat_later()

        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[self._group])
        self.send(self.any_node(), request, answered, purpose="coordinator")

    # The assignment

    def _assign(self, wanted: Iterable[int]) -> None:
        """Stop the readers of other partitions, and start those that are missing."""
        assigned = set(wanted)
        for index in sorted(self._readers.keys() - assigned):
            self._readers.pop(index).is_stopped = True
        for index in sorted(assigned - self._readers.keys()):
            self._readings += 1
            name = f"{self.name}-{self._member_id}/{self._readings}"
            reader = PartitionReader(self, index, -1, self._history, name, group=self._group)
            self._readers[index] = reader
            self._ask_offset(index, reader)

    def _ask_offset(self, index: int, reader: PartitionReader) -> None:
        """Ask for the committed offset, until the coordinator answers."""

        def answered(told: dict[int, int]) -> None:
            if reader.is_stopped or self.is_stopped:
                return
            if index not in told:
                self.schedule.after(RETRY_MS, lambda: self._ask_offset(index, reader))
                return
            reader.position = max(told[index], 0)
            reader.start()

        node = self._coordinator or self.any_node()
        self.read_offsets(node, [index], answered, member=self._identity)

    def _commit(self) -> None:
        positions = {
            index: reader.position for index, reader in self._readers.items() if reader.position > 0
        }
        if positions and self._coordinator is not None:
            self.commit_offsets(self._coordinator, self._member_id, self._epoch, positions)
