"""The paths and the content of the store's nodes: those of Kafka with ZooKeeper.

Some fields are Sawlog's own. `members` in a partition's state has the broker epoch and directory id
of every in-sync replica, in the order of Kafka's `isr`; PartitionState explains the others. A
registration has the directory id, `flush_policy`, `clean_stop`, `process_epoch`, `shutting_down`
and `registration`. Nodes without these fields are read too.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from sawlog.cluster.metadata_image import (
    ALL_BROKERS,
    NO_EPOCH,
    NO_NODE,
    BrokerImage,
    ConfigImage,
    ConfigKind,
    ConfigResource,
    DroppedMember,
    InSyncMember,
    read_only,
)
from sawlog.core.ids import LeaderEpoch, NodeId, TopicId, format_topic_id, parse_topic_id
from sawlog.core.store import Node

BROKER_IDS = "/brokers/ids"
BROKER_REGISTRATIONS = "/brokers/registrations"
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
    (BROKER_REGISTRATIONS, b""),
    (BROKER_TOPICS, b""),
    (CONFIG, b""),
    (CONFIG_TOPICS, b""),
    *((f"{CONFIG}/{kind.value}", b"") for kind in ConfigKind),
    ("/config/changes", b""),
    ("/admin", b""),
    (DELETE_TOPICS, b""),
    ("/isr_change_notification", b""),
    ("/cluster", b""),
    (CONTROLLER_EPOCH, b"0"),
)
"""Created by the first broker of a cluster, parents before children. `/config/changes` and
`/isr_change_notification` are for tools that write to them: brokers watch the nodes themselves."""


class PartitionState(NamedTuple):
    """A partition's `state` node; `version` and `created` are those of the node. `unclean_epoch` is
    the leader epoch of the last unclean election, -1 if there was none. `dropped` are the members
    that the controller left out because they were not alive, since the last change of the set by a
    leader."""

    leader: NodeId
    leader_epoch: LeaderEpoch
    members: tuple[InSyncMember, ...]
    controller_epoch: int
    version: int = 0
    created: int = 0
    unclean_epoch: int = NO_EPOCH
    dropped: tuple[DroppedMember, ...] = ()

    @property
    def isr(self) -> tuple[NodeId, ...]:
        return tuple(member.node for member in self.members)

    def member(self, node: NodeId) -> InSyncMember | None:
        return next((member for member in self.members if member.node == node), None)


class Reassignment(NamedTuple):
    """The replicas of one partition that are being added and removed."""

    adding: tuple[NodeId, ...] = ()
    removing: tuple[NodeId, ...] = ()


NO_REASSIGNMENT = Reassignment()


class Assignment(NamedTuple):
    """A topic's node: the replicas of each partition, those of `reassignments` included; `version`
    is that of the node."""

    topic_id: TopicId
    replicas: tuple[tuple[NodeId, ...], ...]
    version: int = 0
    reassignments: Mapping[int, Reassignment] = {}

    def reassignment(self, index: int) -> Reassignment:
        return self.reassignments.get(index, NO_REASSIGNMENT)


class DeleteRequest(NamedTuple):
    """A node under `/admin/delete_topics`. It has the topic's id, because a topic with the same
    name may have been created since; without an id it matches any topic of the name."""

    topic_id: bytes
    created: int

    def matches(self, topic_id: bytes) -> bool:
        return self.topic_id in (b"", topic_id)


def broker_path(node: int) -> str:
    return f"{BROKER_IDS}/{node}"


def registration_path(name: str) -> str:
    """The ephemeral node that exists as long as the registration with this name, and has no other
    one's name: a check of it fails once the broker has registered again. A check of the broker's
    own node would not, because a new node has the version of the old one."""
    return f"{BROKER_REGISTRATIONS}/{name}"


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


def encode_broker(broker: BrokerImage, timestamp_ms: int) -> bytes:
    """Encode a registration. Its epoch is the change number at which the node is created, and so is
    the `process_epoch` of a process that registers for the first time: 0 here."""
    fields = {
        "version": 5,
        "host": broker.host,
        "port": broker.port,
        "endpoints": [f"PLAINTEXT://{broker.host}:{broker.port}"],
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "jmx_port": -1,
        "features": {},
        "timestamp": str(timestamp_ms),
        "directory_id": broker.directory_id,
        "flush_policy": broker.flush_policy,
        "clean_stop": broker.clean_stop,
        "process_epoch": broker.process_epoch,
        "shutting_down": broker.is_shutting_down,
        "registration": broker.registration,
    }
    return _encode(fields if broker.rack is None else fields | {"rack": broker.rack})


def decode_broker(node_id: NodeId, node: Node) -> BrokerImage:
    fields = json.loads(node.data)
    epoch = node.stat.created
    return BrokerImage(
        node_id,
        fields["host"],
        fields["port"],
        fields.get("rack"),
        epoch,
        fields.get("directory_id", ""),
        fields.get("flush_policy", "commit"),
        fields.get("clean_stop", True),
        fields.get("process_epoch", 0) or epoch,
        fields.get("shutting_down", False),
        fields.get("registration", ""),
    )


def encode_assignment(
    topic_id: bytes,
    replicas: Sequence[Sequence[int]],
    reassignments: Mapping[int, Reassignment] | None = None,
) -> bytes:
    changed = sorted((reassignments or {}).items())
    return _encode(
        {
            "version": 3,
            "topic_id": format_topic_id(topic_id),
            "partitions": {str(index): list(nodes) for index, nodes in enumerate(replicas)},
            "adding_replicas": {str(i): list(change.adding) for i, change in changed},
            "removing_replicas": {str(i): list(change.removing) for i, change in changed},
        }
    )


def decode_assignment(node: Node) -> Assignment:
    fields = json.loads(node.data)
    partitions: dict[str, list[NodeId]] = fields["partitions"]
    replicas = tuple(tuple(partitions[str(index)]) for index in range(len(partitions)))
    adding: dict[str, list[NodeId]] = fields.get("adding_replicas", {})
    removing: dict[str, list[NodeId]] = fields.get("removing_replicas", {})
    reassignments = {
        int(index): Reassignment(tuple(adding.get(index, ())), tuple(removing.get(index, ())))
        for index in sorted(adding.keys() | removing.keys())
    }
    topic_id = parse_topic_id(fields["topic_id"])
    return Assignment(topic_id, replicas, node.stat.version, reassignments)


def encode_state(state: PartitionState) -> bytes:
    """Format the JSON by hand, because a start may write thousands of states."""
    isr = ",".join([str(member.node) for member in state.members])
    more = "" if state.unclean_epoch < 0 else f',"unclean_epoch":{state.unclean_epoch}'
    if state.dropped:
        dropped = ",".join([_encode_member(*each) for each in state.dropped])
        more += f',"dropped":[{dropped}]'
    return (
        f'{{"version":1,"leader":{state.leader},"leader_epoch":{state.leader_epoch},'
        f'"isr":[{isr}],"controller_epoch":{state.controller_epoch},'
        f'"members":[{_encode_members(state.members)}]{more}}}'
    ).encode()


def _encode_members(members: tuple[InSyncMember, ...]) -> str:
    return ",".join([_encode_member(member) for member in members])


def _encode_member(member: InSyncMember, leader_epoch: int | None = None) -> str:
    node, epoch, directory_id = member
    directory = json.dumps(directory_id)
    more = "" if leader_epoch is None else f',"leader_epoch":{leader_epoch}'
    return f'{{"broker":{node},"broker_epoch":{epoch},"directory_id":{directory}{more}}}'


def _decode_member(fields: Mapping[str, Any]) -> InSyncMember:
    return InSyncMember(fields["broker"], fields["broker_epoch"], fields["directory_id"])


def _decode_dropped(fields: Mapping[str, Any], leader_epoch: int) -> DroppedMember:
    """Without a leader epoch, the member was left out in the present one."""
    return DroppedMember(_decode_member(fields), fields.get("leader_epoch", leader_epoch))


def decode_state(node: Node) -> PartitionState:
    """Read a state. Its `isr` decides: `members` only adds to it, and a tool of Kafka that rewrote
    the node without them leaves members whose epochs and directories are not known."""
    fields = json.loads(node.data.decode())
    leader = fields["leader"]
    known = {member.node: member for member in map(_decode_member, fields.get("members", ()))}
    if "broker_epoch" in fields:  # written before there were members: the leader's epoch
        known.setdefault(leader, InSyncMember(leader, fields["broker_epoch"], ""))
    return PartitionState(
        leader,
        fields["leader_epoch"],
        tuple(known.get(node) or InSyncMember(node, 0, "") for node in fields["isr"]),
        fields["controller_epoch"],
        node.stat.version,
        node.stat.created,
        fields.get("unclean_epoch", NO_EPOCH),
        tuple(_decode_dropped(each, fields["leader_epoch"]) for each in fields.get("dropped", ())),
    )


def encode_configs(configs: Mapping[str, str]) -> bytes:
    return _encode({"version": 1, "config": dict(configs)})


def decode_configs(node: Node) -> Mapping[str, str]:
    configs: dict[str, str] = json.loads(node.data)["config"]
    return read_only(configs)


def decode_config_image(node: Node) -> ConfigImage:
    return ConfigImage(decode_configs(node), node.stat.version)


def encode_delete_request(topic_id: bytes) -> bytes:
    return _encode({"version": 1, "topic_id": format_topic_id(topic_id)})


def decode_delete_request(node: Node) -> DeleteRequest:
    topic_id = parse_topic_id(json.loads(node.data)["topic_id"]) if node.data else b""
    return DeleteRequest(topic_id, node.stat.created)


def encode_controller(node: NodeId, timestamp_ms: int) -> bytes:
    fields = {"version": 2, "brokerid": node, "timestamp": str(timestamp_ms)}
    return _encode(fields | {"kraftControllerEpoch": -1})


def decode_controller(node: Node) -> NodeId:
    return NodeId(json.loads(node.data).get("brokerid", NO_NODE))


def encode_cluster_id(cluster_id: str) -> bytes:
    return _encode({"version": "1", "id": cluster_id})


def decode_cluster_id(node: Node) -> str:
    cluster_id: str = json.loads(node.data)["id"]
    return cluster_id
