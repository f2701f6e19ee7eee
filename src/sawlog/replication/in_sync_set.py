"""The in-sync set of a partition, as its leader knows it: stored, and perhaps with a change that is
being written.

A change that is being written may be stored already or may never be. So the leader commits over the
maximal set, which has the members of both (KIP-497), until it knows.
"""

from dataclasses import dataclass

from sawlog.cluster.metadata_image import InSyncMember, PartitionImage
from sawlog.core.ids import NodeId

UNKNOWN_EPOCH = -1


@dataclass(frozen=True, slots=True)
class InSyncSet:
    """An immutable value. `stored` is the set with the partition epoch `partition_epoch`;
    `pending`, if any, is to replace it."""

    stored: tuple[InSyncMember, ...]
    partition_epoch: int
    pending: tuple[InSyncMember, ...] | None = None

    @classmethod
    def of(cls, image: PartitionImage) -> "InSyncSet":
        members = image.members or tuple(
            InSyncMember(node, UNKNOWN_EPOCH, "") for node in image.isr
        )
        return cls(members, image.partition_epoch)

    def nodes(self) -> tuple[NodeId, ...]:
        """Return the nodes of the stored set."""
        return tuple(member.node for member in self.stored)

    def maximal_isr(self) -> frozenset[NodeId]:
        """Return the nodes of the stored set joined with those of the pending one."""
        return frozenset(member.node for member in self.stored + (self.pending or ()))

    def member(self, node: NodeId) -> InSyncMember | None:
        return next((member for member in self.stored if member.node == node), None)

    # Changes

    def adding(self, member: InSyncMember) -> "InSyncSet":
        """Begin to add a member, or to replace the entry of its earlier broker epoch."""
        assert self.pending is None
        if self.member(member.node) is None:
            pending = (*self.stored, member)
        else:
            pending = tuple(member if m.node == member.node else m for m in self.stored)
        return InSyncSet(self.stored, self.partition_epoch, pending)

    def removing(self, nodes: frozenset[NodeId]) -> "InSyncSet":
        """Begin to remove members."""
        assert self.pending is None
        pending = tuple(member for member in self.stored if member.node not in nodes)
        return InSyncSet(self.stored, self.partition_epoch, pending)

    def adopt(self, image: PartitionImage) -> "InSyncSet":
        """Return the set of an image, unless that is not newer than this one. A newer one decides
        the pending change, which was for this partition epoch only."""
        return InSyncSet.of(image) if image.partition_epoch > self.partition_epoch else self
