"""Guarantee 5: a topic that is created again begins without the records of the deleted one.

A log that a broker opens for a topic id for the first time on its disk is empty. A broker that was
down while the topic was replaced has to give up the log of the earlier id.
"""

from typing import TYPE_CHECKING

from sawlog.simulation.invariants.no_invariant import NoInvariant
from sawlog.simulation.invariants.observer import ReplicaChange
from sawlog.simulation.invariants.violation import Violation

if TYPE_CHECKING:
    from sawlog.core.ids import NodeId
    from sawlog.simulation.invariants.committed_log import PartitionKey
    from sawlog.simulation.simulated_disk import SimulatedDisk


class TopicLives(NoInvariant):
    """Remembers the disk on which each broker had each partition."""

    def __init__(self) -> None:
        self._disks: dict[tuple[NodeId, PartitionKey], SimulatedDisk] = {}

    def replica_changed(self, change: ReplicaChange) -> None:
        key, disk = (change.node.id, change.partition.key), change.node.disk
        if self._disks.get(key) is not disk:
            self._disks[key] = disk
            if change.now.end_offset:
                raise Violation(
                    "5",
                    f"{change}: the log of a new topic id has records up to "
                    f"{change.now.end_offset} from the start",
                )
