"""The internal topics: one row for each topic in which coordinators keep their state.

The coordinator of each row is registered in `broker/assembly.py`, which fails with KeyError if it
is missing.

Clients may not produce to an internal topic (`__admin_client` may, as in Kafka) or delete records
from it; they may read it and delete it as a whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from sawlog.cluster.new_topic import NewTopic
from sawlog.core.config import BrokerConfig
from sawlog.core.ids import TopicName

MIN_IN_SYNC = "min.insync.replicas"


class CoordinatorType(IntEnum):
    """The kinds of coordinators; the numbers are the key types of FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A topic whose partitions are each led by a coordinator.

    Its number of partitions is fixed: a coordinator finds the partition of an id by the id's hash.
    `partitions_key` and `replication_factor_key` are broker settings. `configs` are set on the
    topic when it is created; `config_keys` names the broker setting for each further one.
    """

    name: TopicName
    coordinator: CoordinatorType
    partitions_key: str
    replication_factor_key: str
    configs: Mapping[str, str]
    config_keys: Mapping[str, str]

    def new_topic(self, config: BrokerConfig, brokers: int) -> NewTopic:
        """Describe the topic for its creation. The replication factor is at most the number of
        brokers that the cluster is known to have, live or not: a single broker could otherwise
        never create it, and one that is alone for a moment must not create it with one replica. Nor
        does it need more in-sync replicas than it has."""
        factor = min(config[self.replication_factor_key], brokers)
        settings = {name: config[key] for name, key in self.config_keys.items()}
        if MIN_IN_SYNC in settings:
            settings[MIN_IN_SYNC] = min(settings[MIN_IN_SYNC], factor)
        return NewTopic(
            self.name,
            config[self.partitions_key],
            factor,
            configs={**self.configs, **{name: str(value) for name, value in settings.items()}},
        )


CONSUMER_OFFSETS = InternalTopic(
    TopicName("__consumer_offsets"),
    CoordinatorType.GROUP,
    partitions_key="offsets.topic.num.partitions",
    replication_factor_key="offsets.topic.replication.factor",
    configs={"cleanup.policy": "compact", "compression.type": "producer"},
    config_keys={"segment.bytes": "offsets.topic.segment.bytes"},
)

TRANSACTION_STATE = InternalTopic(
    TopicName("__transaction_state"),
    CoordinatorType.TRANSACTION,
    partitions_key="transaction.state.log.num.partitions",
    replication_factor_key="transaction.state.log.replication.factor",
    configs={
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "unclean.leader.election.enable": "false",
    },
    config_keys={
        "segment.bytes": "transaction.state.log.segment.bytes",
        MIN_IN_SYNC: "transaction.state.log.min.isr",
    },
)

INTERNAL_TOPICS: Mapping[str, InternalTopic] = {
    topic.name: topic for topic in (CONSUMER_OFFSETS, TRANSACTION_STATE)
}

_RESERVED = frozenset({"__share_group_state"})
"""Internal topics of Kafka whose coordinators this broker does not have."""


def is_internal(name: str | None) -> bool:
    return name in INTERNAL_TOPICS or name in _RESERVED
