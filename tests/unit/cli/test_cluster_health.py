"""The health of a cluster: which partitions and brokers need attention."""

import pytest

from sawlog.cli.cluster_health import ClusterHealth, assess
from sawlog.client.admin.reassignments import OngoingReassignment
from sawlog.client.net.addresses import Address
from sawlog.client.net.leader_requests import partition_of
from sawlog.client.net.metadata import Node, Partition, Topic
from sawlog.core.ids import NO_TOPIC_ID, LeaderEpoch, NodeId, PartitionIndex, TopicName


def health(
    leader: int,
    replicas: tuple[int, ...],
    in_sync: tuple[int, ...],
    *,
    min_in_sync: int = 1,
    adding: tuple[int, ...] = (),
) -> ClusterHealth:
    """Brokers 1 to 3 are registered, and there is one partition."""
    nodes = [Node(NodeId(number), Address("127.0.0.1", number), None) for number in (1, 2, 3)]
    partition = Partition(PartitionIndex(0), NodeId(leader), LeaderEpoch(1), replicas, in_sync, ())
    topic = Topic(TopicName("logs"), NO_TOPIC_ID, False, {PartitionIndex(0): partition})
    ongoing = {partition_of("logs", 0): OngoingReassignment(replicas, adding, ())} if adding else {}
    return assess(nodes, 1, [topic], {"logs": min_in_sync}, ongoing)


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        (health(1, (1, 2), (1, 2)), ""),
        (health(1, (1, 2), (1,)), "under-replicated"),
        (health(1, (1, 2, 3), (1, 2), min_in_sync=3), "under min ISR"),
        (health(-1, (1, 2), (2,), min_in_sync=2), "offline"),
        (health(1, (1, 2, 3), (1, 2), adding=(3,)), ""),
        (health(1, (1, 2, 3), (1, 3), adding=(3,)), "under-replicated"),
        (health(1, (1, 2, 3), (1,), adding=(3,)), "under-replicated"),
    ],
)
def test_a_partition_has_its_most_severe_problem(state: ClusterHealth, problem: str) -> None:
    assert [each.problem for each in state.partitions] == [problem]
    assert state.is_healthy == (not problem)


def test_a_broker_with_replicas_that_is_not_registered_is_missing() -> None:
    state = health(1, (1, 9), (1, 9))
    assert state.missing_brokers == [9]
    assert not state.is_healthy
    assert [(each.id, each.leaders, each.replicas) for each in state.brokers] == [
        (1, 1, 1),
        (2, 0, 0),
        (3, 0, 0),
        (9, 0, 1),
    ]


def test_a_broker_with_an_offline_log_directory_is_not_healthy() -> None:
    nodes = [Node(NodeId(number), Address("127.0.0.1", number), None) for number in (1, 2, 3)]
    assert assess(nodes, 1, [], {}, {}).is_healthy
    state = assess(nodes, 1, [], {}, {}, {2})
    assert not state.is_healthy
    assert [each.state for each in state.brokers] == ["controller", "log directory offline", "up"]


def test_replicas_out_of_sync_are_counted_at_their_broker() -> None:
    state = health(1, (1, 2, 3), (1, 3))
    assert [each.out_of_sync for each in state.brokers] == [0, 1, 0]
    assert [each.is_controller for each in state.brokers] == [True, False, False]


def test_the_most_severe_problem_comes_first_and_internal_topics_last_within_it() -> None:
    def topic(name: str, leader: int, in_sync: tuple[int, ...], *, internal: bool = False) -> Topic:
        replicas = (1, 2, 3)
        zero = PartitionIndex(0)
        partition = Partition(zero, NodeId(leader), LeaderEpoch(1), replicas, in_sync, ())
        return Topic(TopicName(name), NO_TOPIC_ID, internal, {zero: partition})

    topics = [
        topic("__offline", -1, (2,), internal=True),
        topic("__under_replicated", 1, (1, 2), internal=True),
        topic("in_sync", 1, (1, 2, 3)),
        topic("under_min_isr", 1, (1,)),
        topic("under_replicated", 1, (1, 2)),
        topic("z_offline", -1, (2,)),
    ]
    state = assess([], 1, topics, {each.name: 2 for each in topics}, {})
    assert [each.name.topic for each in state.problems] == [
        "z_offline",
        "__offline",
        "under_min_isr",
        "under_replicated",
        "__under_replicated",
    ]
