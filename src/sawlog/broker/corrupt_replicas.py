"""Replicas with a corrupt batch in the middle of their logs, below their recovery points.

A disk has changed bytes that were flushed. Recovery, a follower that fetches the batch, or
compaction finds it. If another in-sync replica is alive, it has the records: this one leaves the
in-sync set and the lead, truncates its log at the batch, and fetches the rest again. Without
another one it goes on: everything after the batch is worth more (docs/decisions/0005 and 0015).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sawlog.broker.damaged_replicas import truncate_damaged
from sawlog.cluster.metadata_image import NO_NODE, PartitionImage
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import NodeId, TopicPartition
from sawlog.replication.roles import Role

if TYPE_CHECKING:
    from sawlog.broker.metadata_cache import MetadataCache
    from sawlog.replication.isr_writer import IsrWriter
    from sawlog.replication.replica import Replica

logger = EventLogger(__name__)


class CorruptReplicas:
    """Invariant: a log is truncated only while the stored in-sync set is without its replica and
    has another leader, and before the replica fetches in that leader's epoch: a fetch of an earlier
    epoch, which tells of the log before the truncation, does not count any more.

    `_offsets` has the first corrupt batch of each log. It is not kept on disk: after a crash the
    replica is as it was, and the batch is found again.
    """

    def __init__(
        self, node_id: NodeId, metadata: "MetadataCache", isr_writer: "IsrWriter | None"
    ) -> None:
        self._node_id = node_id
        self._metadata = metadata
        self._isr_writer = isr_writer
        self._offsets: dict[TopicPartition, int] = {}
        self._leaving: set[TopicPartition] = set()

    def start(self, found: Mapping[TopicPartition, int]) -> None:
        """Begin with the corrupt batches that recovery has found."""
        self._offsets.update(found)

    def forget(self, name: TopicPartition) -> None:
        self._offsets.pop(name, None)

    def found(self, replica: "Replica", offset: int) -> None:
        """The batch at `offset` is corrupt. Leave the in-sync set now, or at a later `check`."""
        name = replica.name
        if offset < self._offsets.get(name, offset + 1):
            self._offsets[name] = offset
            logger.error("corrupt batch in the log", log=str(name), offset=offset)
        self.check(replica)

    def check(self, replica: "Replica") -> None:
        """Leave the in-sync set if another member is alive and has the records."""
        name, writer = replica.name, self._isr_writer
        offset = self._offsets.get(name)
        if offset is None or writer is None or name in self._leaving:
            return
        if offset < replica.log.segments.base_offset:
            self.forget(name)  # retention has removed the batch
            return
        state = self._metadata.image.partition(*name)
        if state is None or self._node_id not in state.isr:
            return
        if not self._has_another(replica, state):
            return
        self._leaving.add(name)
        logger.warning(
            "a replica with a corrupt batch leaves the in-sync set",
            log=str(name),
            offset=offset,
            isr=state.isr,
        )
        writer.hand_on(
            name, replica.topic_id, state.partition_epoch, lambda _: self._leaving.discard(name)
        )

    def _has_another(self, replica: "Replica", state: PartitionImage) -> bool:
        if replica.leader is not None:
            return replica.leader.has_live_member
        follower = replica.follower  # its leader may be registered, and dead
        return follower is not None and follower.has_response and state.leader in state.isr

    def heal(self, replica: "Replica", state: PartitionImage) -> None:
        """Truncate the log of a replica that is out of the in-sync set, before it follows in the
        epoch of `state`. KafkaError or DiskError if that is not possible now."""
        offset = self._offsets.get(replica.name)
        if offset is None or self._node_id in state.isr:
            return
        if state.leader in (NO_NODE, self._node_id):
            return
        if replica.role is Role.FOLLOWER and replica.leader_epoch == state.leader_epoch:
            return  # its fetches of this epoch may be on their way
        replica.lose_leader(state.leader_epoch)
        truncate_damaged(replica.log, offset)
        self.forget(replica.name)
        logger.warning(
            "log truncated at a corrupt batch",
            log=str(replica.name),
            offset=offset,
            leader=state.leader,
        )
