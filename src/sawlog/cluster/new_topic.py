"""What somebody asks for when a topic is made: a client, or the broker for its groups."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sawlog.cluster.metadata_image import GROUP_TOPIC
from sawlog.core.config import BrokerConfig


@dataclass(frozen=True, slots=True)
class NewTopic:
    """What CreateTopics asks for; -1 means the broker's default."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)


def groups_topic(config: BrokerConfig, brokers: int) -> NewTopic:
    """The topic that the groups live in. A broker whose store is embedded is alone for ever: asking
    there for more replicas than there are brokers would only keep groups from working."""
    factor: int = config["offsets.topic.replication.factor"]
    return NewTopic(
        GROUP_TOPIC,
        config["offsets.topic.num.partitions"],
        min(factor, brokers),
        configs={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config["offsets.topic.segment.bytes"]),
        },
    )
