"""Several brokers on a simulated store: elections, fencing, restarts, and churn from a seed."""

import gc
import json
from typing import TYPE_CHECKING

import pytest

from sawlog.cluster import znodes
from sawlog.cluster.metadata_image import ALL_BROKERS, NO_NODE, ConfigKind, ConfigResource
from sawlog.cluster.new_topic import NewTopic
from sawlog.cluster.store_view import TopicView
from sawlog.core.ids import NodeId, TopicName
from sawlog.core.store import Create, Delete, SessionState, SetData
from sawlog.simulation.schedule import SeededRandom
from sawlog.simulation.simulated_store import SESSION_TIMEOUT_MS
from support.cluster.cluster import Cluster
from support.cluster.member import MemberHarness, SingleBroker

if TYPE_CHECKING:
    from sawlog.simulation.simulated_store import SimulatedStore


def led_by(member: MemberHarness, node: int) -> int:
    """The number of partitions that this broker leads in the member's image."""
    topics = member.image.topics.values()
    return sum(partition.leader == node for topic in topics for partition in topic.partitions)


def test_all_brokers_see_the_same_cluster() -> None:
    cluster = Cluster()
    image = cluster.members[2].image
    assert sorted(image.brokers) == [0, 1, 2]
    assert image.controller_id == cluster.controller
    assert [image.brokers[NodeId(n)].rack for n in range(3)] == ["rack0", "rack1", "rack0"]


def test_any_broker_creates_topics_that_all_brokers_see() -> None:
    cluster = Cluster()
    other = next(n for n in cluster.members if n != cluster.controller)
    assert cluster.members[other].create("t", 6, replication_factor=2) is None
    assert cluster.settle()
    partitions = cluster.members[0].image.topics[TopicName("t")].partitions
    assert sorted(p.leader for p in partitions) == [0, 0, 1, 1, 2, 2]
    for partition in partitions:
        assert partition.isr == partition.replicas
        assert {node % 2 for node in partition.replicas} == {0, 1}, "a replica on each rack"


def test_deleted_topics_are_not_kept_in_memory() -> None:
    cluster = Cluster()
    sole = SingleBroker()
    for index in range(20):
        for member in (cluster.members[1], sole):
            assert member.create(f"deleted-{index}", 3) is None
            assert member.delete(f"deleted-{index}") is None
    cluster.schedule.run_for(1_000)
    sole.schedule.run_for(1_000)
    gc.collect()
    views = [found.name for found in gc.get_objects() if isinstance(found, TopicView)]
    assert [name for name in views if name.startswith("deleted-")] == []


def test_leaders_move_and_the_isr_shrinks_when_a_broker_leaves() -> None:
    cluster = Cluster()
    cluster.members[0].create("t", 6, replication_factor=3)
    gone = next(n for n in cluster.members if n != cluster.controller)
    cluster.crash(gone).expire()
    assert cluster.settle()
    for partition in cluster.members[cluster.controller].image.topics[TopicName("t")].partitions:
        assert partition.leader in cluster.members
        if partition.replicas[0] == gone:
            assert partition.leader_epoch == 1
            assert gone not in partition.isr
        else:
            assert partition.leader_epoch == 0


def test_a_partition_waits_for_its_last_in_sync_replica() -> None:
    cluster = Cluster(brokers=2)
    cluster.members[0].settle(
        lambda done: cluster.members[0].topics.create(
            cluster.members[0].topics.plan(_assigned("t", [1])), 10_000, done
        )
    )
    cluster.crash(1).expire()
    cluster.schedule.run_for(1_000)
    partition = cluster.members[0].image.topics[TopicName("t")].partitions[0]
    assert (partition.leader, partition.leader_epoch, partition.isr) == (NO_NODE, 1, (1,))
    cluster.boot(1)
    assert cluster.settle()
    partition = cluster.members[0].image.topics[TopicName("t")].partitions[0]
    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 2, (1,))


@pytest.mark.parametrize("is_allowed", [False, True])
def test_an_unclean_leader_is_elected_only_where_the_topic_allows_it(
    is_allowed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster(brokers=2)
    configs = {"unclean.leader.election.enable": str(is_allowed).lower()}
    member = cluster.members[0]
    planned = member.topics.plan(_assigned("t", [1, 0], configs))
    member.settle(lambda done: member.topics.create(planned, 10_000, done))
    path = "/brokers/topics/t/partitions/0/state"
    alone = json.dumps({**cluster.state("t"), "isr": [1]}).encode()
    cluster.service.write([SetData(path, alone)], 0)
    cluster.crash(1).expire()
    cluster.schedule.run_for(1_000)
    assert cluster.state("t")["leader"] == (0 if is_allowed else -1)
    assert ("unclean leader election" in caplog.text) == is_allowed


def test_unclean_elections_take_place_as_soon_as_the_setting_of_all_brokers_allows_them() -> None:
    cluster = Cluster(brokers=2)
    member = cluster.members[0]
    planned = member.topics.plan(_assigned("t", [1, 0]))
    member.settle(lambda done: member.topics.create(planned, 10_000, done))
    path = "/brokers/topics/t/partitions/0/state"
    alone = json.dumps({**cluster.state("t"), "isr": [1]}).encode()
    cluster.service.write([SetData(path, alone)], 0)
    cluster.crash(1).expire()
    cluster.schedule.run_for(1_000)
    assert cluster.state("t")["leader"] == -1
    allowed = {"unclean.leader.election.enable": "true"}
    altered = member.settle(
        lambda done: member.resource_configs.alter(ALL_BROKERS, lambda _: allowed, 10_000, done)
    )
    assert altered is None
    assert cluster.service.tree.get("/config/brokers/<default>").data == (
        b'{"version":1,"config":{"unclean.leader.election.enable":"true"}}'
    )
    cluster.schedule.run_for(1_000)
    assert cluster.state("t")["leader"] == 0


# Configs of brokers and groups


def test_configs_of_every_name_reach_the_image_of_all_brokers() -> None:
    cluster = Cluster(brokers=2)
    member = cluster.members[0]
    configs = {"consumer.session.timeout.ms": "50000"}
    names = {"g", "a/b", "..", ".", "%2F", "<default>", "käse 1*"}
    results: list[object] = []
    for name in sorted(names):
        resource = ConfigResource(ConfigKind.GROUP, name)
        member.resource_configs.alter(resource, lambda _: configs, 10_000, results.append)
    assert cluster.schedule.run(lambda: len(results) == len(names))
    assert cluster.settle()
    image = cluster.members[1].image
    assert {resource.name for resource in image.configs} == names
    assert image.configs_of(ConfigResource(ConfigKind.GROUP, "a/b")) == configs


def test_a_change_is_planned_again_on_the_configs_that_another_broker_wrote() -> None:
    cluster = Cluster(brokers=2)
    seen: list[dict[str, str]] = []

    def add(name: str):
        def change(configs):
            seen.append(dict(configs))
            return {**configs, name: "1"}

        return change

    results: list[object] = []
    for node, name in ((0, "a"), (1, "b")):
        alter = cluster.members[node].resource_configs.alter
        alter(ALL_BROKERS, add(name), 10_000, results.append)
    assert cluster.schedule.run(lambda: len(results) == 2)
    assert results == [None, None]
    assert len(seen) == 3, "the second writer plans twice"
    assert cluster.settle()
    assert cluster.members[0].image.configs_of(ALL_BROKERS) == {"a": "1", "b": "1"}
    assert cluster.members[1].image.configs_of(ALL_BROKERS) == {"a": "1", "b": "1"}


def _assigned(name: str, nodes: list[int], configs: dict[str, str] | None = None) -> NewTopic:
    return NewTopic(name, assignments=[(0, nodes)], configs=configs or {})


# Controllers


def test_the_next_controller_has_the_next_epoch() -> None:
    cluster = Cluster()
    assert cluster.service.tree.get("/controller_epoch").data == b"1"
    old = cluster.controller
    cluster.crash(old).expire()
    assert cluster.settle()
    assert cluster.controller != old
    assert cluster.service.tree.get("/controller_epoch").data == b"2"


def test_a_fenced_controller_writes_nothing() -> None:
    """Another broker incremented the epoch, and this one does not know it yet."""
    cluster = Cluster(brokers=1)
    controller = cluster.members[0]
    cluster.service.write([SetData("/controller_epoch", b"9")], 0)
    planned = controller.topics.plan(_assigned("t", [0]))
    answers: list[object] = []
    controller.topics.create(planned, 2_000, answers.append)
    assert cluster.schedule.run(lambda: not controller.member.is_controller)
    assert cluster.service.tree.children("/brokers/topics/t/partitions") == []


def test_a_controller_whose_node_was_deleted_is_elected_again() -> None:
    cluster = Cluster(brokers=1)
    cluster.service.write([Delete("/controller")], 0)
    cluster.schedule.run_for(100)
    assert cluster.members[0].member.is_controller
    assert cluster.service.tree.get("/controller_epoch").data == b"2"


def test_a_controller_keeps_its_term_over_a_short_disconnection() -> None:
    cluster = Cluster()
    node = cluster.controller
    store = cluster.store(node)
    store.suspend()
    cluster.schedule.run_for(50)
    store.resume()
    assert store.state is SessionState.CONNECTED
    assert cluster.members[node].create("t", 2) is None
    assert cluster.settle()
    assert cluster.controller == node
    assert cluster.service.tree.get("/controller_epoch").data == b"1"


def test_an_image_catches_up_after_a_disconnection() -> None:
    cluster = Cluster()
    other = next(n for n in cluster.members if n != cluster.controller)
    cluster.store(other).suspend()
    cluster.members[cluster.controller].create("t", 2)
    cluster.members[cluster.controller].create("gone", 1)
    cluster.members[cluster.controller].delete("gone")
    assert "t" not in cluster.members[other].image.topics
    cluster.store(other).resume()
    assert cluster.settle()
    assert "t" in cluster.members[other].image.topics


# Sessions and restarts


def test_a_broker_with_an_expired_session_registers_with_a_new_epoch() -> None:
    cluster = Cluster()
    cluster.members[0].create("t", 6)
    other = next(n for n in cluster.members if n != cluster.controller)
    before = cluster.members[0].image.brokers[NodeId(other)].epoch
    cluster.store(other).expire()
    assert cluster.schedule.run(
        lambda: cluster.settled() and cluster.members[0].image.brokers[NodeId(other)].epoch > before
    )
    for partition in cluster.members[0].image.topics[TopicName("t")].partitions:
        if partition.replicas == (other,):
            assert partition.leader_epoch >= 1


def test_a_broker_whose_session_expired_leads_nothing_until_it_is_registered_again() -> None:
    cluster = Cluster()
    assert cluster.members[0].create("t", 6) is None
    assert cluster.settle()
    member, epoch = cluster.members[1], cluster.members[1].image.brokers[NodeId(1)].epoch
    seen = len(member.images)
    assert led_by(member, 1)
    cluster.store(1).expire()
    assert len(member.images) == seen + 1, "at once"
    assert not led_by(member, 1)
    assert led_by(member, 0), "the others go on"
    assert cluster.settle()
    assert member.image.brokers[NodeId(1)].epoch > epoch
    assert all(image.brokers[NodeId(1)].epoch > epoch for image in member.images[seen + 1 :]), (
        "no image between shows the old registration"
    )


def test_a_session_lost_while_the_store_is_read_again_ends_leading_at_once() -> None:
    cluster = Cluster()
    assert cluster.members[0].create("t", 6) is None
    assert cluster.settle()
    member, store = cluster.members[1], cluster.store(1)
    store.suspend()
    store.resume()
    assert not member.member.view.is_loaded
    assert led_by(member, 1)
    store.expire()
    assert not led_by(member, 1)
    assert cluster.settle()


def test_a_suspended_broker_goes_on_leading_and_its_session_may_expire() -> None:
    cluster = Cluster()
    assert cluster.members[0].create("t", 6) is None
    assert cluster.settle()
    member, store = cluster.members[1], cluster.store(1)
    seen = len(member.images)
    store.suspend()
    assert not store.may_have_expired()
    elapsed: list[bool] = []
    cluster.schedule.after(SESSION_TIMEOUT_MS, lambda: elapsed.append(store.may_have_expired()))
    assert cluster.schedule.run(lambda: bool(elapsed))
    assert elapsed == [True]
    assert len(member.images) == seen
    assert led_by(member, 1)
    store.resume()
    assert not store.may_have_expired()


def test_a_restarted_broker_is_elected_with_new_epochs_before_its_old_session_expires() -> None:
    cluster = Cluster()
    cluster.members[0].create("t", 6)
    other = next(n for n in cluster.members if n != cluster.controller)
    old_session = cluster.crash(other)
    again = cluster.boot(other)
    assert cluster.settle()
    old_session.expire()
    assert cluster.settle()
    led = [p for p in again.image.topics[TopicName("t")].partitions if p.leader == other]
    assert led
    assert all(partition.leader_epoch >= 1 for partition in led)


def test_a_recreated_topic_replaces_the_old_one_in_all_images() -> None:
    cluster = Cluster()
    cluster.members[0].create("t", 3)
    assert cluster.settle()
    other = next(n for n in cluster.members if n != cluster.controller)
    old_id = cluster.members[other].image.topics[TopicName("t")].id
    cluster.members[cluster.controller].delete("t")
    cluster.members[cluster.controller].create("t", 1)
    assert cluster.settle()
    assert cluster.members[other].image.topics[TopicName("t")].id != old_id
    assert len(cluster.members[other].image.topics[TopicName("t")].partitions) == 1


def test_a_request_to_delete_a_missing_topic_is_removed() -> None:
    cluster = Cluster()
    cluster.service.write([Create("/admin/delete_topics/ghost")], 0)
    cluster.schedule.run_for(100)
    assert cluster.service.tree.children("/admin/delete_topics") == []


def test_a_late_request_to_delete_a_topic_does_not_delete_its_successor() -> None:
    cluster = Cluster()
    member = cluster.members[0]
    member.create("t", 3)
    old = member.image.topics[TopicName("t")]
    member.delete("t")
    member.create("t", 2)
    assert cluster.settle()
    new = member.image.topics[TopicName("t")]
    assert member.settle(lambda done: member.topics.delete(old, 1_000, done)) is None
    cluster.schedule.run_for(2_000)
    assert cluster.service.tree.children("/admin/delete_topics") == []
    assert member.image.topics[TopicName("t")].id == new.id
    assert len(member.image.topics[TopicName("t")].partitions) == 2
    assert member.delete("t") is None


def test_a_delete_request_waits_behind_one_for_an_older_topic() -> None:
    cluster = Cluster()
    member = cluster.members[0]
    member.create("t")
    assert cluster.settle()
    other = znodes.encode_delete_request(b"o" * 16)
    cluster.service.write([Create("/admin/delete_topics/t", other)], 0)
    assert member.delete("t") is None
    cluster.schedule.run_for(2_000)
    assert cluster.service.tree.children("/admin/delete_topics") == []
    assert member.image.topics == {}


# Churn


class Churn:
    """Random faults and topic changes from a seed; leader epochs are checked at every step."""

    def __init__(self, seed: int) -> None:
        self.cluster = Cluster(seed)
        self.random = SeededRandom(seed)
        self.epochs: dict[tuple[bytes, int], int] = {}
        self.dead: list[SimulatedStore] = []
        self.count = 0

    def run(self, steps: int) -> None:
        for _ in range(steps):
            action = (self.work, self.work, self.break_session, self.crash, self.restart)
            action[self.random.below(len(action))]()
            for _ in range(self.random.below(40)):
                self.cluster.schedule.step()
                self.check_epochs()

    def work(self) -> None:
        nodes = sorted(self.cluster.members)
        member = self.cluster.members[nodes[self.random.below(len(nodes))]]
        topics = sorted(member.image.topics)
        if topics and self.random.below(3) == 0:
            topic = member.image.topics[topics[self.random.below(len(topics))]]
            member.topics.delete(topic, 1_000, lambda error: None)
        elif member.image.brokers:
            self.count += 1
            planned = member.topics.plan(NewTopic(f"t{self.count}", 2))
            member.topics.create(planned, 1_000, lambda error: None)

    def break_session(self) -> None:
        nodes = sorted(self.cluster.members)
        store = self.cluster.store(nodes[self.random.below(len(nodes))])
        if store.state is SessionState.CONNECTED:
            store.expire() if self.random.below(2) else store.suspend()
        elif store.state is SessionState.SUSPENDED:
            store.expire() if self.random.below(2) else store.resume()

    def crash(self) -> None:
        nodes = sorted(self.cluster.members)
        if len(nodes) > 1:
            self.dead.append(self.cluster.crash(nodes[self.random.below(len(nodes))]))

    def restart(self) -> None:
        missing = [node for node in range(3) if node not in self.cluster.members]
        if missing:
            self.cluster.boot(missing[0])
        if self.dead:
            self.dead.pop().expire()

    def check_epochs(self) -> None:
        tree = self.cluster.service.tree
        for topic in tree.children("/brokers/topics"):
            data = json.loads(tree.get(f"/brokers/topics/{topic}").data)
            for index in range(len(data["partitions"])):
                path = f"/brokers/topics/{topic}/partitions/{index}/state"
                if tree.exists(path) is None:
                    continue
                epoch = self.cluster.state(topic, index)["leader_epoch"]
                key = (data["topic_id"], index)
                assert epoch >= self.epochs.get(key, 0), "leader epochs never go back"
                self.epochs[key] = epoch

    def recover(self) -> None:
        for store in self.dead:
            store.expire()
        for node in range(3):
            if node not in self.cluster.members:
                self.cluster.boot(node)
            elif self.cluster.store(node).state is SessionState.SUSPENDED:
                self.cluster.store(node).resume()


@pytest.mark.parametrize("seed", range(1, 16))
def test_a_cluster_recovers_from_any_churn(seed: int) -> None:
    churn = Churn(seed)
    churn.run(40)
    churn.recover()
    assert churn.cluster.settle(), "all images are equal, and every partition has a leader"
    churn.check_epochs()
    assert sum(m.member.is_controller for m in churn.cluster.members.values()) == 1
