"""A restarted broker and the ephemeral nodes of its earlier process (KAFKA-1029, KAFKA-7165)."""

import pytest

from sawlog.cluster import znodes
from sawlog.cluster.broker_registration import EXPIRY_MS
from sawlog.core.ids import NodeId, TopicName
from sawlog.core.store import Create
from sawlog.simulation.schedule import Schedule
from sawlog.simulation.simulated_store import SimulatedStore, StoreService
from support.cluster.member import MemberHarness

DIRECTORY = "directory-of-{}"


class RestartingBrokers:
    """Brokers 1 and 2, each with a data directory of its own."""

    def __init__(self, seed: int = 1) -> None:
        self.schedule = Schedule(seed)
        self.service = StoreService(self.schedule, seed)
        self.stores: dict[int, SimulatedStore] = {}

    def boot(self, node: int, directory_id: str | None = None) -> MemberHarness:
        store = self.stores[node] = self.service.connect()
        member = MemberHarness(
            self.schedule, store, node, directory=directory_id or DIRECTORY.format(node)
        )
        member.member.start()
        return member

    def started(self, node: int) -> MemberHarness:
        member = self.boot(node)
        assert self.schedule.run(lambda: bool(member.images))
        return member

    def owner(self, path: str) -> int:
        stat = self.service.tree.exists(path)
        return 0 if stat is None else stat.owner


@pytest.mark.parametrize("seed", range(20))
def test_a_killed_controller_is_back_before_its_old_session_ends(seed: int) -> None:
    world = RestartingBrokers(seed)
    first = world.started(1)
    assert first.create("t", 3) is None
    epoch = first.image.brokers[NodeId(1)].epoch
    old = world.stores[1]
    old.crash()
    again = world.started(1)
    assert world.owner(znodes.broker_path(NodeId(1))) == world.stores[1].session_id
    assert world.owner(znodes.CONTROLLER) == world.stores[1].session_id
    assert again.image.brokers[NodeId(1)].epoch > epoch, "a new broker epoch"
    partitions = again.image.topics[TopicName("t")].partitions
    assert [(p.leader, p.leader_epoch) for p in partitions] == [(1, 1)] * 3, "a new leader epoch"
    old.expire()
    world.schedule.run_for(100)
    assert world.owner(znodes.broker_path(NodeId(1))) == world.stores[1].session_id
    assert world.owner(znodes.CONTROLLER) == world.stores[1].session_id


@pytest.mark.parametrize("seed", range(20))
def test_a_killed_broker_does_not_end_the_term_of_another_controller(seed: int) -> None:
    world = RestartingBrokers(seed)
    controller = world.started(2)
    world.started(1)
    controller_session = world.stores[2].session_id
    world.stores[1].crash()
    world.started(1)
    assert world.owner(znodes.CONTROLLER) == controller_session
    assert controller.member.is_controller
    assert world.schedule.run(
        lambda: (
            controller.image.brokers[NodeId(1)].epoch
            == world.service.tree.get("/brokers/ids/1").stat.created
        )
    )


def test_another_data_directory_does_not_replace_a_registration() -> None:
    world = RestartingBrokers()
    world.started(1)
    owner = world.stores[1].session_id
    other = world.boot(1, "another-directory")
    world.schedule.run_for(5_000)
    assert not other.images
    assert world.owner(znodes.broker_path(NodeId(1))) == owner


def test_a_copy_of_the_directory_elsewhere_is_refused_while_the_original_runs() -> None:
    world = RestartingBrokers()
    world.started(1)
    owner = world.stores[1].session_id
    store = world.service.connect()
    copy = MemberHarness(world.schedule, store, 1, directory=DIRECTORY.format(1), host="elsewhere")
    copy.member.start()
    world.schedule.run_for(EXPIRY_MS - 1_000)
    assert not copy.refused, "the session of a dead process may last that long"
    world.schedule.run_for(2_000)
    (refused,) = copy.refused
    assert "at host1:9093 and with the same data directory id (directory-of-1)" in str(refused)
    assert world.owner(znodes.broker_path(NodeId(1))) == owner
    world.stores[1].crash()
    world.stores[1].expire()
    assert world.schedule.run(lambda: bool(copy.images)), "it registers when the id is free"


def test_a_directory_without_an_id_waits_until_the_old_session_ends() -> None:
    world = RestartingBrokers()
    path = znodes.broker_path(NodeId(1))
    first = world.started(2)
    world.stores[2].crash()
    assert first.images
    store = world.service.connect()
    member = MemberHarness(world.schedule, store, 1)
    dead = world.service.connect()
    data = member.member._registration._data()
    dead.multi([Create(path, data, ephemeral=True)], lambda _: None)
    assert world.schedule.run(lambda: world.owner(path) != 0)
    dead.crash()
    member.member.start()
    world.schedule.run_for(5_000)
    assert world.owner(path) == dead.session_id
    dead.expire()
    assert world.schedule.run(lambda: world.owner(path) == store.session_id)


def test_a_process_whose_new_session_finds_its_old_registration_replaces_it() -> None:
    """KAFKA-7165: the ensemble has not deleted the ephemerals of the old session yet."""
    world = RestartingBrokers()
    member = world.started(1)
    store, path = world.stores[1], znodes.broker_path(NodeId(1))
    data = world.service.tree.get(path).data
    stale = world.service.connect()
    store.expire()
    stale.multi([Create(path, data, ephemeral=True)], lambda _: None)
    assert world.schedule.run(lambda: world.owner(path) == stale.session_id)
    stale.crash()
    assert world.schedule.run(lambda: world.owner(path) == store.session_id)
    assert world.schedule.run(
        lambda: member.image.brokers[NodeId(1)].epoch == world.service.tree.get(path).stat.created
    )
