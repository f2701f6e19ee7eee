"""The metadata image that this broker works with, as Kafka's MetadataCache."""

from sawlog.cluster.metadata_image import EMPTY_IMAGE, NO_NODE, MetadataImage
from sawlog.core.ids import TopicId


class MetadataCache:
    """Invariant: `image` is the newest image that the broker was given, or `EMPTY_IMAGE`."""

    __slots__ = ("image",)

    def __init__(self) -> None:
        self.image: MetadataImage = EMPTY_IMAGE

    def update(self, image: MetadataImage) -> None:
        self.image = image

    def topic_name(self, topic_id: bytes) -> str | None:
        return self.image.names.get(TopicId(topic_id))

    def current_leader(self, topic: str | None, index: int) -> tuple[int, int]:
        """Return leader and leader epoch, each -1 if unknown, for a client of another broker."""
        partition = None if topic is None else self.image.partition(topic, index)
        if partition is None:
            return NO_NODE, -1
        return partition.leader, partition.leader_epoch
