"""Transactions over three brokers: markers and verification between brokers, and failover."""

import pytest

from sawlog.core.errors import ErrorCode
from sawlog.core.ids import NodeId
from sawlog.groups.group_machine import GroupMachine
from sawlog.protocol.messages.end_txn_request import EndTxnRequest
from sawlog.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from sawlog.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from sawlog.simulation.simulated_broker import Call
from support.broker.requests import TOPIC
from support.broker.transactions import TransactionalProducer, codes
from support.broker.transactions_cluster import TransactionsCluster

E = ErrorCode
FAILOVER_MS = 15_000


def begun(cluster: TransactionsCluster, *, is_old: bool = False) -> TransactionalProducer:
    """A producer with a transaction on a partition of each broker."""
    producer = TransactionalProducer(cluster, is_old=is_old)
    assert producer.init() is E.NONE
    if is_old:
        assert producer.add([0, 1, 2]) == [E.NONE] * 3
    for index in range(3):
        assert producer.produce((index, b"a")) == [E.NONE]
    assert [cluster.last_stable(index) for index in range(3)] == [0, 0, 0]
    return producer


@pytest.mark.parametrize("is_old", [True, False])
@pytest.mark.parametrize("is_commit", [True, False])
def test_markers_reach_the_leaders_on_all_brokers(is_commit: bool, is_old: bool) -> None:
    cluster = TransactionsCluster()
    producer = begun(cluster, is_old=is_old)
    assert producer.end(is_commit=is_commit) is E.NONE
    cluster.schedule.run_for(2_000)
    assert [cluster.last_stable(index) for index in range(3)] == [2, 2, 2]
    ended = "CompleteCommit" if is_commit else "CompleteAbort"
    assert producer.describe().transaction_state == ended


def test_a_partition_that_was_not_added_is_refused_on_every_broker() -> None:
    cluster = TransactionsCluster()
    producer = TransactionalProducer(cluster, is_old=True)
    producer.init()
    for index in range(3):
        assert producer.produce((index, b"a")) == [E.TRANSACTION_ABORTABLE]


def test_another_coordinator_completes_what_was_prepared() -> None:
    cluster = TransactionsCluster()
    producer = begun(cluster)
    before = cluster.coordinator
    call = cluster.send(EndTxnRequest("x", producer.producer_id, producer.epoch, True))
    cluster.run(lambda: call.is_done)  # the decision is committed, the markers are under way
    cluster.cluster.nodes[before].kill()
    cluster.schedule.run_for(FAILOVER_MS)
    cluster.run(cluster.is_led)
    assert cluster.coordinator != before
    cluster.schedule.run_for(2_000)
    assert producer.describe().transaction_state == "CompleteCommit"
    assert [cluster.last_stable(index) >= 2 for index in range(3)] == [True] * 3


def test_markers_wait_for_a_leader_that_is_down() -> None:
    cluster = TransactionsCluster()
    producer = begun(cluster)
    other = next(NodeId(number) for number in (1, 2, 3) if number != cluster.coordinator)
    cluster.cluster.nodes[other].kill()
    assert producer.end(is_commit=False) is E.NONE
    cluster.schedule.run_for(FAILOVER_MS)
    cluster.run(cluster.is_led)
    cluster.schedule.run_for(2_000)
    assert producer.describe().transaction_state == "CompleteAbort"
    assert [cluster.last_stable(index) for index in range(3)] == [2, 2, 2]


def test_requests_in_flight_stay_in_order_while_one_waits_for_another_broker() -> None:
    cluster = TransactionsCluster()
    producer = TransactionalProducer(cluster)
    assert producer.init() is E.NONE
    index = next(i for i in range(3) if cluster.state(TOPIC, i).leader != cluster.coordinator)
    log = cluster.broker(cluster.state(TOPIC, index).leader).replicas.by_partition[TOPIC, index].log
    calls = [producer.send((index, b"a")), producer.send((index, b"b"))]
    cluster.run(lambda: log.end_offset > 0)
    calls.append(producer.send((index, b"c")))
    cluster.run(lambda: all(call.is_done for call in calls))
    assert [codes(call.answered) for call in calls] == [[E.NONE]] * 3


def test_a_request_for_several_partitions_in_flight_stays_in_order() -> None:
    cluster = TransactionsCluster()
    producer = TransactionalProducer(cluster)
    assert producer.init() is E.NONE
    index = next(i for i in range(3) if cluster.state(TOPIC, i).leader != cluster.coordinator)
    log = cluster.broker(cluster.state(TOPIC, index).leader).replicas.by_partition[TOPIC, index].log
    calls = [
        producer.send((index, b"a")),
        producer.send((index, b"b"), ((index + 1) % 3, b"elsewhere")),
        producer.send((index, b"c")),
    ]
    cluster.run(lambda: log.end_offset > 0)
    assert log.end_offset == 3
    calls.append(producer.send((index, b"d")))
    cluster.run(lambda: all(call.is_done for call in calls))
    elsewhere = E.NOT_LEADER_OR_FOLLOWER
    expected = [[E.NONE], [E.NONE, elsewhere], [E.NONE], [E.NONE]]
    assert [codes(call.answered) for call in calls] == expected


def test_offsets_in_flight_stay_in_order_while_one_waits_for_another_broker() -> None:
    cluster = TransactionsCluster()
    producer = TransactionalProducer(cluster)
    assert producer.init() is E.NONE
    node, group, machine = group_elsewhere(cluster)

    def commit(offset: int) -> Call:
        partitions = [TxnOffsetCommitRequestPartition(0, offset, -1, "")]
        topics = [TxnOffsetCommitRequestTopic(TOPIC, partitions=partitions)]
        identity = ("x", group, producer.producer_id, producer.epoch)
        return cluster.send_to(node, TxnOffsetCommitRequest(*identity, topics=topics), 5)

    calls = [commit(1), commit(2)]
    cluster.run(lambda: machine.offsets.pending)
    calls.append(commit(3))
    cluster.run(lambda: all(call.is_done for call in calls))
    assert producer.end() is E.NONE
    cluster.run(lambda: not machine.offsets.pending)
    committed = machine.offsets.get(group, TOPIC, 0)
    assert committed is not None
    assert committed.offset == 3


def group_elsewhere(cluster: TransactionsCluster) -> tuple[NodeId, str, GroupMachine]:
    """A group of another coordinator than the transactions'; its node and machine."""
    cluster.ask_node(NodeId(1), FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
    cluster.schedule.run_for(5_000)
    for number in range(99):
        group = f"group {number}"
        node = cluster.broker(NodeId(1)).components.groups.coordinator_of(group)
        if node != cluster.coordinator:
            return node, group, cluster.broker(node).components.groups.runtime_of(group).machine
    raise AssertionError("all groups have the same coordinator")
