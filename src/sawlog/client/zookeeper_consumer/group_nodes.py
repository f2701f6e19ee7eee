"""The nodes of a group in ZooKeeper: paths and content, those of Kafka 0.8's consumer.

- `/consumers/<group>/ids/<consumer>`, ephemeral: the subscription, as JSON
- `/consumers/<group>/owners/<topic>/<partition>`, ephemeral: the id of the owning thread
- `/consumers/<group>/offsets/<topic>/<partition>`, persistent: the next offset, as decimal text
"""

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from sawlog.client.errors import ClientError
from sawlog.client.net.addresses import Address
from sawlog.core.ids import TopicPartition

BROKER_IDS = "/brokers/ids"
BROKER_TOPICS = "/brokers/topics"
_VERSION = 1
_PLAINTEXT = "PLAINTEXT"
_HIGHEST_OFFSET = (1 << 63) - 1


class MalformedNode(ClientError):
    """A node whose content is not what Kafka writes there."""

    def __init__(self, path: str, data: bytes, expected: str) -> None:
        super().__init__(f"the node {path} has {data[:200]!r}; expected {expected}")


class GroupPaths:
    """The paths of one group. ValueError if its name cannot be that of a node."""

    def __init__(self, group: str) -> None:
        root = f"/consumers/{check_name('group', group)}"
        self.ids = f"{root}/ids"
        self.owners = f"{root}/owners"
        self.offsets = f"{root}/offsets"

    def consumer(self, consumer_id: str) -> str:
        return f"{self.ids}/{consumer_id}"

    def owner(self, partition: TopicPartition) -> str:
        return f"{self.owners}/{partition.topic}/{partition.partition}"

    def offset(self, partition: TopicPartition) -> str:
        return f"{self.offsets}/{partition.topic}/{partition.partition}"


def check_name(what: str, name: str) -> str:
    """Return a name that can be a node's; ValueError otherwise."""
    if not name or name in (".", "..") or not name.isprintable() or "/" in name:
        raise ValueError(
            f"the {what} {name!r} cannot be the name of a node in ZooKeeper; use printable"
            " characters without '/'"
        )
    return name


def broker_path(node: str) -> str:
    return f"{BROKER_IDS}/{node}"


def topic_path(topic: str) -> str:
    return f"{BROKER_TOPICS}/{topic}"


class PatternKind(Enum):
    """Kafka's names for the kinds of subscriptions."""

    STATIC = "static"
    WHITE_LIST = "white_list"
    BLACK_LIST = "black_list"


class Registration(NamedTuple):
    """A member's subscription: the number of its threads for each topic, or for a pattern."""

    threads: Mapping[str, int]
    kind: PatternKind = PatternKind.STATIC


def encode_registration(registration: Registration, timestamp_ms: int) -> bytes:
    return json.dumps(
        {
            "version": _VERSION,
            "subscription": dict(sorted(registration.threads.items())),
            "pattern": registration.kind.value,
            "timestamp": str(timestamp_ms),
        },
        separators=(",", ":"),
    ).encode()


def decode_registration(path: str, data: bytes) -> Registration:
    try:
        fields = json.loads(data)
        threads = {str(name): int(count) for name, count in fields["subscription"].items()}
        return Registration(threads, PatternKind(fields.get("pattern", PatternKind.STATIC.value)))
    except (ValueError, TypeError, KeyError, AttributeError):
        raise MalformedNode(path, data, "a consumer's registration as JSON") from None


def encode_offset(offset: int) -> bytes:
    return b"%d" % offset


def decode_offset(path: str, data: bytes) -> int:
    if not data.isdigit() or int(data) > _HIGHEST_OFFSET:
        raise MalformedNode(path, data, "an offset as decimal text")
    return int(data)


def decode_partitions(path: str, data: bytes) -> tuple[int, ...]:
    """Return the partitions of a topic's node, sorted."""
    try:
        return tuple(sorted(int(index) for index in json.loads(data)["partitions"]))
    except (ValueError, TypeError, KeyError):
        raise MalformedNode(path, data, "a topic's assignment as JSON") from None


def decode_broker(path: str, data: bytes) -> Address | None:
    """Return the plaintext address of a broker, or None if it has none."""
    try:
        fields: dict[str, Any] = json.loads(data)
        protocols = fields.get("listener_security_protocol_map") or {}
        for endpoint in fields.get("endpoints") or ():
            listener, _, where = endpoint.partition("://")
            if protocols.get(listener, listener) == _PLAINTEXT:
                host, _, port = where.rpartition(":")
                return Address(host.strip("[]") or fields["host"], int(port))
        host, port = fields.get("host"), fields.get("port")
        return Address(host, int(port)) if host and port and int(port) > 0 else None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise MalformedNode(path, data, "a broker's registration as JSON") from None
