"""The metadata image: a broker's knowledge of the cluster as one immutable value.

A change makes a new image that shares all unchanged topics with the old one, so that `is` finds the
changed ones. Its mappings are read-only. `cluster/store_view.py` builds images.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from sawlog.cluster.internal_topics import is_internal
from sawlog.core.ids import LeaderEpoch, NodeId, TopicId, TopicName

NO_NODE = NodeId(-1)
NO_EPOCH = -1
K = TypeVar("K")
V = TypeVar("V")


def read_only(mapping: Mapping[K, V]) -> MappingProxyType[K, V]:
    """Return a view that cannot be changed; the caller gives up the mapping itself."""
    return mapping if isinstance(mapping, MappingProxyType) else MappingProxyType(mapping)


def mutable_copy(mapping: Mapping[K, V]) -> dict[K, V]:
    """Return a dict with the entries of a mapping. The copy of a read-only view is one of its dict,
    which is ten times as fast as `dict(view)`."""
    return mapping.copy() if isinstance(mapping, MappingProxyType) else dict(mapping)


NO_CONFIGS: Mapping[str, str] = read_only({})


class ConfigKind(Enum):
    """The kinds of resources other than topics that have configs, by Kafka's names for them."""

    BROKER = "brokers"
    CLIENT_METRICS = "client-metrics"
    GROUP = "groups"


class ConfigResource(NamedTuple):
    kind: ConfigKind
    name: str


ALL_BROKERS = ConfigResource(ConfigKind.BROKER, "")
"""The defaults of all brokers."""


class ConfigImage(NamedTuple):
    """The configs of one resource; `version` rises with each change."""

    configs: Mapping[str, str]
    version: int


class BrokerImage(NamedTuple):
    """A live broker. `epoch` is the change number of its registration, new with every restart.

    `directory_id` names its data directory; it is empty if the coordination store is a part of that
    directory, so that one cannot be exchanged without the other. `process_epoch` is the epoch of
    the first registration of the same process, and `clean_stop` tells whether the process before it
    flushed and closed its logs. A broker that `is_shutting_down` is not elected any more.
    `registration` names the node that a write checks if it holds only while the broker has this
    epoch.
    """

    id: NodeId
    host: str
    port: int
    rack: str | None
    epoch: int
    directory_id: str = ""
    flush_policy: str = "commit"
    clean_stop: bool = True
    process_epoch: int = 0
    is_shutting_down: bool = False
    registration: str = ""

    @property
    def failure_domain(self) -> str:
        """The unit that replicas are spread over: the rack, or the host if no rack is set."""
        return f"host {self.host}" if self.rack is None else f"rack {self.rack}"


DAMAGED_DIRECTORY = "damaged"
"""The directory id of an in-sync member that lost records, and is the last: it matches none."""


class InSyncMember(NamedTuple):
    """A member of an in-sync set: the broker epoch under which the replica caught up, and the data
    directory in which it did. The directory id is empty if it was not recorded."""

    node: NodeId
    broker_epoch: int
    directory_id: str

    def is_of(self, broker: BrokerImage) -> bool:
        """Whether the live broker is the process that caught up."""
        return self.node == broker.id and self.broker_epoch == broker.epoch

    def has_directory_of(self, broker: BrokerImage) -> bool:
        return self.node == broker.id and self.directory_id in ("", broker.directory_id)


class DroppedMember(NamedTuple):
    """A member that the controller left out of the in-sync set because it was not alive. It has all
    records that were committed before `leader_epoch`, the epoch in which it was left out."""

    member: InSyncMember
    leader_epoch: int

    @property
    def node(self) -> NodeId:
        return self.member.node


class PartitionImage(NamedTuple):
    """`leader` is NO_NODE if the elected process is not alive, even if the broker restarted.

    `partition_epoch` is the version of the state node, for compare-and-set. `members` describes the
    nodes of `isr` in the same order. `adding` and `removing` are the replicas that a reassignment
    under way adds and removes; `replicas` has both until it is complete. `unclean_epoch` is the
    leader epoch of the last unclean election: records that were committed before may be lost.
    """

    leader: NodeId
    leader_epoch: LeaderEpoch
    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    partition_epoch: int
    members: tuple[InSyncMember, ...] = ()
    adding: tuple[NodeId, ...] = ()
    removing: tuple[NodeId, ...] = ()
    unclean_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic. Partitions that are being added are missing until they have a state.

    `configs` has the topic's own settings only; `config_version` rises with each change."""

    name: TopicName
    id: TopicId
    partitions: tuple[PartitionImage, ...]
    configs: Mapping[str, str] = field(default_factory=lambda: NO_CONFIGS)
    config_version: int = 0

    @property
    def is_internal(self) -> bool:
        return is_internal(self.name)


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """`version` grows with every change of a broker's image. It does not count for equality: each
    broker counts the changes that it has seen."""

    cluster_id: str = ""
    controller_id: NodeId = NO_NODE
    brokers: Mapping[NodeId, BrokerImage] = field(default_factory=dict)
    topics: Mapping[TopicName, TopicImage] = field(default_factory=dict)
    names: Mapping[TopicId, TopicName] = field(default_factory=dict)
    configs: Mapping[ConfigResource, ConfigImage] = field(default_factory=dict)
    version: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        for name in ("brokers", "topics", "names", "configs"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    def configs_of(self, resource: ConfigResource) -> Mapping[str, str]:
        """Return the configs of a broker, a group or a subscription; empty if it has none."""
        found = self.configs.get(resource)
        return NO_CONFIGS if found is None else found.configs

    def broker_configs(self, node_id: NodeId) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Return the dynamic configs of all brokers, and those of one broker."""
        own = ConfigResource(ConfigKind.BROKER, str(node_id))
        return self.configs_of(ALL_BROKERS), self.configs_of(own)

    def topic_by_id(self, topic_id: bytes) -> TopicImage | None:
        name = self.names.get(TopicId(topic_id))
        return None if name is None else self.topics.get(name)

    def without_leader(self, node: NodeId) -> "MetadataImage":
        """Return this image with the partitions that `node` leads having no leader."""
        topics = mutable_copy(self.topics)
        for name, topic in self.topics.items():
            if any(partition.leader == node for partition in topic.partitions):
                partitions = tuple(
                    partition._replace(leader=NO_NODE) if partition.leader == node else partition
                    for partition in topic.partitions
                )
                topics[name] = replace(topic, partitions=partitions)
        return replace(self, topics=topics, version=self.version + 1)

    def partition(self, topic: str, index: int) -> PartitionImage | None:
        image = self.topics.get(TopicName(topic))
        if image is None or not 0 <= index < len(image.partitions):
            return None
        return image.partitions[index]


EMPTY_IMAGE = MetadataImage()


def changed_topics(
    old: MetadataImage, new: MetadataImage
) -> Iterator[tuple[TopicImage | None, TopicImage | None]]:
    """Yield each changed topic before and after; None before its creation and after its deletion.

    A topic that was deleted and created again with the same name, but another id, yields two pairs:
    first the deletion, then the creation.
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
