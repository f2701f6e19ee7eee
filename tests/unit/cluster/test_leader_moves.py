"""Leaders that move on purpose: ordered elections, preferred leaders and controlled shutdown."""

import pytest

from sawlog.cluster import znodes
from sawlog.cluster.controlled_shutdown import LINGER_MS, hand_over
from sawlog.cluster.isr_changes import IsrWriteError
from sawlog.cluster.metadata_image import NO_NODE
from sawlog.cluster.ordered_elections import ElectionType
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import NodeId
from support.cluster.cluster import Cluster
from support.cluster.member import TIMEOUT_MS
from support.logged import fields_of


def elected(cluster: Cluster, node: int, kind: ElectionType, index: int = 0) -> ErrorCode | None:
    results: list[KafkaError | None] = []
    cluster.members[node].elections.elect(kind, "t", index, TIMEOUT_MS, results.append)
    assert cluster.schedule.run(lambda: bool(results))
    return results[0] and results[0].code


def leader_came_back() -> Cluster:
    """Broker 1 is in sync again after a restart, and broker 0 leads in its place."""
    cluster = Cluster(brokers=3)
    away = cluster.other
    others = [node for node in range(3) if node != away]
    cluster.create("t", [away, *others])
    cluster.crash(away).expire()
    assert cluster.settle()
    cluster.boot(away)
    assert cluster.settle()
    leader = cluster.partition(others[0], "t").leader
    assert leader == others[0]
    assert cluster.isr_written(leader, "t", *others, away) == 2
    assert cluster.settle()
    return cluster


def test_the_preferred_leader_is_elected_by_order() -> None:
    cluster = leader_came_back()
    before = cluster.partition(0, "t")
    assert elected(cluster, 2, ElectionType.PREFERRED) is None
    after = cluster.partition(2, "t")
    assert (after.leader, after.leader_epoch) == (before.replicas[0], before.leader_epoch + 1)
    assert after.isr == before.isr
    assert elected(cluster, 0, ElectionType.PREFERRED) is ErrorCode.ELECTION_NOT_NEEDED


def test_an_unknown_partition_is_not_elected() -> None:
    cluster = leader_came_back()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert elected(cluster, 0, ElectionType.PREFERRED, index=4) is unknown


def test_a_preferred_leader_that_is_not_in_sync_is_not_elected() -> None:
    cluster = Cluster(brokers=3)
    away = cluster.other
    cluster.create("t", [away, *(n for n in range(3) if n != away)])
    cluster.crash(away).expire()
    assert cluster.settle()
    left = next(iter(cluster.members))
    not_available = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert elected(cluster, left, ElectionType.PREFERRED) is not_available


def test_an_unclean_election_is_ordered_for_an_offline_partition(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = Cluster(brokers=3)
    lost = cluster.other
    first, second = (node for node in range(3) if node != lost)
    cluster.create("t", [lost, first])
    assert cluster.isr_written(lost, "t", lost) == 1
    assert elected(cluster, first, ElectionType.UNCLEAN) is ErrorCode.ELECTION_NOT_NEEDED
    cluster.crash(lost).expire()
    cluster.schedule.run_for(2_000)
    assert cluster.partition(second, "t").leader == NO_NODE
    assert elected(cluster, second, ElectionType.UNCLEAN) is None
    partition = cluster.partition(second, "t")
    assert (partition.leader, partition.isr) == (first, (first,))
    warned = fields_of(caplog, "unclean leader election: acknowledged records may be lost")
    assert (warned["partition"], warned["leader"]) == ("t-0", first)
    assert warned["old_isr"] == [lost]


def test_the_controller_moves_leaders_back_by_itself() -> None:
    cluster = leader_came_back()
    preferred = cluster.partition(0, "t").replicas[0]
    assert cluster.partition(0, "t").leader != preferred
    cluster.schedule.run_for(301_000)
    assert cluster.partition(0, "t").leader == preferred


def test_leaders_do_not_move_back_if_the_setting_forbids_it() -> None:
    cluster = Cluster(brokers=2, auto_leader_rebalance_enable="false")
    cluster.create("t", [0, 1])
    elected_other = cluster.stored("t")
    assert elected_other.leader == 0
    cluster.members[0].reassignments.alter("t", {0: [1, 0]}, TIMEOUT_MS, lambda _: None)
    cluster.schedule.run_for(700_000)
    assert cluster.partition(0, "t").replicas == (1, 0)
    assert cluster.partition(0, "t").leader == 0


# Controlled shutdown


def handed_over(cluster: Cluster, node: int, timeout_ms: int = TIMEOUT_MS) -> list[bool]:
    done: list[bool] = []
    member = cluster.members[node].member
    hand_over(member, cluster.schedule, timeout_ms, lambda: done.append(True))
    return done


def test_a_stopping_broker_waits_until_its_leaders_have_moved() -> None:
    cluster = Cluster(brokers=3)
    cluster.create("t", [0, 1, 2], [1, 0, 2], [2, 0, 1])
    done = handed_over(cluster, 0)
    assert done == []
    assert cluster.schedule.run(lambda: bool(done))
    for index in range(3):
        partition = cluster.partition(0, "t", index)
        assert partition.leader not in (0, NO_NODE)
        assert 0 not in partition.isr
    assert cluster.partition(0, "t", 2).leader_epoch == 0, "only its own leaders move"


def test_the_controller_itself_hands_over() -> None:
    cluster = Cluster(brokers=2)
    node = cluster.controller
    cluster.create("t", [node, cluster.other])
    done = handed_over(cluster, node)
    assert cluster.schedule.run(lambda: bool(done))
    assert cluster.partition(node, "t").leader == cluster.other


def change_numbers(cluster: Cluster) -> set[int]:
    """When the states of the three partitions were written: one number if by one multi."""
    tree = cluster.service.tree
    return {tree.get(znodes.state_path("t", index)).stat.modified for index in range(3)}


@pytest.mark.parametrize("is_controller", [True, False])
def test_a_controlled_shutdown_takes_two_writes(is_controller: bool) -> None:
    """The broker marks its registration, and one multi moves all leaders and in-sync sets."""
    cluster = Cluster(brokers=3)
    node = cluster.controller if is_controller else cluster.other
    cluster.create("t", [0, 1, 2], [1, 2, 0], [2, 0, 1])
    done = handed_over(cluster, node)
    assert cluster.schedule.run(lambda: bool(done))
    marked = cluster.service.tree.get(znodes.broker_path(NodeId(node))).stat.modified
    assert change_numbers(cluster) == {marked + 1}


def test_a_broker_serves_for_a_while_after_its_leaders_have_moved() -> None:
    """Clients see the new leaders before they see that the old one is gone."""
    cluster = Cluster(brokers=2)
    node, other = cluster.other, cluster.controller
    cluster.create("t", [node, other])
    done = handed_over(cluster, node)
    assert cluster.schedule.run(lambda: cluster.partition(node, "t").leader == other)
    cluster.schedule.run_for(LINGER_MS - 1)
    assert done == []
    assert node in cluster.members[other].image.brokers
    cluster.schedule.run_for(1)
    assert done == [True]


def test_a_broker_without_leaders_does_not_wait_for_clients() -> None:
    cluster = Cluster(brokers=2)
    node, other = cluster.other, cluster.controller
    cluster.create("t", [other, node])
    done = handed_over(cluster, node)
    assert cluster.schedule.run(lambda: node not in cluster.partition(node, "t").isr)
    assert done == [True]


def test_the_successor_of_a_stopped_controller_has_no_leader_to_elect() -> None:
    cluster = Cluster(brokers=3)
    node = cluster.controller
    cluster.create("t", [0, 1, 2], [1, 2, 0], [2, 0, 1])
    done = handed_over(cluster, node)
    assert cluster.schedule.run(lambda: bool(done))
    moved = change_numbers(cluster)
    stopped: list[bool] = []
    cluster.members.pop(node).member.stop(lambda: stopped.append(True))
    assert cluster.schedule.run(lambda: bool(stopped))
    assert cluster.settle()
    assert cluster.controller != node
    assert change_numbers(cluster) == moved
    assert node not in cluster.partition(cluster.controller, "t").isr


def test_partitions_without_another_in_sync_replica_stay() -> None:
    cluster = Cluster(brokers=2)
    cluster.create("t", [0])
    assert handed_over(cluster, 0) == [True], "there is nothing to wait for"
    assert cluster.partition(1, "t").leader == 0


def test_a_broker_that_shuts_down_does_not_join_in_sync_sets() -> None:
    cluster = Cluster(brokers=2)
    cluster.create("t", [0, 1])
    done = handed_over(cluster, 1)
    assert cluster.schedule.run(lambda: bool(done))
    assert cluster.settle()
    assert cluster.partition(0, "t").isr == (0,)
    assert cluster.isr_written(0, "t", 0, 1) is IsrWriteError.STALE


def test_a_shutdown_does_not_wait_for_ever() -> None:
    """The controller is gone, and its session has not expired yet."""
    cluster = Cluster(brokers=2)
    other = cluster.other
    cluster.create("t", [other, cluster.controller])
    cluster.crash(cluster.controller)
    done = handed_over(cluster, other, timeout_ms=500)
    cluster.schedule.run_for(499)
    assert done == []
    cluster.schedule.run_for(100)
    assert done == [True]
