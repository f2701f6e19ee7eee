"""Fail-over on several brokers: lost brokers, lost directories, controllers and sessions."""

import json

import pytest

from sawlog.cluster import znodes
from sawlog.cluster.metadata_image import NO_NODE
from sawlog.core.ids import NodeId, TopicName
from sawlog.core.store import Create, Delete, NoNode, SetData
from support.cluster.cluster import Cluster

T = TopicName("t")


def test_a_lost_follower_leaves_the_set_without_a_new_leader_epoch() -> None:
    cluster = Cluster()
    cluster.create("t", [0, 1, 2])
    cluster.crash(2).expire()
    assert cluster.settle()
    partition = cluster.partition(0, "t")
    assert (partition.leader, partition.leader_epoch, partition.isr) == (0, 0, (0, 1))


def test_all_brokers_stop_at_once_and_the_partition_comes_back() -> None:
    """Guarantee 16: each member still has its directory, and the new epochs are written."""
    cluster = Cluster()
    cluster.create("t", [0, 1, 2])
    for session in [cluster.crash(node) for node in range(3)]:
        session.expire()
    for node in range(3):
        cluster.boot(node)
    assert cluster.settle()
    cluster.schedule.run_for(2_000)
    state = cluster.stored("t")
    assert state.leader != NO_NODE
    assert state.member(state.leader) == cluster.entry(state.leader)


def test_a_broker_with_an_empty_directory_does_not_lead() -> None:
    """Guarantee 16: its replicas must catch up, and a partition without another is offline."""
    cluster = Cluster()
    cluster.create("t", [2, 1])
    cluster.create("sole", [2])
    cluster.crash(2).expire()
    cluster.boot(2, directory="new")
    cluster.schedule.run_for(3_000)
    assert (cluster.stored("t").leader, cluster.stored("t").isr) == (1, (1,))
    offline = cluster.stored("sole")
    assert (offline.leader, offline.isr) == (NO_NODE, (2,))
    assert offline.members[0].directory_id == "directory2"


def test_the_old_directory_makes_an_offline_partition_available_again() -> None:
    cluster = Cluster()
    cluster.create("t", [2])
    cluster.crash(2).expire()
    cluster.boot(2, directory="new")
    cluster.schedule.run_for(3_000)
    assert cluster.stored("t").leader == NO_NODE
    cluster.crash(2).expire()
    cluster.boot(2)
    assert cluster.settle()
    assert cluster.stored("t").leader == 2


def test_with_policy_os_the_last_of_the_crashed_members_leads() -> None:
    """Guarantee 16: they leave the set one by one as they register, never the last."""
    cluster = Cluster(flush_policy="os")
    cluster.create("t", [0, 1, 2])
    for session in [cluster.crash(node) for node in (0, 1, 2)]:
        session.expire()
    cluster.boot(0, clean_stop=False)
    cluster.schedule.run_for(3_000)
    assert (cluster.stored("t").leader, cluster.stored("t").isr) == (NO_NODE, (1, 2))
    cluster.boot(1, clean_stop=False)
    cluster.schedule.run_for(3_000)
    assert (cluster.stored("t").leader, cluster.stored("t").isr) == (NO_NODE, (2,))
    cluster.boot(2, clean_stop=False)
    assert cluster.settle()
    assert (cluster.stored("t").leader, cluster.stored("t").isr) == (2, (2,))


def test_a_lost_session_of_a_process_is_not_another_unclean_stop() -> None:
    cluster = Cluster(flush_policy="os", brokers=1)
    cluster.crash(0).expire()
    cluster.boot(0, clean_stop=False)
    assert cluster.settle()
    cluster.create("t", [0])
    first = cluster.members[0].image.brokers[NodeId(0)]
    cluster.store(0).expire()
    assert cluster.schedule.run(lambda: cluster.settled() and cluster.stored("t").leader_epoch == 1)
    again = cluster.members[0].image.brokers[NodeId(0)]
    assert again.epoch > first.epoch
    assert again.process_epoch == first.epoch


# Controllers


def test_a_deposed_controllers_write_never_lands() -> None:
    """KAFKA-6082, guarantee 13: its writes were under way when another controller was elected."""
    cluster = Cluster()
    cluster.create("t", [0, 1, 2], [1, 2, 0], [2, 0, 1])
    deposed = cluster.members[cluster.controller]
    written = cluster.service.write
    attempts: list[int] = []
    landed: list[int] = []

    def watching(operations, session):  # type: ignore[no-untyped-def]
        epochs = [
            json.loads(op.data)["controller_epoch"]
            for op in operations
            if isinstance(op, SetData) and op.path.endswith("/state")
        ]
        attempts.extend(epochs)
        results = written(operations, session)
        landed.extend(epochs)
        return results

    cluster.service.write = watching  # type: ignore[method-assign]
    lost = cluster.crash(cluster.other)
    written([SetData("/controller_epoch", b"9")], 0)
    lost.expire()
    assert cluster.schedule.run(lambda: bool(landed))
    assert attempts[0] == 1, "the controller did not know it yet"
    assert set(landed) == {9}
    assert cluster.settle()
    assert deposed.member.is_controller, "its node is still there: it goes on in the new epoch"


def test_the_next_controller_finishes_what_the_last_one_began() -> None:
    """The controller and a leader die together."""
    cluster = Cluster(brokers=4)
    controller = cluster.controller
    other = cluster.other
    rest = [node for node in range(4) if node not in (controller, other)]
    cluster.create("t", [other, *rest], [controller, *rest])
    for session in [cluster.crash(node) for node in (controller, other)]:
        session.expire()
    assert cluster.settle()
    for index in range(2):
        partition = cluster.partition(rest[0], "t", index)
        assert partition.leader == rest[0]
        assert set(partition.isr) == set(rest)


@pytest.mark.parametrize("seed", range(6))
def test_an_isr_write_and_an_election_at_the_same_time_both_end(seed: int) -> None:
    """KAFKA-12686: neither overwrites the other, and the controller tries again."""
    cluster = Cluster(seed, brokers=4)
    leader, lost = cluster.controller, cluster.other
    others = [node for node in range(4) if node not in (leader, lost)]
    cluster.create("t", [leader, lost, *others])
    results = cluster.write_isr(leader, "t", tuple(cluster.entry(n) for n in (leader, *others)))
    cluster.crash(lost).expire()
    assert cluster.schedule.run(lambda: bool(results) and cluster.settled())
    cluster.schedule.run_for(3_000)
    assert set(cluster.stored("t").isr) == {leader, *others}
    assert cluster.stored("t").leader_epoch == 0


def test_one_changed_partition_does_not_hold_up_the_others() -> None:
    """A multi with many elections fails as a whole; the steps without a conflict are repeated."""
    cluster = Cluster(brokers=3)
    lost = cluster.other
    others = [node for node in range(3) if node != lost]
    cluster.create("t", *[[lost, *others]] * 20)
    written = cluster.service.write
    elections: list[int] = []

    def racing(operations, session):  # type: ignore[no-untyped-def]
        """Change one partition just before the first multi of elections arrives."""
        states = [op for op in operations if isinstance(op, SetData) and "/state" in op.path]
        if len(states) == 20 and not elections:
            elections.append(1)
            written([SetData(states[7].path, cluster.service.tree.get(states[7].path).data)], 0)
        return written(operations, session)

    cluster.service.write = racing  # type: ignore[method-assign]
    cluster.crash(lost).expire()
    assert cluster.settle()
    assert elections
    assert all(p.leader_epoch == 1 for p in cluster.members[others[0]].image.topics[T].partitions)


def test_partitions_without_a_leader_come_before_those_that_lose_a_follower() -> None:
    """Brokers hear of changes in the order of the writes, and clients wait for leaders."""
    cluster = Cluster(brokers=3)
    lost = cluster.other
    left, right = [node for node in range(3) if node != lost]
    cluster.create("t", [left, lost, right], [lost, left, right], [right, left, lost])
    written = cluster.service.write
    changed: list[str] = []

    def noting(operations, session):  # type: ignore[no-untyped-def]
        changed.extend(operation.path for operation in operations)
        return written(operations, session)

    cluster.service.write = noting  # type: ignore[method-assign]
    cluster.crash(lost).expire()
    assert cluster.settle()
    states = [path for path in changed if path.endswith("/state")]
    assert states == [znodes.state_path(T, index) for index in (1, 0, 2)]


# Sessions


def test_a_broker_with_an_expired_session_learns_what_it_missed() -> None:
    """KAFKA-928: topics were created and deleted while it had no session."""
    cluster = Cluster()
    cluster.create("gone", [0, 1, 2])
    other = cluster.other
    controller = cluster.members[cluster.controller]
    cluster.store(other).expire()
    assert controller.create("t", 3) is None
    assert controller.delete("gone") is None
    assert cluster.settle()
    image = cluster.members[other].image
    assert set(image.topics) == {"t"}


def test_an_own_old_registration_is_replaced() -> None:
    """KAFKA-1029, KAFKA-7165: the node of the earlier process is still there."""
    cluster = Cluster()
    other = cluster.other
    session = cluster.crash(other)
    again = cluster.boot(other)
    assert cluster.schedule.run(lambda: bool(again.images))
    assert not again.refused
    session.expire()
    assert cluster.settle()
    assert again.member.broker_epoch == again.image.brokers[NodeId(other)].epoch


def test_a_quick_restart_within_the_session_is_noticed_by_its_epoch() -> None:
    """Guarantee 14: no broker sees the registration missing in between."""
    cluster = Cluster()
    other = cluster.other
    replicas = [other, *(n for n in range(3) if n != other)]
    cluster.create("t", replicas)
    before = cluster.stored("t")
    session = cluster.crash(other)
    cluster.boot(other)
    cluster.schedule.run_for(50)
    session.expire()
    assert cluster.settle()
    cluster.schedule.run_for(2_000)
    after = cluster.stored("t")
    assert after.leader_epoch > before.leader_epoch
    assert after.members != before.members


# Deletion


def test_a_topic_with_many_partitions_is_deleted_in_several_multis() -> None:
    cluster = Cluster(brokers=2)
    name = "x" * 249
    cluster.create(name, *[[0]] * 800)
    multis: list[int] = []
    written = cluster.service.write

    def counting(operations, session):  # type: ignore[no-untyped-def]
        multis.append(len(operations))
        return written(operations, session)

    cluster.service.write = counting  # type: ignore[method-assign]
    assert cluster.members[cluster.other].delete(name) is None
    assert len([count for count in multis if count > 100]) > 1
    assert max(multis) <= 1_501
    with pytest.raises(NoNode):
        cluster.service.tree.get(znodes.topic_path(name))
    assert cluster.settle()
    cluster.create(name, [0])
    assert len(cluster.members[1].image.topics[TopicName(name)].partitions) == 1


def test_the_next_controller_continues_a_deletion() -> None:
    """The controller died after the first of several multis."""
    cluster = Cluster(brokers=3)
    cluster.create("t", *[[0]] * 3)
    topic = cluster.members[0].image.topics[T]
    data = znodes.encode_delete_request(topic.id)
    session = cluster.crash(cluster.controller)
    cluster.service.write(
        [
            Create(znodes.delete_request_path("t"), data),
            Delete(znodes.state_path("t", 2)),
            Delete(znodes.partition_path("t", 2)),
        ],
        0,
    )
    session.expire()
    assert cluster.settle()
    assert cluster.service.tree.children("/brokers/topics") == []
    assert cluster.service.tree.children("/admin/delete_topics") == []


def test_a_partition_state_has_kafkas_fields_for_old_tools() -> None:
    cluster = Cluster(brokers=1)
    cluster.create("t", [0])
    fields = json.loads(cluster.service.tree.get(znodes.state_path("t", 0)).data)
    assert {"version", "leader", "leader_epoch", "isr", "controller_epoch"} <= set(fields)


def test_the_loss_of_the_session_ends_leading_at_once() -> None:
    """It comes back by itself, with a new broker epoch and a new leader epoch."""
    cluster = Cluster()
    cluster.create("t", [0])
    cluster.store(0).expire()
    assert cluster.partition(0, "t").leader == NO_NODE
    assert cluster.members[0].member.broker_epoch == -1
    assert cluster.settle()
    partition = cluster.partition(0, "t")
    assert (partition.leader, partition.members) == (0, (cluster.entry(0),))
    assert partition.leader_epoch > 0
