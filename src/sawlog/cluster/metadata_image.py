"""The metadata image: what one broker knows of the cluster, as one immutable value.

A change makes a new image that shares all unchanged topics with the old one, so that `is` tells
what changed. Never mutate the mappings; `cluster/store_watcher.py` alone builds images.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sawlog.cluster.internal_topics import is_internal
from sawlog.core.ids import LeaderEpoch, NodeId, TopicId, TopicName

NO_NODE = NodeId(-1)


class BrokerImage(NamedTuple):
    """A live broker. `epoch` is the change number of its registration: a restart has a new one."""

    id: NodeId
    host: str
    port: int
    rack: str | None
    epoch: int

    @property
    def failure_domain(self) -> str:
        """What replicas are spread over: the rack, or the host where no rack is set."""
        return f"host {self.host}" if self.rack is None else f"rack {self.rack}"


class PartitionImage(NamedTuple):
    """`leader` is NO_NODE unless it is alive in the very process that was elected.

    `partition_epoch` is the version of the state node: the one to name in a compare-and-set.
    """

    leader: NodeId
    leader_epoch: LeaderEpoch
    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    partition_epoch: int


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic; each partition shown has a state, and those that it is growing by may not show yet.
    `configs` holds only what was set on the topic; `config_version` rises with each change."""

    name: TopicName
    id: TopicId
    partitions: tuple[PartitionImage, ...]
    configs: Mapping[str, str] = field(default_factory=dict)
    config_version: int = 0

    @property
    def is_internal(self) -> bool:
        return is_internal(self.name)


@dataclass(frozen=True, slots=True)
class MetadataImage:
    cluster_id: str = ""
    controller_id: NodeId = NO_NODE
    brokers: Mapping[NodeId, BrokerImage] = field(default_factory=dict)
    topics: Mapping[TopicName, TopicImage] = field(default_factory=dict)
    names: Mapping[TopicId, TopicName] = field(default_factory=dict)

    def topic_by_id(self, topic_id: bytes) -> TopicImage | None:
        name = self.names.get(TopicId(topic_id))
        return None if name is None else self.topics.get(name)

    def partition(self, topic: str, index: int) -> PartitionImage | None:
        image = self.topics.get(TopicName(topic))
        if image is None or not 0 <= index < len(image.partitions):
            return None
        return image.partitions[index]


EMPTY_IMAGE = MetadataImage()


def changed_topics(
    old: MetadataImage, new: MetadataImage
) -> Iterator[tuple[TopicImage | None, TopicImage | None]]:
    """Pairs of a topic before and after, None where it was not there or is gone.

    A topic that was deleted and made again under the same name comes as two pairs, the one that
    goes first: its id tells them apart.
    """
    if old.topics is new.topics:
        return
    for name, before in old.topics.items():
        after = new.topics.get(name)
        if after is None or after.id != before.id:
            yield before, None
    for name, after in new.topics.items():
        earlier = old.topics.get(name)
        if earlier is after:
            continue
        yield (earlier if earlier is not None and earlier.id == after.id else None), after
