"""Sawlog's client for Sawlog and Apache Kafka: producer, consumer and admin.

Calls block and need no event loop. Any number of threads may use a Producer and its Deliveries; one
thread at a time a Consumer, an Admin or a Cluster; one thread a message stream. Modules are
imported with the first use of a name, and pyarrow with the first `poll_arrow`. docs/client.md has
the details.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sawlog.client.admin.admin import Admin, ClusterDescription, NewTopic
    from sawlog.client.admin.configs import Change, ConfigEntry, ConfigSynonym, Resource
    from sawlog.client.admin.group_offsets import Committed, GroupMetadata
    from sawlog.client.admin.groups import (
        GroupDescription,
        GroupListing,
        GroupMember,
        MemberToRemove,
    )
    from sawlog.client.admin.list_offsets import EARLIEST, LATEST, FoundOffset
    from sawlog.client.admin.log_dirs import LogDir, LogDirReplica
    from sawlog.client.consumer.consumer import Consumer
    from sawlog.client.consumer.fetched_records import ConsumedRecord
    from sawlog.client.consumer.membership.membership_protocol import GroupSettings
    from sawlog.client.consumer.membership.offset_commits import CommitFailed
    from sawlog.client.consumer.membership.rebalance_listener import RebalanceListener
    from sawlog.client.consumer.message_streams import MessageStream
    from sawlog.client.consumer.start_positions import (
        AT_EARLIEST,
        AT_LATEST,
        AtOffset,
        AtTime,
        OffsetReset,
    )
    from sawlog.client.errors import ClientError, ConnectionLost, NoBrokerReachable, RequestTimedOut
    from sawlog.client.net.cluster import Cluster, NoSuchTopic
    from sawlog.client.producer.delivery import Delivered, Delivery, DeliveryFailed
    from sawlog.client.producer.producer import Producer
    from sawlog.client.producer.transaction_errors import (
        TransactionAbortable,
        TransactionError,
        TransactionFatal,
        TransactionRetriable,
    )
    from sawlog.client.zookeeper_consumer.zookeeper_consumer import ZooKeeperConsumer
    from sawlog.core.config_api import ConfigSource, Operation, ResourceType
    from sawlog.core.config_values import ConfigType
    from sawlog.core.errors import ErrorCode, KafkaError
    from sawlog.core.ids import TopicPartition
    from sawlog.protocol.compression import Codec

__all__ = [
    "AT_EARLIEST",
    "AT_LATEST",
    "EARLIEST",
    "LATEST",
    "Admin",
    "AtOffset",
    "AtTime",
    "Change",
    "ClientError",
    "Cluster",
    "ClusterDescription",
    "Codec",
    "CommitFailed",
    "Committed",
    "ConfigEntry",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "ConnectionLost",
    "ConsumedRecord",
    "Consumer",
    "Delivered",
    "Delivery",
    "DeliveryFailed",
    "ErrorCode",
    "FoundOffset",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "GroupMetadata",
    "GroupSettings",
    "KafkaError",
    "LogDir",
    "LogDirReplica",
    "MemberToRemove",
    "MessageStream",
    "NewTopic",
    "NoBrokerReachable",
    "NoSuchTopic",
    "OffsetReset",
    "Operation",
    "Producer",
    "RebalanceListener",
    "RequestTimedOut",
    "Resource",
    "ResourceType",
    "TopicPartition",
    "TransactionAbortable",
    "TransactionError",
    "TransactionFatal",
    "TransactionRetriable",
    "ZooKeeperConsumer",
]

_EXPORTS = {
    "sawlog.client.admin.admin": ("Admin", "ClusterDescription", "NewTopic"),
    "sawlog.client.net.cluster": ("Cluster", "NoSuchTopic"),
    "sawlog.client.admin.configs": (
        "Change",
        "ConfigEntry",
        "ConfigSynonym",
        "Resource",
    ),
    "sawlog.client.consumer.consumer": ("Consumer",),
    "sawlog.client.producer.delivery": ("Delivered", "Delivery", "DeliveryFailed"),
    "sawlog.client.errors": (
        "ClientError",
        "ConnectionLost",
        "RequestTimedOut",
        "NoBrokerReachable",
    ),
    "sawlog.client.consumer.fetched_records": ("ConsumedRecord",),
    "sawlog.client.admin.group_offsets": ("Committed", "GroupMetadata"),
    "sawlog.client.admin.groups": (
        "GroupDescription",
        "GroupListing",
        "GroupMember",
        "MemberToRemove",
    ),
    "sawlog.client.consumer.membership.offset_commits": ("CommitFailed",),
    "sawlog.client.consumer.membership.rebalance_listener": ("RebalanceListener",),
    "sawlog.client.consumer.membership.membership_protocol": ("GroupSettings",),
    "sawlog.client.admin.list_offsets": ("EARLIEST", "LATEST", "FoundOffset"),
    "sawlog.client.admin.log_dirs": ("LogDir", "LogDirReplica"),
    "sawlog.client.producer.producer": ("Producer",),
    "sawlog.client.producer.transaction_errors": (
        "TransactionAbortable",
        "TransactionError",
        "TransactionFatal",
        "TransactionRetriable",
    ),
    "sawlog.client.consumer.start_positions": (
        "AT_EARLIEST",
        "AT_LATEST",
        "AtOffset",
        "AtTime",
        "OffsetReset",
    ),
    "sawlog.client.consumer.message_streams": ("MessageStream",),
    "sawlog.client.zookeeper_consumer.zookeeper_consumer": ("ZooKeeperConsumer",),
    "sawlog.core.config_api": ("ConfigSource", "Operation", "ResourceType"),
    "sawlog.core.config_values": ("ConfigType",),
    "sawlog.core.errors": ("ErrorCode", "KafkaError"),
    "sawlog.core.ids": ("TopicPartition",),
    "sawlog.protocol.compression": ("Codec",),
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
