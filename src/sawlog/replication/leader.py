"""The leader's side of a partition: its in-sync set and the progress of its followers."""

from collections.abc import Mapping

from sawlog.cluster.metadata_image import BrokerImage
from sawlog.core.ids import NodeId


class Leader:
    """The state of a replica while it leads in one epoch."""

    __slots__ = ("brokers", "isr")

    def __init__(self, isr: tuple[NodeId, ...], brokers: Mapping[NodeId, BrokerImage]) -> None:
        self.isr = isr
        self.brokers = brokers

    @property
    def is_sole(self) -> bool:
        """Whether the leader is the whole in-sync set."""
        return len(self.isr) == 1
