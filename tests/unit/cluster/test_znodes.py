"""The content of the store's nodes: Kafka's fields, Sawlog's own, and nodes without the latter."""

import json

from sawlog.cluster import znodes
from sawlog.cluster.metadata_image import BrokerImage, DroppedMember, InSyncMember
from sawlog.cluster.znodes import Assignment, PartitionState, Reassignment
from sawlog.core.ids import LeaderEpoch, NodeId, TopicId
from sawlog.core.store import Node, NodeStat

TOPIC_ID = TopicId(bytes(range(16)))
STAT = NodeStat(version=3, children=0, owner=0, created=17, modified=19)


def node(data: bytes) -> Node:
    return Node(data, STAT)


def members(*nodes: int) -> tuple[InSyncMember, ...]:
    return tuple(InSyncMember(NodeId(n), 10 + n, f"directory-{n}") for n in nodes)


def test_a_state_keeps_broker_epoch_and_directory_of_each_member() -> None:
    state = PartitionState(NodeId(2), LeaderEpoch(4), members(2, 1), 7, 3, 17)
    data = znodes.encode_state(state)
    assert znodes.decode_state(node(data)) == state
    fields = json.loads(data)
    kafka = {"version": 1, "leader": 2, "leader_epoch": 4, "isr": [2, 1], "controller_epoch": 7}
    assert {key: fields[key] for key in kafka} == kafka


def test_a_state_keeps_its_last_unclean_election_and_the_members_that_the_last_one_dropped() -> (
    None
):
    left_out = tuple(
        DroppedMember(each, epoch) for each, epoch in zip(members(1, 3), (2, 4), strict=True)
    )
    state = PartitionState(
        NodeId(2), LeaderEpoch(4), members(2), 7, 3, 17, unclean_epoch=3, dropped=left_out
    )
    assert znodes.decode_state(node(znodes.encode_state(state))) == state


def test_a_state_without_members_has_the_leaders_broker_epoch() -> None:
    data = (
        b'{"version":1,"leader":1,"leader_epoch":0,"isr":[1,2],"controller_epoch":1,'
        b'"broker_epoch":9}'
    )
    found = znodes.decode_state(node(data))
    assert found.isr == (1, 2)
    assert found.members == (InSyncMember(NodeId(1), 9, ""), InSyncMember(NodeId(2), 0, ""))


def test_the_isr_of_a_state_decides_who_is_a_member() -> None:
    """A tool that knows only Kafka's fields may rewrite the node."""
    state = PartitionState(NodeId(1), LeaderEpoch(0), members(1, 2), 1)
    fields = json.loads(znodes.encode_state(state)) | {"isr": [1, 3]}
    found = znodes.decode_state(node(json.dumps(fields).encode()))
    assert found.members == (*members(1), InSyncMember(NodeId(3), 0, ""))


def test_an_assignment_keeps_its_reassignments() -> None:
    replicas = ((NodeId(1),), (NodeId(1), NodeId(2), NodeId(3)))
    change = {1: Reassignment((NodeId(3),), (NodeId(1),))}
    data = znodes.encode_assignment(TOPIC_ID, replicas, change)
    assert znodes.decode_assignment(node(data)) == Assignment(TOPIC_ID, replicas, 3, change)
    fields = json.loads(data)
    assert fields["adding_replicas"] == {"1": [3]}
    assert fields["removing_replicas"] == {"1": [1]}


def test_a_registration_keeps_directory_policy_and_shutdown() -> None:
    broker = BrokerImage(NodeId(1), "h", 9092, "r", 17, "dir", "os", False, 5, True)
    assert znodes.decode_broker(NodeId(1), node(znodes.encode_broker(broker, 1))) == broker


def test_the_first_registration_of_a_process_is_its_process_epoch() -> None:
    broker = BrokerImage(NodeId(1), "h", 9092, None, 0, "dir")
    found = znodes.decode_broker(NodeId(1), node(znodes.encode_broker(broker, 1)))
    assert (found.epoch, found.process_epoch) == (17, 17)


def test_a_registration_with_kafkas_fields_only_is_read() -> None:
    data = b'{"version":5,"host":"h","port":9092,"endpoints":[],"timestamp":"1"}'
    found = znodes.decode_broker(NodeId(4), node(data))
    assert found == BrokerImage(NodeId(4), "h", 9092, None, 17, "", "commit", True, 17, False)
