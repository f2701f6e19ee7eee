"""The paths and the content of the store's nodes: those of Kafka with ZooKeeper.

One field is Sawlog's own: `broker_epoch` in a partition's state identifies the registration of the
leader at its election, so that a leader that restarted since then is detected.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from sawlog.cluster.metadata_image import (
    ALL_BROKERS,
    NO_NODE,
    BrokerImage,
    ConfigImage,
    ConfigKind,
    ConfigResource,
)
from sawlog.core.ids import LeaderEpoch, NodeId, TopicId, format_topic_id, parse_topic_id
from sawlog.core.store import Node

BROKER_IDS = "/brokers/ids"
BROKER_TOPICS = "/brokers/topics"
CONFIG = "/config"
CONFIG_TOPICS = "/config/topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
DELETE_TOPICS = "/admin/delete_topics"
CLUSTER_ID = "/cluster/id"
_DEFAULT = "<default>"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"

PERSISTENT_PATHS: tuple[tuple[str, bytes], ...] = (
    ("/brokers", b""),
    (BROKER_IDS, b""),
    (BROKER_TOPICS, b""),
    (CONFIG, b""),
    (CONFIG_TOPICS, b""),
    *((f"{CONFIG}/{kind.value}", b"") for kind in ConfigKind),
    ("/admin", b""),
    (DELETE_TOPICS, b""),
    ("/isr_change_notification", b""),
    ("/cluster", b""),
    (CONTROLLER_EPOCH, b"0"),
)
"""Created by the first broker of a cluster, parents before children."""


class PartitionState(NamedTuple):
    """A partition's `state` node; `version` and `created` are those of the node."""

    leader: NodeId
    leader_epoch: LeaderEpoch
    isr: tuple[NodeId, ...]
    controller_epoch: int
    broker_epoch: int
    version: int = 0
    created: int = 0


class Assignment(NamedTuple):
    """A topic's node: the replicas of each partition; `version` is that of the node."""

    topic_id: TopicId
    replicas: tuple[tuple[NodeId, ...], ...]
    version: int = 0


class DeleteRequest(NamedTuple):
    """A node under `/admin/delete_topics`. It has the topic's id, because a topic with the same
    name may have been created since; without an id it matches any topic of the name."""

    topic_id: bytes
    created: int

    def matches(self, topic_id: bytes) -> bool:
        return self.topic_id in (b"", topic_id)


def broker_path(node: int) -> str:
    return f"{BROKER_IDS}/{node}"


def topic_path(topic: str) -> str:
    return f"{BROKER_TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{BROKER_TOPICS}/{topic}/partitions"


def partition_path(topic: str, index: int) -> str:
    return f"{BROKER_TOPICS}/{topic}/partitions/{index}"


def state_path(topic: str, index: int) -> str:
    return f"{BROKER_TOPICS}/{topic}/partitions/{index}/state"


def config_path(topic: str) -> str:
    return f"{CONFIG_TOPICS}/{topic}"


def configs_path(kind: ConfigKind) -> str:
    return f"{CONFIG}/{kind.value}"


def config_node_path(resource: ConfigResource) -> str:
    """Names are percent-encoded, as Kafka stored the names of users and clients."""
    if resource == ALL_BROKERS:
        return f"{CONFIG}/{resource.kind.value}/{_DEFAULT}"
    name = quote(resource.name, safe="")
    if not name.strip("."):  # not a name for a node
        name = name.replace(".", "%2E")
    return f"{CONFIG}/{resource.kind.value}/{name}"


def config_resource(kind: ConfigKind, node_name: str) -> ConfigResource:
    """Return the resource of a node below `/config/<kind>`."""
    name = "" if node_name == _DEFAULT else unquote(node_name)
    return ConfigResource(kind, name)


def delete_request_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


def _encode(fields: Any) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def encode_broker(host: str, port: int, rack: str | None, timestamp_ms: int) -> bytes:
    fields = {
        "version": 5,
        "host": host,
        "port": port,
        "endpoints": [f"PLAINTEXT://{host}:{port}"],
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "jmx_port": -1,
        "features": {},
        "timestamp": str(timestamp_ms),
    }
    return _encode(fields if rack is None else fields | {"rack": rack})


def decode_broker(node_id: NodeId, node: Node) -> BrokerImage:
    fields = json.loads(node.data)
    return BrokerImage(
        node_id, fields["host"], fields["port"], fields.get("rack"), node.stat.created
    )


def encode_assignment(topic_id: bytes, replicas: Sequence[Sequence[int]]) -> bytes:
    return _encode(
        {
            "version": 3,
            "topic_id": format_topic_id(topic_id),
            "partitions": {str(index): list(nodes) for index, nodes in enumerate(replicas)},
            "adding_replicas": {},
            "removing_replicas": {},
        }
    )


def decode_assignment(node: Node) -> Assignment:
    fields = json.loads(node.data)
    partitions: dict[str, list[NodeId]] = fields["partitions"]
    replicas = tuple(tuple(partitions[str(index)]) for index in range(len(partitions)))
    return Assignment(parse_topic_id(fields["topic_id"]), replicas, node.stat.version)


def encode_state(state: PartitionState) -> bytes:
    """Format the JSON by hand, because a start may write thousands of states."""
    isr = ",".join(map(str, state.isr))
    return (
        f'{{"version":1,"leader":{state.leader},"leader_epoch":{state.leader_epoch},'
        f'"isr":[{isr}],"controller_epoch":{state.controller_epoch},'
        f'"broker_epoch":{state.broker_epoch}}}'
    ).encode()


def decode_state(node: Node) -> PartitionState:
    fields = json.loads(node.data.decode())
    return PartitionState(
        fields["leader"],
        fields["leader_epoch"],
        tuple(fields["isr"]),
        fields["controller_epoch"],
        fields.get("broker_epoch", 0),
        node.stat.version,
        node.stat.created,
    )


def encode_configs(configs: Mapping[str, str]) -> bytes:
    return _encode({"version": 1, "config": dict(configs)})


def decode_configs(node: Node) -> dict[str, str]:
    configs: dict[str, str] = json.loads(node.data)["config"]
    return configs


def decode_config_image(node: Node) -> ConfigImage:
    return ConfigImage(decode_configs(node), node.stat.version)


def encode_delete_request(topic_id: bytes) -> bytes:
    return _encode({"version": 1, "topic_id": format_topic_id(topic_id)})


def decode_delete_request(node: Node) -> DeleteRequest:
    topic_id = parse_topic_id(json.loads(node.data)["topic_id"]) if node.data else b""
    return DeleteRequest(topic_id, node.stat.created)


def encode_controller(node: NodeId, timestamp_ms: int) -> bytes:
    return _encode({"version": 2, "brokerid": node, "timestamp": str(timestamp_ms)})


def decode_controller(node: Node) -> NodeId:
    return NodeId(json.loads(node.data).get("brokerid", NO_NODE))


def encode_cluster_id(cluster_id: str) -> bytes:
    return _encode({"version": "1", "id": cluster_id})


def decode_cluster_id(node: Node) -> str:
    cluster_id: str = json.loads(node.data)["id"]
    return cluster_id
