"""Registrations that the cluster refuses, and what they say about a broker."""

from sawlog.core.ids import NodeId
from sawlog.core.store import NoNode
from support.cluster.cluster import Cluster


def test_a_broker_with_another_flush_policy_is_refused() -> None:
    """Guarantee 7."""
    cluster = Cluster(brokers=2)
    wrong = cluster.boot(2, flush_policy="os")
    cluster.schedule.run_for(5_000)
    (error,) = wrong.refused
    assert str(error) == (
        "this broker has flush.policy=os, but broker 1 of the cluster has flush.policy=commit: all"
        " brokers need the same"
    )
    assert not wrong.images
    assert set(cluster.members[0].image.brokers) == {0, 1}


def test_a_refused_broker_joins_when_the_reason_is_gone() -> None:
    cluster = Cluster(brokers=1)
    wrong = cluster.boot(1, flush_policy="os")
    cluster.schedule.run_for(2_000)
    assert len(wrong.refused) == 1
    cluster.crash(0).expire()
    assert cluster.settle()
    assert set(wrong.image.brokers) == {1}


def test_of_two_brokers_that_register_at_once_the_later_one_leaves() -> None:
    """Guarantee 7: neither saw the other before it registered."""
    for seed in range(5):
        cluster = Cluster(seed, brokers=1)
        first = cluster.boot(1)
        cluster.schedule.run(lambda first=first: first.member.broker_epoch >= 0)
        second = cluster.boot(2, flush_policy="os")
        cluster.schedule.run_for(5_000)
        assert second.refused
        assert set(cluster.members[0].image.brokers) == {0, 1}


def test_a_node_id_with_another_directory_is_refused() -> None:
    cluster = Cluster(brokers=2)
    taken = cluster.boot(1, directory="another")
    cluster.schedule.run_for(3_000)
    (error,) = taken.refused
    assert "broker 1 is registered already, at host1:9093" in str(error)
    assert "choose another --node-id" in str(error)


def test_a_broker_that_stops_deletes_its_registration() -> None:
    cluster = Cluster(brokers=2)
    member = cluster.members.pop(1)
    member.stop()
    try:
        cluster.service.tree.get("/brokers/ids/1")
    except NoNode:
        return
    raise AssertionError("the registration is still there")


def test_the_broker_epoch_is_that_of_the_present_session() -> None:
    cluster = Cluster(brokers=2)
    member = cluster.members[1].member
    before = member.broker_epoch
    assert before == cluster.members[0].image.brokers[NodeId(1)].epoch
    cluster.store(1).expire()
    assert member.broker_epoch == -1
    assert cluster.schedule.run(lambda: member.broker_epoch > before)
