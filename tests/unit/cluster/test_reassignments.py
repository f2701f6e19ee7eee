"""Reassignments of replicas (KIP-455), from the plan to the completion by the controller."""

import pytest

from sawlog.cluster import reassignments
from sawlog.cluster.reassignments import Errors, Targets, changed
from sawlog.cluster.znodes import Assignment, Reassignment
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import NodeId, TopicId
from support.cluster.cluster import Cluster
from support.cluster.member import TIMEOUT_MS

BEGUN = Reassignment((NodeId(4),), (NodeId(2), NodeId(3)))


def assignment(*nodes: int, now: Reassignment | None = None) -> Assignment:
    replicas = (tuple(NodeId(node) for node in nodes),)
    return Assignment(TopicId(bytes(16)), replicas, 5, {} if now is None else {0: now})


def altered(
    cluster: Cluster, node: int, targets: Targets, *, may_change_factor: bool = True
) -> dict[int, ErrorCode | None]:
    results: list[Errors] = []
    cluster.members[node].reassignments.alter(
        "t", targets, TIMEOUT_MS, results.append, may_change_factor=may_change_factor
    )
    assert cluster.schedule.run(lambda: bool(results))
    return {index: error and error.code for index, error in results[0].items()}


# Plans


def test_a_plan_keeps_removed_replicas_until_the_end() -> None:
    assert changed(assignment(1, 2, 3), 0, [1, 4]) == assignment(1, 4, 2, 3, now=BEGUN)


def test_a_change_of_the_order_needs_no_reassignment() -> None:
    assert changed(assignment(1, 2, 3), 0, [3, 2, 1]) == assignment(3, 2, 1)


def test_a_second_plan_begins_from_the_original_replicas() -> None:
    begun = assignment(1, 4, 2, 3, now=BEGUN)
    second = Reassignment((NodeId(5),), (NodeId(2), NodeId(3)))
    assert changed(begun, 0, [1, 5]) == assignment(1, 5, 2, 3, now=second)


def test_a_cancellation_restores_the_original_replicas() -> None:
    assert changed(assignment(1, 4, 2, 3, now=BEGUN), 0, None) == assignment(1, 2, 3)


def test_without_a_reassignment_there_is_nothing_to_cancel() -> None:
    with pytest.raises(KafkaError) as failed:
        changed(assignment(1, 2), 0, None)
    assert failed.value.code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


# On a cluster


def test_a_reassignment_ends_when_the_added_replica_is_in_sync() -> None:
    cluster = Cluster(brokers=4)
    cluster.create("t", [0, 1, 2])
    assert altered(cluster, 3, {0: [1, 3]}) == {0: None}
    assert cluster.settle()
    partition = cluster.partition(0, "t")
    assert partition.replicas == (1, 3, 0, 2)
    assert (partition.adding, partition.removing) == ((3,), (0, 2))
    assert (partition.leader, partition.leader_epoch, partition.isr) == (0, 1, (0, 1, 2))
    assert cluster.isr_written(0, "t", 0, 1, 2, 3) == 2
    assert cluster.settle()
    partition = cluster.partition(2, "t")
    assert (partition.replicas, partition.adding, partition.removing) == ((1, 3), (), ())
    assert (partition.leader, partition.leader_epoch) == (1, 2), "the leader was removed"
    assert set(partition.isr) == {1, 3}


def test_the_leader_stays_if_it_is_one_of_the_new_replicas() -> None:
    cluster = Cluster(brokers=3)
    cluster.create("t", [0, 1])
    assert altered(cluster, 0, {0: [2, 0]}) == {0: None}
    assert cluster.settle()
    assert cluster.isr_written(0, "t", 0, 1, 2) == 2
    assert cluster.settle()
    partition = cluster.partition(1, "t")
    assert (partition.replicas, partition.isr) == ((2, 0), (0, 2))
    assert (partition.leader, partition.leader_epoch) == (0, 1)


def test_only_an_added_replica_begins_a_new_leader_epoch() -> None:
    """Fetches of a log that the broker had of the partition before are of an earlier epoch."""
    cluster = Cluster(brokers=3)
    cluster.create("t", [0, 1])
    assert altered(cluster, 2, {0: [1, 0]}) == {0: None}
    assert cluster.settle()
    assert cluster.partition(0, "t").leader_epoch == 0
    assert altered(cluster, 2, {0: [1, 0, 2]}) == {0: None}
    assert altered(cluster, 1, {0: None}) == {0: None}
    assert cluster.settle()
    assert cluster.partition(0, "t").leader_epoch == 1
    assert altered(cluster, 0, {0: [1, 0, 2]}) == {0: None}
    assert cluster.settle()
    partition = cluster.partition(0, "t")
    assert (partition.leader, partition.leader_epoch, partition.adding) == (0, 2, (2,))


def test_a_plan_that_is_too_large_is_written_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reassignments, "MAX_BYTES", 1)
    cluster = Cluster(brokers=3)
    cluster.create("t", *([0, 1] for _ in range(5)))
    targets = {index: [0, 1, 2] for index in range(4)} | {4: [0, 9]}
    assert altered(cluster, 0, targets) == {
        **dict.fromkeys(range(4)),
        4: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    }
    assert cluster.settle()
    assert [cluster.partition(1, "t", index).adding for index in range(5)] == [(2,)] * 4 + [()]


def test_a_smaller_replication_factor_takes_effect_at_once() -> None:
    cluster = Cluster(brokers=3)
    cluster.create("t", [0, 1, 2], [1, 2, 0])
    assert altered(cluster, 0, {0: [0], 1: [0, 1]}) == {0: None, 1: None}
    assert cluster.settle()
    first, second = (cluster.partition(1, "t", index) for index in range(2))
    assert (first.replicas, first.isr, first.leader) == ((0,), (0,), 0)
    assert (second.replicas, set(second.isr), second.leader) == ((0, 1), {0, 1}, 1)


def test_a_cancelled_reassignment_leaves_the_original_replicas() -> None:
    cluster = Cluster(brokers=4)
    cluster.create("t", [0, 1])
    assert altered(cluster, 0, {0: [2, 3]}) == {0: None}
    assert cluster.settle()
    assert cluster.isr_written(0, "t", 0, 1, 2) == 2
    assert cluster.settle()
    assert altered(cluster, 1, {0: None}) == {0: None}
    assert cluster.settle()
    partition = cluster.partition(3, "t")
    assert (partition.replicas, partition.adding, partition.removing) == ((0, 1), (), ())
    assert (partition.isr, partition.leader) == ((0, 1), 0)


def test_a_cancellation_that_needs_an_unclean_election_is_refused() -> None:
    cluster = Cluster(brokers=3)
    cluster.create("t", [0, 1])
    assert altered(cluster, 0, {0: [2, 1]}) == {0: None}
    assert cluster.settle()
    cluster.isr_written(0, "t", 0, 2)
    assert cluster.settle()
    cluster.crash(0).expire()
    assert cluster.settle()
    assert cluster.partition(1, "t").isr == (2,)
    assert altered(cluster, 1, {0: None}) == {0: ErrorCode.INVALID_REPLICA_ASSIGNMENT}
    assert cluster.partition(1, "t").adding == (2,)


def test_bad_targets_change_nothing() -> None:
    cluster = Cluster(brokers=2)
    cluster.create("t", [0], [1])
    bad = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert altered(cluster, 0, {0: [7], 1: [], 5: [0]}) == {
        0: bad,
        1: bad,
        5: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    other = ErrorCode.INVALID_REPLICATION_FACTOR
    assert altered(cluster, 0, {0: [0, 1]}, may_change_factor=False) == {0: other}
    assert cluster.service.tree.get("/brokers/topics/t").stat.version == 0


def test_two_brokers_may_plan_at_the_same_time() -> None:
    cluster = Cluster(brokers=3)
    cluster.create("t", [0], [0])
    results: list[Errors] = []
    for node, index in ((1, 0), (2, 1)):
        reassignments = cluster.members[node].reassignments
        reassignments.alter("t", {index: [node]}, TIMEOUT_MS, results.append)
    assert cluster.schedule.run(lambda: len(results) == 2)
    assert all(error is None for errors in results for error in errors.values())
    assert cluster.settle()
    assert [cluster.partition(0, "t", index).adding for index in range(2)] == [(1,), (2,)]


def test_partitions_can_be_added_during_a_reassignment() -> None:
    cluster = Cluster(brokers=3)
    cluster.create("t", [0])
    assert altered(cluster, 0, {0: [1]}) == {0: None}
    assert cluster.settle()
    member = cluster.members[0]
    topic = member.image.topics["t"]  # type: ignore[index]
    replicas = member.topics.plan_partitions(topic, 2, [[2, 0]])
    error = member.settle(
        lambda done: member.topics.add_partitions(topic, replicas, TIMEOUT_MS, done)
    )
    assert error is None
    assert cluster.settle()
    assert cluster.partition(1, "t", 0).adding == (1,)
    assert cluster.partition(1, "t", 1).leader == 2
