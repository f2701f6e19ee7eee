"""A simulated administrator: it moves replicas and leaders, adds partitions and sets configs."""

from typing import Any

from sawlog.core.errors import ErrorCode
from sawlog.core.ids import NodeId
from sawlog.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from sawlog.protocol.messages.create_partitions_request import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from sawlog.protocol.messages.elect_leaders_request import ElectLeadersRequest
from sawlog.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from sawlog.simulation.clients.cluster_client import RETRY_MS, ClusterClient

TIMEOUT_MS = 3_000
TOPIC_RESOURCE = 2
PREFERRED = 0


def ignore(_: Any) -> None:
    """The cluster may refuse: another reassignment came first, or a broker is down."""


class AdminClient(ClusterClient):
    def reassign(self, via: NodeId, topic: str, partition: int, replicas: list[NodeId]) -> None:
        """Ask a broker to move a partition to these replicas."""
        target = ReassignablePartition(partition, [int(node) for node in replicas])
        request = AlterPartitionReassignmentsRequest(
            TIMEOUT_MS, topics=[ReassignableTopic(topic, [target])]
        )
        self.send(via, request, ignore)

    def add_partition(self, via: NodeId, topic: str, count: int) -> None:
        """Ask a broker to make it `count` partitions; refused if there are as many already."""
        growth = CreatePartitionsTopic(topic, count, assignments=None)
        self.send(via, CreatePartitionsRequest([growth], timeout_ms=TIMEOUT_MS), ignore)

    def elect_preferred(self, via: NodeId) -> None:
        """Ask a broker to give all partitions their preferred leaders."""
        request = ElectLeadersRequest(PREFERRED, topic_partitions=None, timeout_ms=TIMEOUT_MS)
        self.send(via, request, ignore)

    def change_config(self, via: NodeId, topic: str, name: str, value: str) -> None:
        """Ask a broker once to set a config of a topic."""
        self.send(via, _config_change(topic, name, value), ignore)

    def set_config(self, topic: str, name: str, value: str) -> None:
        """Set a config of a topic, as soon as the topic exists and a broker answers."""

        def answered(response: Any) -> None:
            if response is None or response.responses[0].error_code != ErrorCode.NONE:
                self.schedule.after(RETRY_MS, lambda: self.set_config(topic, name, value))

        self.send(self.any_node(), _config_change(topic, name, value), answered)


def _config_change(topic: str, name: str, value: str) -> IncrementalAlterConfigsRequest:
    change = AlterConfigsResource(TOPIC_RESOURCE, topic, [AlterableConfig(name, value=value)])
    return IncrementalAlterConfigsRequest([change])
